"""A mail that the provider accepted, as a test looks at it."""

from __future__ import annotations

import email
import email.policy
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from email.message import EmailMessage
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.shapes import Message


@dataclass(frozen=True, kw_only=True)
class Mail:
    """One acceptance: the provider took responsibility for this mail to these recipients."""

    id: str
    """The provider's name for it, the one the sender was told."""
    sender: str
    """The envelope sender; empty: the null sender."""
    recipients: tuple[str, ...]
    subject: str
    message_id: str | None
    key: str | None
    """The idempotency key it came with."""
    accepted_at: datetime
    size_bytes: int
    dialect: str
    """The wire it came over: `smtp`, `native`, …"""
    fate: str
    attempt: str
    """The id of the attempt that brought it."""
    facts: Message = field(repr=False, compare=False)
    """Everything the control API shows of it."""
    _raw: Callable[[], bytes] = field(repr=False, compare=False)

    @classmethod
    def of(cls, facts: Message, raw: Callable[[], bytes]) -> Mail:
        """Make one of what the control API shows; `raw` fetches the bytes when they are asked for."""
        return cls(
            id=facts["id"],
            sender=facts["sender"],
            recipients=tuple(facts["recipients"]),
            subject=facts["subject"],
            message_id=facts["message_id"],
            key=facts["key"],
            accepted_at=datetime.fromisoformat(facts["accepted_at"]),
            size_bytes=facts["size_bytes"],
            dialect=facts["dialect"],
            fate=facts["fate"],
            attempt=facts["attempt"],
            facts=facts,
            _raw=raw,
        )

    @cached_property
    def raw(self) -> bytes:
        """The bytes, as the sender handed them in."""
        return self._raw()

    @cached_property
    def message(self) -> EmailMessage:
        """The mail, parsed."""
        message: Any = email.message_from_bytes(self.raw, policy=email.policy.default)
        return message  # type: ignore[no-any-return] # what this policy makes, says its documentation

    @property
    def text(self) -> str | None:
        """The plain text, if there is one; its lines end in a line feed."""
        return self._body("plain")

    @property
    def html(self) -> str | None:
        """The HTML, if there is one."""
        return self._body("html")

    def _body(self, kind: str) -> str | None:
        part = self.message.get_body((kind,))
        if part is None:
            return None
        content: str = part.get_content()
        return content.replace("\r\n", "\n")
