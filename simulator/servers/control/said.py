"""How JSON is said: always UTF-8 that every reader can decode, whatever bytes a sender put into a mail."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse


def encode(content: Any) -> bytes:
    """Return compact JSON. Bytes that were no characters (lone surrogates) become U+FFFD, never an error."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


class Said(JSONResponse):
    """An answer in JSON."""

    def render(self, content: Any) -> bytes:
        return encode(content)
