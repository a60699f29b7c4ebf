"""Mails that broke other fake servers, handed in over HTTP: taken, kept byte for byte, and shown without harm."""

from __future__ import annotations

import base64
import gzip
import json
import threading
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

from tests.simulator.running import Running, Sender, ask, mail, raw_mail, request, running
from tests.simulator.servers.http.provider import SEND, accepted, is_yes, look_up, plan

CRLF = b"\r\n"


def nested(levels: int) -> bytes:
    """Return a mail of multiparts inside each other."""
    head = CRLF.join(
        b'Content-Type: multipart/mixed; boundary="b%d"\r\n\r\n--b%d' % (n, n) for n in range(levels)
    )
    return b"Subject: deep\r\n" + head + b"\r\n\r\nhello\r\n"


def part(content_id: str, content: bytes = b"x") -> bytes:
    return (
        (
            f"--b\r\nContent-Type: image/svg+xml\r\nContent-ID: <{content_id}>\r\n"
            f'Content-Disposition: attachment; filename="../../{content_id}"\r\n'
            "Content-Transfer-Encoding: base64\r\n\r\n"
        ).encode()
        + base64.b64encode(content)
        + CRLF
    )


def with_parts(*parts: bytes) -> bytes:
    return (
        b'Subject: parts\r\nContent-Type: multipart/related; boundary="b"\r\n\r\n'
        + b"".join(parts)
        + b"--b--\r\n"
    )


#: Names are the reports: see what each of them did to the server in question.
MAILS: dict[str, bytes] = {
    "no headers (smtp4dev 25)": b"\r\nbody\r\n",
    "no body": b"Subject: x\r\n\r\n",
    "neither": b"\r\n",
    "one byte": b"x",
    "no To (smtp4dev 1937)": b"Subject: nobody\r\n\r\nx\r\n",
    "a path as Content-ID (CVE-2024-27448)": with_parts(part("../../../x")),
    "a slash in Content-ID (maildev 430)": with_parts(part("a/b")),
    "Content-ID twice (smtp4dev 1874)": with_parts(part("same", b"1"), part("same", b"2")),
    "script in the subject (smtp4dev 1148)": b"Subject: <svg/onload=alert()>\r\n\r\na < b\r\n",
    "no From (mailpit 209)": b"To: ada@example.com\r\nSubject: from nobody\r\n\r\nx\r\n",
    "8-bit subject (mailcatcher 201)": b"Subject: \xcf\xf0\xe8\xe2\xe5\xf2\r\n\r\n\xcf\xf0\r\n",
    "iso-2022-jp (mailpit 318)": b"Subject: =?iso-2022-jp?B?GyRCIQ==?=\r\nContent-Type: text/plain; charset=iso-2022-jp\r\n\r\n\x1b$B\r\n",
    "an unknown charset": b"Subject: =?klingon?B?4pyT?=\r\nContent-Type: text/plain; charset=klingon\r\n\r\nx\r\n",
    "a long line (aiosmtpd 285)": b"Subject: long\r\n\r\n" + b"x" * 200_000,
    "bare LF": b"Subject: lf\n\nbody\n",
    "bare CR": b"Subject: cr\r\rbody\r",
    "NUL": b"Subject: a\0b\r\n\r\n\0\r\n",
    "dots": b"Subject: dots\r\n\r\n.\r\n..\r\n.x\r\n",
    "64 levels of MIME": nested(64),
    "1000 levels of MIME": nested(1000),
    "10,000 headers": b"".join(b"X-%d: y\r\n" % n for n in range(10_000)) + b"\r\nx\r\n",
    "a header of 500 KB": b"Subject: " + b"a" * 500_000 + b"\r\n\r\nx\r\n",
    "a zip bomb": with_parts(part("bomb.gz", gzip.compress(bytes(10_000_000)))),
    "Message-ID twice": b"Message-ID: <1@x>\r\nMessage-ID: <2@x>\r\n\r\nx\r\n",
    "a folded Message-ID": b"Message-ID:\r\n <folded@x>\r\n\r\nx\r\n",
    "an empty Message-ID": b"Message-ID: \r\n\r\nx\r\n",
}


@pytest.mark.parametrize("name", MAILS)
def test_an_odd_mail_is_kept_as_it_is(simulator: Running, name: str) -> None:
    """Whatever is in it: the ledger has its very bytes, and shows what it can of them."""
    raw = MAILS[name]

    seen = ask(simulator, request(raw_mail(raw, "ada@example.com"), key="odd"))

    assert is_yes(seen)
    with simulator.control() as control:
        assert control.raw(seen.json["id"]) == raw
        (message,) = control.messages()
        assert json.loads(json.dumps(message)) == message
        assert control.messages(to="ada@example.com") == [message]
    assert look_up(simulator, "/v1/emails?idempotency_key=odd").json["data"][0]["id"] == seen.json["id"]
    assert is_yes(ask(simulator, SEND))


