"""A look at what has come: is it one whole request, and nothing else?"""

from __future__ import annotations

import httptools


class Glance:
    """Reads one whole request, with uvicorn's parser: strict where that is strict."""

    def __init__(self) -> None:
        self._parser = _parser(self)
        self._begun = 0
        self.is_whole = False
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""

    def at(self, data: bytes) -> bool:
        """Read a request; tell whether it is one, whole and plain, and nothing else."""
        self._begun, self.is_whole, self.url, self.headers, self.body = 0, False, b"", [], b""
        try:
            self._parser.feed_data(data)
            if self.is_whole and self._begun == 1 and self._parser.get_http_version() == "1.1":
                return True
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            pass
        # It may be in the middle of something.
        self._parser = _parser(self)
        return False

    def on_message_begin(self) -> None:
        self._begun += 1

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_whole = True


def _parser(glance: Glance) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(glance)
    # As uvicorn does.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
