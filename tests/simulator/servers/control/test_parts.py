"""A mail taken apart, over the control API."""

from __future__ import annotations

import httpx

from simulator.client import ControlClient
from tests.simulator.running import Running, ask, raw_mail, request

RAW = (
    b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?= <svg/onload=alert()>\r\n"
    b'Content-Type: multipart/mixed; boundary="b"\r\n\r\n'
    b"--b\r\nContent-Type: text/html\r\n\r\n<p onclick=alert()>Hi</p><script>alert()</script><img src=cid:a>\r\n"
    b"--b\r\nContent-Type: image/svg+xml\r\nContent-ID: <a>\r\n"
    b'Content-Disposition: attachment; filename="../../x\xc3\xbc.svg"\r\n\r\n<svg onload="alert()"/>\r\n--b--\r\n'
)


def sent(simulator: Running, raw: bytes) -> str:
    return str(ask(simulator, request(raw_mail(raw, "ada@example.com"))).json["id"])


def test_a_mail_is_taken_apart(simulator: Running, control: ControlClient, web: httpx.Client) -> None:
    """As JSON: whoever shows it escapes it."""
    found = web.get(f"messages/{sent(simulator, RAW)}/parts").json()

    assert found["headers"][0] == {"name": "Subject", "value": "Grüße <svg/onload=alert()>"}
    assert [(part["name"], part["is_attachment"]) for part in found["parts"]] == [
        ("part-0.html", False),
        ("xü.svg", True),
    ]


def test_an_attachment_is_a_download_whatever_it_is(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    """An SVG with a script, named to be saved elsewhere: it neither runs nor leaves its folder."""
    answer = web.get(f"messages/{sent(simulator, RAW)}/parts/1")

    assert answer.content == b'<svg onload="alert()"/>'
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == (
        "attachment; filename=\"x_.svg\"; filename*=UTF-8''x%C3%BC.svg"
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("sandbox;")


def test_html_comes_in_a_sandbox(simulator: Running, control: ControlClient, web: httpx.Client) -> None:
    """As the sender wrote it, but nothing of it runs and nothing is fetched from anywhere."""
    answer = web.get(f"messages/{sent(simulator, RAW)}/html")

    assert "<script>alert()</script>" in answer.text
    assert "data:image/svg+xml;base64," in answer.text
    policy = {
        each.split()[0]: each.split()[1:] for each in answer.headers["content-security-policy"].split("; ")
    }
    assert policy["sandbox"] == []
    assert policy["default-src"] == ["'none'"]
    assert "script-src" not in policy
    assert policy["img-src"] == ["data:"]


def test_what_is_not_there_is_a_404(simulator: Running, control: ControlClient, web: httpx.Client) -> None:
    """With one sentence."""
    id_ = sent(simulator, b"Subject: x\r\n\r\nplain")

    for path in (f"{id_}/html", f"{id_}/parts/7", f"{id_}/parts/-1", f"{id_}/parts/%D9%A3", "msg_none/parts"):
        answer = web.get(f"messages/{path}")
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json"), path