def test_fields_without_end_are_refused(simulator: Running) -> None:
    """Writing them would take longer than anybody waits."""
    seen = ask(simulator, request(mail(subject="s" * 300_000)))

    assert (seen.status, seen.json["code"]) == (413, "too_large")
    assert "300000 characters" in seen.json["detail"]


def test_addresses_without_end_are_kept_in_mind_up_to_a_bound(simulator: Running) -> None:
    """The message has all of them; the header fields in the ledger, which holds thousands of mails, do not."""
    plan(simulator, limits={"max_recipients": 5_000})
    to = [f"person{number}@{'x' * 50}.example" for number in range(5_000)]
    seen = ask(simulator, request(mail(to=to)))

    assert len(seen.json["accepted"]) == 5_000
    with simulator.control() as control:
        assert b"person4999@" in control.raw(seen.json["id"])
    acceptance = simulator.service.provider.accounts["default"].ledger.get(seen.json["id"])
    assert acceptance is not None
    assert 0 < sum(len(name) + len(value) for name, value in acceptance.headers) <= 256 * 1024


def test_identifiers_without_end_are_kept_in_mind_by_a_short_name(simulator: Running) -> None:
    """Thousands of mails and events name theirs; two that differ at their end are still two."""
    for end in ("a", "b"):
        raw = f"Message-ID: <{'x' * 100_000}{end}>\r\nX-Obligation: {'y' * 100_000}{end}\r\n\r\n".encode()
        for body in (
            raw_mail(raw, "ada@example.com"),
            mail(headers={"Message-ID": f"<{'x' * 100_000}{end}@y>"}),
        ):
            assert is_yes(ask(simulator, request(body)))

    with simulator.control() as control:
        messages = control.messages()
        events = control.events()
    assert {len(each["message_id"]) for each in messages} == {998}
    assert len({each["message_id"] for each in messages}) == 4
    assert {len(each["obligation"]) for each in messages if each["obligation"]} == {998}
    assert len({each["data"]["message_id"] for each in events}) == 4


@pytest.mark.parametrize(
    "name",
    [
        "../../../etc/passwd",
        "/etc/passwd",
        "C:\\x.exe",
        "..",
        "a\tb",
        "😀.png",
        "x" * 5000,
        "<b>.html",
        ".",
        "con",
    ],
)
def test_the_name_of_an_attachment_is_a_name(
    simulator: Running, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands in the mail, and leads nowhere on this machine."""
    monkeypatch.chdir(tmp_path)
    files = [
        {"filename": name, "content": "YQ==", "content_id": name.replace("\t", "")},
        {"filename": name, "content": "Yg==", "content_id": name.replace("\t", "")},
    ]

    seen = ask(simulator, request(mail(html="<img>", attachments=files)))

    assert is_yes(seen)
    with simulator.control() as control:
        message = message_from_bytes(control.raw(seen.json["id"]), policy=default)
    contents = [each.get_content() for each in message.walk() if each.get_filename() is not None]
    assert contents == [b"a", b"b"]
    assert list(tmp_path.iterdir()) == []


def test_who_waits_for_a_mail_is_not_faster_than_its_answer() -> None:
    """A test that stops the server as soon as its mail is there: the sender has heard yes all the same (greenmail 132)."""
    with running() as service:
        seen: list[Any] = []

        def send() -> None:
            with Sender(service.http) as sender:
                seen.append(sender.say(SEND).see())

        with service.control() as control:
            sending = threading.Thread(target=send)
            sending.start()
            control.wait_for_messages(to="ada@example.com")
        service.stop()
        sending.join()

    assert is_yes(seen[0])


def test_two_accounts_do_not_meet(simulator: Running) -> None:
    """The same key, the same mail, the same moment: two mails, and neither account knows the other's."""
    names = ("shop-d", "shop-e")
    for name in names:
        with simulator.control(name) as control:
            control.reset()
    asked = [request(mail(), key="same", headers={"Authorization": f"Bearer {name}"}) for name in names]

    ids = [ask(simulator, data).json["id"] for data in asked]

    assert len(set(ids)) == 2
    for name, id_, other in zip(names, ids, reversed(ids), strict=True):
        assert look_up(simulator, f"/v1/emails/{id_}", Authorization=f"Bearer {name}").status == 200
        assert look_up(simulator, f"/v1/emails/{other}", Authorization=f"Bearer {name}").status == 404
    assert accepted(simulator) == 0
