"""Mails taken apart, whatever a sender handed in: nothing fails, nothing takes long, nothing can do harm."""

from __future__ import annotations

import base64
import io
import quopri
import time
import zipfile
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.servers import anatomy
from simulator.servers.anatomy import Anatomy, content_of, safe_name, take_apart, with_images
from tests.simulator.servers.test_pixels import png

PNG = png(3, 2)
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert()'/>"


def multipart(*parts: bytes, kind: bytes = b"mixed", boundary: bytes = b"b") -> bytes:
    body = b"".join(b"--" + boundary + b"\r\n" + part + b"\r\n" for part in parts)
    head = b"Content-Type: multipart/" + kind + b'; boundary="' + boundary + b'"\r\n'
    return b"Subject: x\r\n" + head + b"\r\n" + body + b"--" + boundary + b"--\r\n"


def image(cid: bytes, content: bytes = PNG, kind: bytes = b"image/png") -> bytes:
    head = (
        b"Content-Type: "
        + kind
        + b"\r\nContent-Transfer-Encoding: base64\r\nContent-ID: <"
        + cid
        + b">\r\n\r\n"
    )
    return head + base64.b64encode(content)


def written_out(content: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def test_headers_text_html_and_attachments() -> None:
    """What a person wants to see."""
    raw = multipart(
        b"Content-Type: text/plain; charset=iso-8859-1\r\n\r\nGr\xfc\xdfe",
        b"Content-Type: text/html; charset=utf-8\r\n\r\n<p>a &lt; b</p>",
        b'Content-Type: application/pdf; name="bill.pdf"\r\nContent-Disposition: attachment\r\n\r\n%PDF',
    )
    found = take_apart(b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n" + raw)

    assert found.headers[0] == ("Subject", "Grüße")
    assert (found.text, found.html, found.trouble) == ("Grüße", "<p>a &lt; b</p>", None)
    assert [(part.name, part.media_type, part.is_attachment) for part in found.parts][2] == (
        "bill.pdf",
        "application/pdf",
        True,
    )
    assert content_of(raw, 2) == (found.parts[2], b"%PDF")
    assert content_of(raw, 3) is None


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        (b"\r\n", ""),
        (b"only a body without any header\r\n", ""),
        (b"\r\njust a body", "just a body"),
        (b"Subject: x", ""),
        (b"Content-Type: text/plain; charset=nonsense\r\n\r\n\xfc", "ü"),
        (b"Content-Type: text/plain; charset=ascii\r\n\r\n\xc3\xbc", "ü"),
        (b"Content-Type: text/plain; charset=iso-2022-jp\r\n\r\n\x1b$B$3\x1b(B", "こ"),
        (b"Content-Transfer-Encoding: base64\r\n\r\n!!!", None),
        (b"Content-Transfer-Encoding: x-nonsense\r\n\r\nabc", "abc"),
        (b"Content-Type: /;;=\r\n\r\nabc", "abc"),
        (b"Content-Type: multipart/mixed\r\n\r\nno boundary", "no boundary"),
        (b'Content-Type: multipart/mixed; boundary=""\r\n\r\n--\r\n\r\nx', None),
    ],
)
def test_bytes_that_are_hardly_a_mail(raw: bytes, text: str | None) -> None:
    """Have an anatomy all the same; what is text is shown as text."""
    found = take_apart(raw)

    assert isinstance(found, Anatomy)
    if text is not None and raw != b"only a body without any header\r\n":
        assert (found.text or "").strip() == text


def test_raw_8_bit_headers_are_shown_somehow() -> None:
    """KOI8 without any encoding; no lone surrogate is left that would break the answer."""
    (subject, *_) = take_apart(b"Subject: \xcf\xf0\xe8\r\n\r\n").headers

    assert subject[0] == "Subject"
    subject[1].encode("utf-8", "strict")


