"""The short way of a letter as most are: addresses without names, texts, and nothing that needs a closer look.

What comes of it is what the long way (`letter`) makes of it; whatever is not plain goes that way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulator.dialects.native import DIALECT
from simulator.dialects.native.fields import PLAIN_ADDRESS
from simulator.dialects.native.letter import MESSAGE_ID, made_id, once
from simulator.provider.message import HEADER_LIMIT_BYTES, LINE_CHARS, Form, Submission

_KEYS = frozenset({"from", "to", "subject", "text", "html", "message_id"})
#: Of more recipients the look at each is what takes the time.
_MOST_RECIPIENTS = 50


def plain_mail(
    data: Mapping[str, Any], canonical: bytes, *, key: str | None, fingerprint: str, host: str
) -> Submission | None:
    """Read a plain letter, with its canonical JSON and that one's digest. None: it is none."""
    sender: Any = data.get("from")
    to, subject = data.get("to"), data.get("subject", "")
    if (
        not _KEYS.issuperset(data)
        or type(to) is not list
        or not 0 < len(to) <= _MOST_RECIPIENTS
        or type(subject) is not str
        or not subject.isprintable()
        or len(subject) > LINE_CHARS
        or len(canonical) > HEADER_LIMIT_BYTES
    ):
        return None
    for address in (sender, *to):
        if type(address) is not str or len(address) > 320 or not PLAIN_ADDRESS.fullmatch(address):
            return None
    has_content = False
    for field in ("text", "html"):
        if field in data:
            content = data[field]
            # Beyond ASCII there are halves of characters.
            if type(content) is not str or not content.isascii():
                return None
            has_content = True
    if not has_content:
        return None
    if "message_id" in data:
        message_id = data["message_id"]
        if (
            type(message_id) is not str
            or len(message_id) > LINE_CHARS
            or not message_id.isascii()
            or not MESSAGE_ID.fullmatch(message_id)
        ):
            return None
    else:
        message_id = made_id(key=key, fingerprint=fingerprint, host=host)
    if len(to) == 1:
        recipients: tuple[str, ...] = tuple(to)
        shown: str = to[0]
    else:
        recipients, shown = once(to), ", ".join(to)
    return Submission(
        dialect=DIALECT,
        sender=sender,
        recipients=recipients,
        raw=canonical,
        form=Form.FIELDS,
        key=key,
        fingerprint=fingerprint,
        sha256=fingerprint,
        message_id=message_id,
        headers=(("From", sender), ("To", shown), ("Subject", subject), ("Message-ID", message_id)),
        subject=subject,
    )
