"""When to give up: too many attempts or too old (RFC 5321 section 4.5.4.1 lets a queue give up after days)."""

from __future__ import annotations

from datetime import datetime

from reference_sender.life import Docket
from reference_sender.policy.settings import Settings


def too_many(docket: Docket, settings: Settings) -> str | None:
    """Why no further attempt may follow the ones counted so far, or None."""
    if docket.attempts >= settings.max_attempts:
        return f"{docket.attempts} attempts spent"
    return None


def too_old(docket: Docket, now: datetime, settings: Settings) -> str | None:
    """Why the mail has waited long enough, or None."""
    if (now - docket.queued_at).total_seconds() >= settings.max_age_s:
        return f"older than {settings.max_age_s:g} seconds"
    return None


def overdue(docket: Docket, now: datetime) -> str | None:
    """Why the mail is not worth sending any more (a login code that comes too late), or None."""
    if docket.expires_at is not None and docket.expires_at <= now:
        return "its time is over"
    return None
