"""Senders with a known bug, by a name that a replay file can carry."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, update

from reference_sender.life import Docket
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.store import Store
from scenarios.simulation.intake import ListeningSender
from scenarios.simulation.profiles import Profile
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.zoo.batches import believes_the_whole
from scenarios.simulation.zoo.gates import WITH_A_BOLD_SPARE, MovesDoubt
from scenarios.simulation.zoo.intake import INTAKES


def renews_keys(disk: Disk, profile: Profile) -> ReferenceSender:
    """Each attempt brings a key of its own."""
    parts = {"key_of": lambda parcel: f"{parcel.idempotency_key}-{parcel.attempts}"}
    return ReferenceSender(disk=disk, profile=profile, parts=parts)


class _Unmarked(Store):
    def mark(self, docket: Docket, *, now: Any) -> bool:
        return True


def unmarked(disk: Disk, profile: Profile) -> ReferenceSender:
    """Nothing is committed at the point of no return, so a crash behind it looks like one before it."""
    return ReferenceSender(disk=disk, profile=profile, parts={"open_store": _Unmarked})


class _Unfenced(Store):
    @staticmethod
    def _fenced(connection: Connection, docket: Docket, values: dict[str, Any]) -> bool:
        row = outgoing_email.c.id == docket.id
        return connection.execute(update(outgoing_email).where(row).values(values)).rowcount == 1


def unfenced(disk: Disk, profile: Profile) -> ReferenceSender:
    """Whoever comes late writes all the same."""
    return ReferenceSender(disk=disk, profile=profile, parts={"open_store": _Unfenced})


def ignores_the_limit(disk: Disk, profile: Profile) -> ReferenceSender:
    """As fast as it can, whatever was agreed."""
    return ReferenceSender(disk=disk, profile=profile, options={"rate_per_s": None})


def moves_doubt(disk: Disk, profile: Profile) -> ReferenceSender:
    """Where a second provider stands in, it is handed what the first one may have taken already."""
    if "providers" not in profile.sender:
        return ReferenceSender(disk=disk, profile=profile)
    bold = {"providers": WITH_A_BOLD_SPARE}
    return ReferenceSender(disk=disk, profile=profile, parts={"open_store": MovesDoubt}, options=bold)


def fails_the_whole(disk: Disk, profile: Profile) -> ReferenceSender:
    """Several mails in one request: if it is refused, all of them are."""
    return ReferenceSender(disk=disk, profile=profile, parts={"transport": believes_the_whole})


def drops_what_comes_early(disk: Disk, profile: Profile) -> ReferenceSender:
    """An event of a mail that is still being sent is ignored."""
    return _hearing_badly(disk, profile, "drops what comes early")


def settles_nothing(disk: Disk, profile: Profile) -> ReferenceSender:
    """A mail in doubt stays in doubt, whatever is told of it."""
    return _hearing_badly(disk, profile, "an event settles nothing")


def _hearing_badly(disk: Disk, profile: Profile, name: str) -> ReferenceSender:
    if not profile.hears:
        return ReferenceSender(disk=disk, profile=profile)
    (bad,) = (each for each in INTAKES if each.name == name)
    return ListeningSender(disk=disk, profile=profile, intake_parts=bad.parts)