def test_headers_stay_on_their_line_and_within_bounds() -> None:
    """A header bomb fills no screen, and no header begins a new one."""
    bomb = b"".join(b"X-%d: y\r\n" % number for number in range(10_000))
    found = take_apart(bomb + b"X-Long: " + b"y" * 200_000 + b"\r\n\r\n")

    assert len(found.headers) == anatomy.MAX_FIELDS
    folded = take_apart(b"Subject: a\r\n b\xe2\x80\xa8c\r\n\r\n").headers[0][1]
    assert "\n" not in folded
    assert "\u2028" not in folded
    assert len(take_apart(b"X: " + b"y" * 200_000 + b"\r\n\r\n").headers[0][1]) <= anatomy.MAX_FIELD_CHARS


def nested(depth: int) -> bytes:
    heads = [
        b'Subject: x\r\nContent-Type: multipart/mixed; boundary="b%d"\r\n\r\n--b%d\r\n' % (level, level)
        for level in range(depth)
    ]
    ends = [b"\r\n--b%d--\r\n" % level for level in reversed(range(depth))]
    return b"".join([*heads, b"Content-Type: text/plain\r\n\r\nthe heart", *ends])


def test_a_mail_of_64_levels_shows_its_heart() -> None:
    """As deep as any gateway lets through."""
    assert (take_apart(nested(64)).text or "").strip() == "the heart"


def test_a_mail_of_ten_thousand_levels_ends_at_once() -> None:
    """Nobody waits for it, no stack overflows, and its headers are there."""
    found = take_apart(nested(10_000))

    assert found.trouble is not None
    assert "look at its bytes" in found.trouble
    assert found.headers[0] == ("Subject", "x")
    assert content_of(nested(10_000), 0) is None


#: Each of them kept the library busy for between half a minute and for ever, at a megabyte.
BOMBS = {
    "encoded words": b"Subject: " + b"=?utf-8?q?=C3=BC?=" * 50_000,
    "halves of encoded words": b"Subject: " + b"=?a?q?" * 150_000,
    "parameters": b"Content-Type: text/plain" + b"; a=b" * 200_000,
    "semicolons": b"Content-Disposition: attachment" + b";" * 1_000_000,
    "lines within 199 levels": b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(199)
    )
    + b"--x\r\n" * 150_000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_mail_that_takes_for_ever_to_read_is_not_read_to_its_end(name: str) -> None:
    """What of it is shown is shown at once."""
    began = time.process_time()
    found = take_apart(BOMBS[name] + b"\r\n\r\nhello\r\n")
    content_of(BOMBS[name] + b"\r\n\r\nhello\r\n", 0)

    assert time.process_time() - began < 2.0
    assert found.headers


@pytest.mark.parametrize(
    ("name", "piece"),
    [("MOST_PARTS_READ", b"--b\r\n\r\nx\r\n"), ("MOST_FIELDS_READ", b"--b\r\nA: b\r\n\r\nx\r\n")],
)
def test_of_a_mail_with_too_much_in_it_the_head_is_shown(
    name: str, piece: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anatomy, name, 9)
    raw = b"Subject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n" + piece * 12
    found = take_apart(raw)

    assert (
        found.trouble
        == "it has too many parts, levels of parts, or header fields to be taken apart; look at its bytes"
    )
    assert (found.headers[0], found.parts) == (("Subject", "x"), ())
    assert content_of(raw, 0) is None


def test_a_mail_of_many_parts_shows_some() -> None:
    """And says so."""
    found = take_apart(multipart(*[b"Content-Type: text/plain\r\n\r\nx"] * (anatomy.MAX_PARTS + 5)))

    assert len(found.parts) == anatomy.MAX_PARTS
    assert found.trouble == f"only {anatomy.MAX_PARTS} of its {anatomy.MAX_PARTS + 5} parts are shown"


def test_a_large_mail_shows_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so."""
    monkeypatch.setattr(anatomy, "MAX_BYTES", 100)
    found = take_apart(b"Subject: x\r\n\r\n" + b"y" * 1000)

    assert found.trouble == "only the first 100 bytes are shown"
    assert len(found.text or "") < 100


def test_a_zip_bomb_stays_closed() -> None:
    """Nothing here unpacks: an attachment is as large as it came."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("bomb", bytes(50_000_000))
    encoded = base64.encodebytes(packed.getvalue()).replace(b"\n", b"\r\n")
    head = b"Content-Type: application/zip; name=b.zip\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    (part,) = take_apart(multipart(head + encoded)).parts

    assert (part.name, part.size_bytes) == ("b.zip", len(packed.getvalue()))
    assert part.size_bytes < 100_000


