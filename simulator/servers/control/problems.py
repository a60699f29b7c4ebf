"""How a request is refused: one sentence, as a problem document (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from simulator.servers.control.said import Said

PROBLEM = "application/problem+json"


class Refusal(Exception):
    """A request cannot be served. `detail` is one sentence that says what would be right."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Said:
    """Return a problem document of RFC 9457."""
    document = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    return Said(document, status_code=status, headers=headers, media_type=PROBLEM)
