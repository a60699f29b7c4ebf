"""Tests of the syntax of SMTP commands: what is a path, what is a parameter, and what is refused how."""

from __future__ import annotations

import pytest

from simulator.servers.smtp.syntax import (
    MAIL_PARAMETERS,
    RCPT_PARAMETERS,
    Objection,
    from_xtext,
    is_host,
    read_parameters,
    read_path,
)

#: 255 octets, in labels of 63 at most.
LONG_DOMAIN = ".".join(["d" * 63] * 3 + ["d" * 63])


@pytest.mark.parametrize(
    ("path", "mailbox"),
    [
        ("<a@x.example>", "a@x.example"),
        (" <a@x.example>", "a@x.example"),
        ("<a.b+c=d!e@x.example>", "a.b+c=d!e@x.example"),
        ('<"a b>c"@x.example>', '"a b>c"@x.example'),
        ('<"a\\"b"@x.example>', '"a\\"b"@x.example'),
        ("<a@[192.0.2.1]>", "a@[192.0.2.1]"),
        ("<a@[IPv6:2001:db8::1]>", "a@[IPv6:2001:db8::1]"),
        ("<a@localhost>", "a@localhost"),
        ("<a@my_container>", "a@my_container"),
        ("<@r.example,@s.example:a@x.example>", "a@x.example"),
        ("<jürgen@bücher.example>", "jürgen@bücher.example"),
        ("<" + "l" * 64 + "@x.example>", "l" * 64 + "@x.example"),
        ("<" + "l" * 64 + "@" + LONG_DOMAIN + ">", "l" * 64 + "@" + LONG_DOMAIN),
        ("<a@[tag:content]>", "a@[tag:content]"),
    ],
)
def test_good_paths(path: str, mailbox: str) -> None:
    for keyword in ("FROM:", "TO:", "to:"):
        assert read_path(f"{keyword}{path} X=1", keyword.upper()) == (mailbox, " X=1")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a@x.example",
        "<a@x.example",
        "a@x.example>",
        "<a>",
        "<@x.example>",
        "<a@>",
        "<user example.com>",
        "<@route.example user@x.example>",
        "<a b@x.example>",
        "<a@b@x.example>",
        "<a\r@x.example>",
        "<a\0@x.example>",
        "<a@x.example\r>",
        "<.a@x.example>",
        "<a..b@x.example>",
        "<a@x..example>",
        "<a@-x.example>",
        "<a@x.example.>",
        "<<a@x.example>>",
        "<a@x.example>SIZE=1",
        "< a@x.example>",
        "<a\udcff@x.example>",
        "<" + "l" * 65 + "@x.example>",
        "<" + "ü" * 33 + "@x.example>",
        "<a@" + LONG_DOMAIN + "x>",
        "<a@" + "l" * 64 + ".example>",
        "<a@[192.0.2.256]>",
        "<a@[IPv6:2001:db8::g]>",
        "<a@[IPv6:fe80::1%eth0]>",
        "<a@[]>",
        "<a@x.example>\tSIZE=1",
        "Bob <a@x.example>",
    ],
)
def test_bad_paths_are_refused_with_501(path: str) -> None:
    for keyword, enhanced in (("FROM:", b"5.1.7"), ("TO:", b"5.1.3")):
        with pytest.raises(Objection) as caught:
            read_path(keyword + path, keyword)
        assert caught.value.reply.startswith(b"501 " + enhanced)


def test_the_null_path_is_a_sender_and_no_recipient() -> None:
    """RFC 5321, section 4.5.5; bare `Postmaster` is the reverse (section 4.1.1.3)."""
    assert read_path("FROM:<>", "FROM:") == ("", "")
    assert read_path("TO:<Postmaster>", "TO:") == ("Postmaster", "")
    for arg, keyword in (("TO:<>", "TO:"), ("FROM:<postmaster>", "FROM:")):
        with pytest.raises(Objection):
            read_path(arg, keyword)


@pytest.mark.parametrize(
    ("parameters", "known"),
    [
        (" SIZE=38677 AUTH=<>", MAIL_PARAMETERS),
        (" BODY=8BITMIME SMTPUTF8", MAIL_PARAMETERS),
        (" body=7bit ret=HDRS envid=QQ314159", MAIL_PARAMETERS),
        (" AUTH=e+3Dmc2@example.com", MAIL_PARAMETERS),
        (" NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;Bob@x.example", RCPT_PARAMETERS),
        (" NOTIFY=NEVER", RCPT_PARAMETERS),
        (" ORCPT=rfc822;Bob+2Bbox@x.example", RCPT_PARAMETERS),
        (" ORCPT=UTF-8;böb@x.example", RCPT_PARAMETERS),
    ],
)
def test_good_parameters_are_taken(parameters: str, known: dict[str, None]) -> None:
    read_parameters(parameters, dict(known))


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        (" SIZE", b"501"),
        (" SIZE=foo", b"501"),
        (" SIZE=1 SIZE=2", b"501"),
        (" BODY=BINARYMIME", b"501"),
        (" SMTPUTF8=yes", b"501"),
        (" RET=SOME", b"501"),
        (" =1", b"501"),
        (" ENVID=+zz", b"501"),
        (" ENVID=a+0D+0Ab", b"501"),
        (" ENVID=+00", b"501"),
        (" ENVID=" + "x" * 101, b"501"),
        (" X-UNKNOWN=1", b"555"),
        (" NOTIFY=NEVER", b"555"),
    ],
)
def test_bad_parameters_are_refused(parameters: str, code: bytes) -> None:
    with pytest.raises(Objection) as caught:
        read_parameters(parameters, MAIL_PARAMETERS)
    assert caught.value.reply.startswith(code + b" 5.5.4 ")


@pytest.mark.parametrize(
    "orcpt",
    [
        "rfc822;a+zz@x.example",
        "rfc822;a+0A@x.example",
        "rfc822;ü@x.example",
        "utf-8;\udce4@x.example",
        "ſ;a@x.example",
    ],
)
def test_an_original_recipient_is_xtext(orcpt: str) -> None:
    """RFC 3461, section 4.2; beyond ASCII there is only UTF-8, and only in its own type (RFC 6533, section 3)."""
    with pytest.raises(Objection) as caught:
        read_parameters(f" ORCPT={orcpt}", RCPT_PARAMETERS)
    assert caught.value.reply.startswith(b"501 5.5.4 ")


def test_a_longer_local_part_can_be_allowed() -> None:
    path = "<" + "l" * 300 + "@x.example>"

    assert read_path("TO:" + path, "TO:", local_part_limit_bytes=300) == (path[1:-1], "")


@pytest.mark.parametrize("name", ["c", "c.example", "c.example.", "my_pc", "[192.0.2.1]", "bücher.example"])
def test_hosts(name: str) -> None:
    assert is_host(name)


@pytest.mark.parametrize("name", ["", "a b", "a..b", "-a", "<c>", "a\0", "a\udcff", "x" * 256, "c@d"])
def test_what_is_no_host(name: str) -> None:
    assert not is_host(name)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("plain", "plain"), ("a+2Bb", "a+b"), ("+C3+BC", "ü"), ("+FF", "\ufffd"), ("ü+2B", "ü+2B")],
)
def test_xtext(written: str, meant: str) -> None:
    assert from_xtext(written) == meant
