"""An outbox on SQLite for the tests of commands, with mails brought to where a test wants them, and the command line."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from sqlalchemy import update

from reference_sender.cli import cli
from reference_sender.life import Parcel, State
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.store import Store, enqueue
from reference_sender.policy.decision import Decision, Doubt
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.wiring import Parts
from tests.reference_sender.samples import MAIL, NOW, ManualClock


class Outbox:
    """One database file."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'outbox.db'}"
        self.store = Store(open_engine(self.url))
        self.store.create()
        self.clock = ManualClock(NOW)

    def put(self, key: str, *, age_s: float = 0, mail_class: str = "confirmation", **more: Any) -> int:
        """Enqueue a mail so long ago; its number."""
        with self.store.engine.begin() as connection:
            (made,) = enqueue(connection, MAIL, key=key, now=NOW - timedelta(seconds=age_s), **more).ids
            connection.execute(
                update(outgoing_email).where(outgoing_email.c.id == made).values(mail_class=mail_class)
            )
        return made

    def claim(self, *, age_s: float = 0, dedupes: bool = True) -> Parcel:
        """Take the one mail that is due."""
        (parcel,) = self.store.claim(now=NOW - timedelta(seconds=age_s), limit=1, lease_s=60, dedupes=dedupes)
        return parcel

    def end(self, parcel: Parcel, state: State, *, age_s: float = 0, **more: Any) -> None:
        """End its attempt in this state."""
        at = NOW - timedelta(seconds=age_s)
        evidence = Evidence(
            wire=Wire.HTTP,
            phase=more.pop("phase", Phase.SENT),
            code=more.pop("code", None),
            answer=more.pop("answer", None),
            trouble=more.pop("trouble", None),
        )
        decision = Decision(
            **{
                "state": state,
                "reason": "because",
                "doubt": Doubt.NEW if state is State.UNKNOWN else Doubt.KEEP,
            }
            | more
        )
        assert self.store.settle(
            parcel, decision, now=at, evidence=evidence, started_at=at - timedelta(seconds=1)
        )

    def bring(self, key: str, state: State, *, age_s: float = 0, **more: Any) -> int:
        """Enqueue a mail and end it in this state at once."""
        made = self.put(key, age_s=age_s, mail_class=more.pop("mail_class", "confirmation"))
        self.end(self.claim(age_s=age_s), state, age_s=age_s, **more)
        return made

    def call(self, *arguments: str, stdin: str | None = None, **env: str) -> Result:
        """Run a command; at the time of the samples."""
        return CliRunner().invoke(
            cli,
            arguments,
            env={"OUTBOX_DATABASE_URL": self.url, "OUTBOX_OPERATOR": "anna", "COLUMNS": "120"} | env,
            obj=Parts(clock=self.clock),
            input=stdin,
        )
