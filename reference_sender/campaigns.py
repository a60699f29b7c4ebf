"""Running a campaign: page by page from the audience into the outbox, at its pace, and no faster than mail leaves.

`Runner.step` is one look: it writes a page, or says how long to wait. Everything it knows is in the database, so it may
be killed between any two statements and started again, or run twice: nobody gets two mails, because a page and its
cursor are one transaction, and because the key of each mail follows from the campaign and the member.
Must not hold: SQL, how members are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from reference_sender.audience import Audience, Member, audience_from
from reference_sender.clock import Clock
from reference_sender.log import Log, cause_of, name_of, quiet
from reference_sender.message import InvalidMail, Mail, idempotency_key_for
from reference_sender.outbox.campaigns import Campaign, CampaignState, Written
from reference_sender.outbox.engine import StoreTrouble
from reference_sender.outbox.enqueueing import Manner, rows_and_contents
from reference_sender.outbox.trouble import Trouble, trouble_of
from reference_sender.templates import BrokenTemplate, Templates

#: Mails are put in so long before their time, in seconds: a campaign that is paused has few of them lying about.
AHEAD_S = 60.0
#: So long is waited for mails to leave, in seconds.
LOOK_S = 5.0


class Store(Protocol):
    """What running a campaign asks of the outbox."""

    engine: Engine

    def campaign(self, name: str) -> Campaign: ...

    def move_campaign(self, name: str, state: CampaignState, *, now: datetime) -> bool: ...

    def write_page(self, seen: Campaign, page: Written, *, now: datetime) -> bool: ...

    def waiting_of_campaign(self, name: str, *, now: datetime, most: int) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a look came to."""

    wait_s: float | None
    """Seconds until the next look is worth it. None: there is nothing more to do."""
    why: str


class Runner:
    """Runs one campaign."""

    def __init__(
        self,
        *,
        store: Store,
        name: str,
        templates: Templates,
        clock: Clock,
        now: Callable[[], datetime] | None = None,
        log: Log = quiet,
        key_for: Callable[[str, str], str] = idempotency_key_for,
    ) -> None:
        self._store, self._name, self._templates = store, name, templates
        self._clock, self._log, self._key_for = clock, log, key_for
        self._is_stuck = False
        """It was said that its mails do not leave."""
        self._now = now or clock.now
        """The time by which mails become due: that of the workers, where it is not this machine's."""

    def step(self) -> Step:
        """Write the next page if it is time to. Raises `InvalidMail` for an audience or a template that cannot be read."""
        now = self._now()
        found = self._store.campaign(self._name)
        if found.state is not CampaignState.RUNNING:
            return Step(wait_s=None, why=found.state.value)
        if found.ends_at is not None and now >= found.ends_at:
            self._store.move_campaign(self._name, CampaignState.CANCELLED, now=now)
            return Step(wait_s=None, why="its time is over")
        early_s = (found.next_at - now).total_seconds() - AHEAD_S
        if early_s > 0:
            return Step(wait_s=early_s, why="the next mail is not due yet")
        most = 2 * found.page_rows
        if self._store.waiting_of_campaign(self._name, now=now, most=most) >= most:
            # The provider is away, or slower than the campaign, or no worker runs: there is no use in a longer queue.
            if not self._is_stuck:
                self._log(
                    "campaign_waits", campaign=self._name, reason="its mails do not leave", waiting=most
                )
            self._is_stuck = True
            return Step(wait_s=LOOK_S, why="its mails do not leave")
        self._is_stuck = False
        page = self._page(found, audience_from(found.audience), now)
        if self._store.write_page(found, page, now=now):
            self._log("campaign_page", campaign=self._name, page=found.pages + 1, members=page.members)
        return Step(wait_s=0.0, why="a page was written")

    async def run(self) -> str:
        """Step until there is nothing more to do; why that is. A database that is away for a while is waited for."""
        while True:
            try:
                step = self.step()
            except (DBAPIError, StoreTrouble) as error:
                if isinstance(error, DBAPIError) and trouble_of(error) is Trouble.OURS:
                    raise
                # Whether a page was written that broke off, its cursor says.
                self._log(
                    "campaign_failed", campaign=self._name, error=type(error).__name__, cause=cause_of(error)
                )
                await self._clock.sleep(LOOK_S)
                continue
            if step.wait_s is None:
                return step.why
            await self._clock.sleep(min(step.wait_s, LOOK_S))

    def _page(self, found: Campaign, audience: Audience, now: datetime) -> Written:
        with self._store.engine.connect() as connection:
            read = audience.page(connection, found.behind, found.page_rows)
        # Who was paused or could not keep up goes on from now; nothing is caught up with in a hurry.
        begin = max(found.next_at, now)
        rows: list[dict[str, Any]] = []
        refused = 0
        for number, member in enumerate(read.members):
            due = begin + timedelta(seconds=found.gap_s * number)
            try:
                rows += self._rows(found, member, due, now)
            except BrokenTemplate:
                # Whoever refused everybody for it would be done with the campaign, and nobody would have got it.
                raise
            except InvalidMail as error:
                # One wrong address must not end the campaign. The sentence may hold it, so the log has only where it stands.
                refused += 1
                self._log(
                    "campaign_member_refused",
                    campaign=self._name,
                    where=name_of(member.place),
                    error=type(error).__name__,
                )
        return Written(
            rows=rows,
            members=len(read.members),
            refused=refused,
            cursor=read.cursor,
            last=read.last,
            next_at=begin + timedelta(seconds=found.gap_s * len(read.members)),
        )

    def _rows(
        self, found: Campaign, member: Member, due: datetime, now: datetime
    ) -> Sequence[dict[str, Any]]:
        mail, parameters = mail_for(member, found, self._templates)
        rows, _ = rows_and_contents(
            mail,
            key=key_of(found.name, member),
            now=now,
            manner=Manner(
                mail_class=found.mail_class, expires_at=found.ends_at, not_before=due, campaign=found.name
            ),
            template=found.template,
            parameters=parameters,
            key_for=self._key_for,
        )
        return rows


def mail_for(member: Member, found: Campaign, templates: Templates) -> tuple[Mail, Mapping[str, Any]]:
    """What a member gets, and the parameters it is made from. Raises `InvalidMail`, of which `BrokenTemplate` meets all."""
    parameters = {**found.parameters, **member.parameters}
    mail = templates.mail(found.template, parameters, sender=found.sender, recipients=[member.address])
    return mail, parameters


def rehearse(found: Campaign, audience: Audience, templates: Templates, connection: Connection) -> None:
    """Look whether anybody of the first page can be written to: a mistake that meets all is better found before it begins.

    Raises `InvalidMail` with one sentence if there is somebody and nobody can.
    """
    members = audience.page(connection, found.behind, found.page_rows).members
    why: InvalidMail | None = None
    for member in members:
        try:
            mail_for(member, found, templates)
        except InvalidMail as error:
            why = why or error
        else:
            return
    if why is not None:
        raise InvalidMail(f"none of the first {len(members)} members can be written to: {why}") from why


def key_of(campaign: str, member: Member) -> str:
    """The event key of a member's mail: `campaign-318-user-9001`."""
    return f"campaign-{campaign}-user-{member.key}"