def test_images_of_the_mail_are_put_into_its_html() -> None:
    """By Content-ID, the first of two with the same one; anything else that is referred to is not fetched."""
    raw = multipart(
        b"Content-Type: text/html\r\n\r\n<img src=cid:a@x><img src='cid:B@x'><img src=\"cid:none\">",
        image(b"a@x"),
        image(b"a@x", png(9, 9)),
        image(b"b@x"),
        b"Content-Type: text/html\r\nContent-ID: <none>\r\n\r\n<script>1</script>",
        kind=b"related",
    )
    html = take_apart(raw).html
    assert html is not None

    assert with_images(html, raw).split("<img") == [
        "",
        f" src={written_out(PNG)}>",
        f" src='{written_out(PNG)}'>",
        ' src="about:blank">',
    ]
    assert content_of(raw, 1) == (take_apart(raw).parts[1], PNG)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        (b"a/b", "cid:a/b"),
        (b"../../../x", "cid:../../../x"),
        (b"a b&c@x", "cid:a%20b&amp;c%40x"),
        (b"100%@x", "cid:100%25@x"),
    ],
)
def test_an_image_is_found_under_any_name(name: bytes, reference: str) -> None:
    """Names with slashes, and names written as RFC 2392 wants them or as mailers do."""
    assert with_images(reference, multipart(image(name), kind=b"related")) == written_out(PNG)


def test_a_drawing_is_an_image_like_any_other() -> None:
    """Scripts in it do not run where a browser shows it as an image; the page around it forbids them anyway."""
    raw = multipart(image(b"a", SVG, b"image/svg+xml"), kind=b"related")

    assert with_images("cid:a", raw) == written_out(SVG, "image/svg+xml")


BOMB = png(10_000, 10_000)


@pytest.mark.parametrize(
    ("html", "part"),
    [
        pytest.param("cid:a", image(b"a", BOMB), id="by Content-ID"),
        pytest.param("cid:a", image(b"a", BOMB, b"image/svg+xml"), id="under a wrong type"),
        pytest.param("cid:a", image(b"a", b"<svg><image href='data:image/png;base64,AA'/></svg>", b"image/svg+xml"), id="in a drawing"),
        pytest.param("cid:a", image(b"a", b"\0\0\0 ftypavif", b"image/avif"), id="nobody knows"),
        pytest.param(written_out(BOMB), image(b"a"), id="written out"),
        pytest.param(written_out(BOMB).replace("+", "&#43;").replace("=", "%3D"), image(b"a"), id="written out oddly"),
    ],
)  # fmt: skip
def test_an_image_bomb_is_not_put_into_a_page(html: str, part: bytes) -> None:
    """Some bytes that a browser would unpack to four hundred megabytes; here nobody unpacks them at all."""
    assert with_images(html, multipart(part, kind=b"related")) == "about:blank"


def test_many_images_are_a_bomb_too() -> None:
    """Each of them is small enough; together they are not."""
    raw = multipart(*[image(b"%d" % number, png(4_000, 2_500)) for number in range(4)], kind=b"related")
    shown = with_images(" ".join(f"cid:{number}" for number in range(4)), raw).split(" ")

    assert [each[:4] for each in shown] == ["data", "data", "abou", "abou"]


def test_images_in_html_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture of a gigabyte is not written into a page."""
    monkeypatch.setattr(anatomy, "MAX_INLINE_BYTES", 4)
    raw = multipart(image(b"a"), kind=b"related")

    assert with_images("cid:a", raw) == "about:blank"


@pytest.mark.parametrize("more", range(5))
@pytest.mark.parametrize("charset", ["utf-8", "gb18030", "euc-jp"])
@pytest.mark.parametrize("encoding", ["8bit", "base64", "quoted-printable"])
def test_a_text_that_is_cut_is_cut_between_characters(
    encoding: str, charset: str, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a character at the end would make nonsense of all of it."""
    head = f"Content-Type: text/plain; charset={charset}\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n".encode()
    words = "愛" * 200
    plain = words.encode(charset)
    monkeypatch.setattr(anatomy, "MAX_BYTES", len(head) + 100 + more)
    encoded = {
        "8bit": plain,
        "base64": base64.b64encode(plain),
        "quoted-printable": quopri.encodestring(plain),
    }
    found = take_apart(head + encoded[encoding])

    assert found.trouble == f"only the first {anatomy.MAX_BYTES} bytes are shown"
    assert found.text
    assert words.startswith(found.text.rstrip("=0123456789ABCDEF"))


