"""What comes is cut where a request may end, and what is kept of it is what somebody may ask for."""

from __future__ import annotations

from simulator.servers.http.pieces import MAX_CUTS, Pieces

CHUNKED = [(b"transfer-encoding", b"chunked")]


def within(data: bytes) -> Pieces:
    pieces = Pieces()
    pieces.is_within = True
    pieces.come(data)
    return pieces


def test_where_no_request_is_under_way_all_is_one_piece() -> None:
    pieces = Pieces()
    pieces.come(b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n")
    assert pieces.afresh() == pieces.begun == b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"
    assert pieces.unread == b""


def test_a_body_of_known_length_is_a_piece() -> None:
    pieces = within(b"abcGET")
    pieces.body_bytes = 4
    assert pieces.onwards([(b"host", b"x"), (b"content-length", b"7")], knows_method=True) == b"abc"
    assert (pieces.unread, pieces.begun) == (b"GET", b"")


def test_a_line_that_comes_in_pieces_is_put_together() -> None:
    pieces = Pieces()
    pieces.come(b"PO")
    pieces.afresh()
    pieces.done(in_line=True)
    pieces.come(b"STER / HTTP/1.1\r\nHost: x\r\n\r\nGET")
    assert pieces.onwards(None, knows_method=False) == b"STER / HTTP/1.1\r\nHost: x\r\n\r\n"
    assert pieces.begun == b"POSTER / HTTP/1.1\r\nHost: x\r\n\r\n"


def test_a_line_whose_beginning_is_gone_is_not_known() -> None:
    pieces = within(b"ER / HTTP/1.1\r\n\r\n")
    pieces.onwards(None, knows_method=False)
    assert pieces.begun == b""


def test_many_empty_lines_keep_nobody_busy() -> None:
    pieces = within(b"\r\n\r\n" * 10 * MAX_CUTS)
    taken = []
    while pieces.unread:
        taken.append(pieces.onwards(CHUNKED, knows_method=True))
    assert b"".join(taken) == b"\r\n\r\n" * 10 * MAX_CUTS
    assert len(taken) == MAX_CUTS + 1


def test_what_was_not_read_comes_again() -> None:
    pieces = Pieces()
    pieces.come(b"headbody")
    pieces.afresh()
    pieces.give_back(4)
    assert pieces.unread == b"body"


def test_nothing_is_kept_of_what_was_read() -> None:
    pieces = Pieces()
    pieces.come(b"GET / HTTP/1.1\r\n\r\n")
    pieces.afresh()
    pieces.done(in_line=False)
    assert (pieces.begun, pieces.unread) == (b"", b"")
