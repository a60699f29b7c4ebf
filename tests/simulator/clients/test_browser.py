"""A browser on the page that shows a mail: nothing that the mail brought along runs, and nothing is fetched for it."""

from __future__ import annotations

import base64
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.simulator.clients.chromium import CHROMIUM, WAIT_S, WITHOUT_A_WINDOW
from tests.simulator.running import ask, raw_mail, request, running


class Ear:
    """Hears whether anybody calls, and what for."""

    def __init__(self) -> None:
        heard: list[str] = []

        class Hearing(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                heard.append(self.path)
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.heard = heard
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Hearing)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._listening = threading.Thread(target=self._server.serve_forever)
        self._listening.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._listening.join(WAIT_S)


@contextmanager
def an_ear() -> Iterator[Ear]:
    ear = Ear()
    try:
        yield ear
    finally:
        ear.close()


def page(ear: Ear, drawing: str) -> str:
    """Return HTML that does all it can to be noticed; `drawing` leads to an SVG that does so, too."""
    return "".join(
        (
            f"<img src={drawing}><object data={drawing}></object><embed src={drawing}><iframe src={drawing}></iframe>",
            f"<script>new Image().src='{ear.url}/script'</script>",
            f"<img src=data:image/png;base64,AA onerror=\"new Image().src='{ear.url}/onerror'\">",
            f"<img src={ear.url}/image><link rel=stylesheet href={ear.url}/style>",
            f"<style>body{{background:url({ear.url}/background)}}</style>",
            f"<iframe src={ear.url}/frame></iframe><video src={ear.url}/video autoplay></video>",
        )
    )


def drawing(ear: Ear) -> bytes:
    return (
        "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'"
        f" onload=\"fetch('{ear.url}/onload')\"><script>fetch('{ear.url}/drawing')</script>"
        f"<image href='{ear.url}/within' width='9' height='9'/></svg>"
    ).encode()


def look_at(url: str, folder: Path) -> str:
    """Let a browser load a page to its end; return what became of it."""
    command = [str(CHROMIUM), *WITHOUT_A_WINDOW, f"--user-data-dir={folder}"]
    done = subprocess.run(
        [*command, "--timeout=3000", "--dump-dom", url],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    return done.stdout


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_a_mail_that_is_looked_at_does_nothing(tmp_path: Path) -> None:
    """By its HTML, and by a drawing under a Content-ID; the same page as a file shows that it would if it could."""
    with an_ear() as ear:
        loose = tmp_path / "loose.html"
        (tmp_path / "drawing.svg").write_bytes(drawing(ear))
        loose.write_text(page(ear, "drawing.svg"))
        look_at(loose.as_uri(), tmp_path / "first")
        assert {"/script", "/onerror", "/image", "/style", "/drawing", "/within"} <= set(ear.heard)

    with an_ear() as ear, running() as service:
        raw = (
            b"Subject: look\r\nContent-Type: multipart/related; boundary=b\r\n\r\n"
            b"--b\r\nContent-Type: text/html\r\n\r\n" + page(ear, "cid:drawing").encode() + b"\r\n"
            b"--b\r\nContent-Type: image/svg+xml\r\nContent-ID: <drawing>\r\nContent-Transfer-Encoding: base64\r\n\r\n"
            + base64.encodebytes(drawing(ear)).replace(b"\n", b"\r\n")
            + b"--b--\r\n"
        )
        id_ = ask(service, request(raw_mail(raw, "ada@example.com"))).json["id"]
        control = service.service.ready["control"]
        alone = look_at(f"{control}/messages/{id_}/html", tmp_path / "second")
        whole = look_at(f"{service.service.ready['http']}/?mail={id_}&view=html", tmp_path / "third")

        assert "data:image/svg+xml" in alone
        assert f"/messages/{id_}/html" in whole
        assert ear.heard == []