def test_what_is_shown_in_part_ends_with_a_whole_character(monkeypatch: pytest.MonkeyPatch) -> None:
    """A header field, a text, the name of a file."""
    monkeypatch.setattr(anatomy, "MAX_FIELD_CHARS", 10)
    monkeypatch.setattr(anatomy, "MAX_TEXT_CHARS", 10)
    monkeypatch.setattr(anatomy, "MAX_NAME_CHARS", 10)
    family = "👩\u200d👩\u200d👧"

    found = take_apart(f"Subject: {family * 3}\r\n\r\n{family * 3}".encode())
    assert (found.headers[0][1], found.text) == (family * 2, family * 2)
    assert safe_name("ẹ\u0301" * 9, 1, "text/plain").encode("utf-8")


EVIL_NAMES = (
    "../../../etc/passwd",
    "..\\..\\windows\\system32\\evil.dll",
    "/etc/cron.d/x",
    "C:\\autoexec.bat",
    "....",
    ".bashrc",
    "a\x00.txt\r\nX: y",
    'a".txt; x="',
    "<img src=x onerror=alert()>.svg",
    "a" * 5000 + ".txt",
    "\u202etxt.exe",
    "",
)


@pytest.mark.parametrize("name", EVIL_NAMES)
def test_a_file_name_can_do_no_harm(name: str) -> None:
    """No folder, no hidden file, no quote, no line break, no end in sight."""
    safe = safe_name(name, 3, "text/plain")

    assert safe
    assert not safe.startswith(".")
    assert set(safe) & set("/\\:\"'<>|?*\r\n\x00;\u202e") == set()
    assert len(safe) <= anatomy.MAX_NAME_CHARS
    assert PurePosixPath(safe).name == PureWindowsPath(safe).name == safe


def test_a_file_name_keeps_what_people_need() -> None:
    """Letters of all scripts, and the ending even of a long one."""
    assert safe_name("Rechnung Nr. 7 (Köln).pdf", 1, "application/pdf") == "Rechnung Nr. 7 (Köln).pdf"
    assert safe_name("a" * 500 + ".pdf", 1, "application/pdf").endswith("a.pdf")
    assert safe_name("", 2, "image/png") == "part-2.png"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from(
                [
                    b"\r\n",
                    b"\r\n\r\n",
                    b"Content-Type: multipart/mixed; boundary=b\r\n",
                    b"--b\r\n",
                    b"--b--\r\n",
                    b"Content-Type: message/rfc822\r\n",
                    b"Content-Transfer-Encoding: base64\r\n",
                    b"Content-Transfer-Encoding: quoted-printable\r\n",
                    b"Content-Disposition: attachment; filename*=utf-8''%ff%00..%2f\r\n",
                    b"Content-Type: text/html; charset*=x'y'z\r\n",
                    b"Content-ID: <=?x?b?!?=>\r\n",
                    b"Subject: =?utf-8?b?////?= =?x?q?=ZZ?=\r\n",
                ]
            ),
        ),
        max_size=14,
    )
)
def test_anything_has_an_anatomy(pieces: list[bytes]) -> None:
    """Of pieces of mails in any order: every part has its bytes, and all of it is characters."""
    raw = b"".join(pieces)
    found = take_apart(raw)

    for part in found.parts:
        again = content_of(raw, part.number)
        assert again is not None
        assert again[0] == part
        assert len(again[1]) == part.size_bytes
    if found.html is not None:
        with_images(found.html, raw)
    for name, value in found.headers:
        f"{name}{value}".encode("utf-8", "strict")
