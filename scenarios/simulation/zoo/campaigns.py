"""Senders of campaigns that write to somebody twice, to nobody, too soon, or when they must not any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from reference_sender.audience import Audience, Member
from reference_sender.campaigns import Runner
from reference_sender.life import Bar, Parcel
from reference_sender.outbox.campaigns import Campaign, CampaignState, Written
from reference_sender.outbox.store import Store
from scenarios.simulation.loop import OWNER
from scenarios.simulation.zoo.keeper import BadSender, where


class OwnNames(Runner):
    """Names each mail after the run that puts it in: a mail of the next run is another mail."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        # As a process id would be: no two runs have the same.
        self._run = f"{getattr(OWNER.get(), 'name', '')[-1:]}-{self._now():%H%M%S}"

    def _rows(
        self, found: Campaign, member: Member, due: datetime, now: datetime
    ) -> Sequence[dict[str, Any]]:
        return super()._rows(found, replace(member, key=f"{member.key}-{self._run}"), due, now)


class FromTheFirstPage(OwnNames):
    """Knows by heart how far it is."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._at: Any = None

    def _page(self, found: Campaign, audience: Audience, now: datetime) -> Written:
        page = super()._page(replace(found, cursor=self._at), audience, now)
        self._at = {"at": page.cursor, "last": page.last}
        return page


class AllAtOnce(Runner):
    """Everybody is due now."""

    def _page(self, found: Campaign, audience: Audience, now: datetime) -> Written:
        return super()._page(replace(found, gap_s=0.0), audience, now)


class CursorFirst(Store):
    """Writes down how far it is, and then the mails of the page."""

    def write_page(self, seen: Campaign, page: Written, *, now: datetime) -> bool:
        if not super().write_page(seen, replace(page, rows=()), now=now):
            return False
        with self._write() as connection:
            self._put_page(connection, self._not_suppressed(connection, page.rows, seen.mail_class, now))
        return True


class Unfenced(Store):
    """Whoever has read a page writes it, whoever has written it meanwhile."""

    def write_page(self, seen: Campaign, page: Written, *, now: datetime) -> bool:
        return super().write_page(replace(seen, pages=self.campaign(seen.name).pages), page, now=now)


class DeafTo(Store):
    """The campaign rests, and whoever sends its mails does not know."""

    deaf_to, bar = CampaignState.PAUSED, Bar.PAUSED

    def _follow(self, connection: Connection, moved: Campaign, now: datetime) -> None:
        if moved.state is not self.deaf_to:
            super()._follow(connection, moved, now)

    def claim(self, *, now: datetime, **more: Any) -> list[Parcel]:
        return [
            replace(parcel, bar=None) if parcel.bar is self.bar else parcel
            for parcel in super().claim(now=now, **more)
        ]


class DeafToTheEnd(DeafTo):
    """The campaign is over, and whoever sends its mails does not know."""

    deaf_to, bar = CampaignState.CANCELLED, Bar.CANCELLED


class AsksAtSending(Store):
    """Whoever is on the list has a mail in the outbox like everybody else."""

    @staticmethod
    def _not_suppressed(
        connection: Connection, rows: Sequence[dict[str, Any]], *_: Any
    ) -> list[dict[str, Any]]:
        return [*rows]


def _where(shape: str, *dies: str) -> Any:
    return where("http-keys", shape=shape, victim="expander", dies=dies)


SENDERS: tuple[BadSender, ...] = (
    BadSender(
        name="from the first page",
        sin="After a crash a campaign begins with the first page again, and its mails have other keys than before.",
        like="restarted batch job without a cursor",
        kind="duplicated",
        runner=FromTheFirstPage,
        blocks=(_where("a campaign", "commit"),),
    ),
    BadSender(
        name="cursor before mails",
        sin="How far a campaign is gets written down before the mails of the page: a crash in between loses a page.",
        like="offset committed before the work",
        kind="lost",
        parts={"open_store": CursorFirst},
        blocks=(_where("a campaign", "commit"),),
    ),
    BadSender(
        name="two write one page",
        sin="Two put in one campaign, each under keys of its own, and neither looks what the other has written.",
        like="batch job started twice",
        kind="duplicated",
        runner=OwnNames,
        parts={"open_store": Unfenced},
        blocks=(_where("a campaign, two at once"),),
    ),
    BadSender(
        name="ignores a pause",
        sin="A pause stops what puts the mails in, and those in the outbox go.",
        like="pause that stops the producer only",
        kind="paused and sent",
        parts={"open_store": DeafTo},
        blocks=(_where("a campaign, paused"),),
    ),
    BadSender(
        name="ignores a cancel",
        sin="A cancel stops what puts the mails in, and those in the outbox go.",
        like="cancel that stops the producer only",
        kind="cancelled and sent",
        parts={"open_store": DeafToTheEnd},
        blocks=(_where("a campaign, cancelled"),),
    ),
    BadSender(
        name="everybody at once",
        sin="A campaign is to be spread over a time, and all of it is due at once.",
        like="batch without pacing",
        kind="too fast",
        runner=AllAtOnce,
        blocks=(_where("a campaign"),),
    ),
    BadSender(
        name="suppression at sending only",
        sin="Who is on the suppression list has his row in the outbox, and only whoever sends it looks.",
        like="suppression checked after the row was made",
        kind="suppressed and sent",
        parts={"open_store": AsksAtSending},
        blocks=(_where("a campaign"),),
    ),
)
