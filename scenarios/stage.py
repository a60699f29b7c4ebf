"""One scenario's stage: a sender, a provider, a plan, and the two acts.

A scenario tells a story with these verbs: `plan`, `start`, `enqueue`, `await_held`, `kill`, `release`
(the storm), then `calm` (faults off, until nothing moves) and `judge`. What is right is not decided here:
`judge` hands the history to `scenarios.checks` and raises what they find.
"""

from __future__ import annotations

import base64
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from scenarios import checks
from scenarios.adapter import Sender, Stopped, free_port
from scenarios.checks import Finding, Policy
from scenarios.clock import monotonic_s, now, wait_s, wait_until
from scenarios.databases import Server
from scenarios.history import History, Mark, Said, acceptance_from, said_from, try_from
from scenarios.mail import Mail, differences
from scenarios.sender_file import SenderError, SenderFile, fill
from scenarios.service import Service
from simulator.provider.obligations import Obligation, Reported

#: A look at everything (ledger, attempts, status) costs some milliseconds; this often is enough.
LOOK_EVERY_S = 0.15
#: What the provider signs with: Standard Webhooks wants 24 to 64 bytes.
WEBHOOK_SECRET = "whsec_" + base64.b64encode(b"a secret of the certification, 36 b.").decode()
#: When an event is told again that was not taken, in seconds: soon, and for long enough.
TOLD_AGAIN_S = (0.3,) * 60
TIMELINE_LIMIT = 80

#: Said where the half of a promise that is about reports could not be judged.
NOBODY_TO_ASK = "whether it is reported as failed was not judged: no [status]"
#: Why a scenario is skipped whose outcome only the sender could tell.
CANNOT_BE_ASKED = "the sender cannot be asked: no [status]"

More = Callable[[History], list[Finding]]
#: States of a delivery after which nothing more is told.
_TOLD = frozenset({"delivered", "failed", "lost", "dropped"})


class Broken(AssertionError):
    """The sender broke the promise; the findings say how."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(
            "\n".join(
                ": ".join(filter(None, (each.kind, each.recipient, each.sentence))) for each in findings
            )
        )


class Invalid(Exception):
    """The scenario did not take place as meant (a fault never struck), so it says nothing. One sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What a stage needs to know: the sender, the wire, and where the dice stand."""

    file: SenderFile
    profile: str
    seed: int
    name: str
    """Of the scenario: goes into its addresses."""
    database: Server | None = None
    """Where the scenario gets a place for its database; None: an SQLite file."""


class Stage:
    """The stage of one scenario. Use as a context manager: on leaving nothing of the sender is alive."""

    def __init__(self, service: Service, rehearsal: Rehearsal, workdir: Path) -> None:
        self.service = service
        self.file = rehearsal.file
        self.profile = rehearsal.profile
        self.seed = rehearsal.seed
        self.timing = rehearsal.file.timing
        self.rng = random.Random(f"{rehearsal.seed}/{rehearsal.name}")
        self.policy = _policy(rehearsal.file, rehearsal.profile)
        self._name = rehearsal.name
        self._server = rehearsal.database
        self._leaving = ExitStack()
        self._database_url = f"sqlite:///{workdir / 'outbox.db'}"
        self.workdir = workdir
        self._webhook_port = free_port() if rehearsal.file.webhooks is not None else 0
        self.sender = Sender(file=self.file, places=self._places(), workdir=workdir)
        self._owed: dict[tuple[str, str], Obligation] = {}
        self._marks: list[Mark] = []
        self._rules: list[Mapping[str, Any]] = []
        self._fired: dict[str, int] = {}
        self._may_stay_idle: set[str] = set()
        self._bystander: Mail | None = None
        self._refused: tuple[str, ...] = ()
        self._not_judged = ""
        self.began_at: datetime = now()
        self.history: History | None = None
        self.findings: tuple[Finding, ...] = ()

    def __enter__(self) -> Self:
        self.service.fresh()
        if self._server is not None:
            self._database_url = self._leaving.enter_context(self._server.place())
        self.sender = Sender(file=self.file, places=self._places(), workdir=self.workdir)
        try:
            self.sender.reset()
        except BaseException:
            # Nobody leaves what was not entered.
            self._leaving.close()
            raise
        self.began_at = now()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sender.close()
        # After the last process is gone: a session that is still in it would be in the way.
        self._leaving.close()

    def _places(self) -> dict[str, str]:
        return {
            "http_url": self.service.http_url,
            "smtp_host": self.service.smtp_host,
            "smtp_port": self.service.smtp_port,
            "api_key": "any-key",
            "smtp_user": "any-user",
            "smtp_password": "any-password",
            "database_url": self._database_url,
            "workdir": str(self.workdir),
            "webhook_secret": WEBHOOK_SECRET,
            "webhook_port": str(self._webhook_port),
            "profile": self.profile,
            "python": sys.executable,
            "here": str(self.file.path.resolve().parent),
        }

    # --- the storm ----------------------------------------------------------------------------------

    def address(self, who: str) -> str:
        """Return an address that no other scenario of the run uses."""
        return f"{who}.{self._name}@example.com".replace("_", "-")

    def mail(self, name: str, *, to: Sequence[str] = ()) -> Mail:
        """Make an ordinary mail, to a recipient of its own unless said otherwise."""
        return Mail(
            key=name,
            to=tuple(to) or (self.address(name),),
            subject=f"Your {name}",
            text=f"Thank you. This is about {name}.",
        )

    def plan(self, *rules: Mapping[str, Any], optional: Iterable[str] = ()) -> None:
        """Set the faults. Each must strike, or the scenario is invalid; `optional` names those that need not."""
        self._rules = [{"name": f"rule {n}"} | dict(rule) for n, rule in enumerate(rules, 1)]
        self._may_stay_idle = set(optional)
        self.service.control.set_plan({"seed": self.seed, "rules": list(self._rules)})
        for rule in self._rules:
            self._mark("provider", f"plan: {rule['name']}: {_spelled(rule)}")

    def start(self, count: int = 1) -> None:
        """Start workers."""
        self.sender.start(count)
        self._mark("sender", f"{count} worker{'s' if count > 1 else ''} started")

    def hear(self, **settings: Any) -> None:
        """Let the sender hear what becomes of its mails; `settings`: more keys of the table [webhooks] of a plan."""
        hooks = self.file.webhooks
        assert hooks is not None, "presume webhooks"
        self.sender.start_hearing()
        self.service.control.set_webhook(
            fill(hooks.url, self._places()),
            secret=WEBHOOK_SECRET,
            schedule_s=list(TOLD_AGAIN_S),
            jitter=0,
            timeout_s=3,
            **settings,
        )
        self._mark("sender", "hears webhooks")

    def kill_hearing(self) -> None:
        """kill -9 for whoever hears."""
        self.sender.kill_hearing()
        self._mark("harness", "kill -9 to whoever hears webhooks")

    def await_told(self, type_: str, mail: Mail) -> list[dict[str, Any]]:
        """Wait until events of this type about a mail are told or given up; return every delivery there is."""

        def told() -> list[dict[str, Any]] | None:
            found = self.service.control.deliveries()
            about = [
                each["state"] in _TOLD
                for each in found
                for event in each["events"]
                if event["type"] == type_ and event["recipient"] == mail.recipients[0]
            ]
            return found if about and all(about) else None

        found = wait_until(told, timeout_s=self._patience_s, every_s=LOOK_EVERY_S)
        if found is None:
            self._mark("harness", f"no {type_} was told to the end", mail.recipients[0])
        return found or self.service.control.deliveries()

    def enqueue(
        self, mail: Mail, *, rollback: bool = False, owed: bool = True, copies: int = 1, alone: bool = False
    ) -> dict[str, Any]:
        """Hand a mail over in a business transaction. With `owed` it is a promise from now on.

        The first time a bystander goes along: a mail no fault is meant for, which must arrive whatever
        happens to the others. `alone`: later, because this storm kills the process that would carry it.
        """
        if not alone:
            self.enqueue_bystander()
        if owed and not rollback:
            for recipient in mail.recipients:
                self.owe(mail.obligation, recipient, copies)
        answer = self.sender.enqueue(mail.as_json(rollback=rollback))
        done = "rolled back" if rollback else "committed"
        for recipient in mail.recipients:
            self._mark("app", f"{mail.key} {done}", recipient)
        return answer

    def owe(self, ref: str, recipient: str, copies: int = 1) -> None:
        """Promise a mail to a recipient."""
        self._owed[ref, recipient] = Obligation(
            account="default", ref=ref, recipient=recipient, copies=copies
        )

    def enqueue_bystander(self) -> None:
        """Hand over the mail that no fault is meant for, once."""
        if self._bystander is None:
            self._bystander = self.mail("bystander")
            self.enqueue(self._bystander, alone=True)

    def await_held(self, mail: Mail) -> None:
        """Wait until the provider holds back the answer about this mail; if it never comes, judging goes on."""
        recipient = mail.recipients[0]
        try:
            self.service.control.wait_for_attempts(state="held", to=recipient, timeout_s=self._patience_s)
        except TimeoutError:
            self._mark("harness", "no attempt came whose answer could be held back", recipient)
        else:
            self._mark("provider", "the answer is held back", recipient)

    def await_struck(self, name: str, times: int = 1, *, at_most_s: float | None = None) -> None:
        """Wait until a rule of the plan has struck, for so long; if it does not, judging goes on.

        A sender that never comes will be found out by what it loses, or else the scenario is invalid.
        """

        def struck() -> bool | None:
            return self.service.fired().get(name, 0) >= times or None

        patience_s = self._patience_s if at_most_s is None else at_most_s
        if wait_until(struck, timeout_s=patience_s, every_s=LOOK_EVERY_S) is None and at_most_s is None:
            self._mark("harness", f"{name!r} did not strike {times} times within {patience_s:g} s")

    def rage_for(self, seconds: float) -> None:
        """Let the storm go on for so long."""
        wait_s(seconds)
        self._mark("harness", f"the storm went on for {seconds:g} s")

    def await_attempts(self, mail: Mail, count: int = 1) -> None:
        """Wait until the provider saw that many attempts for this mail; if it does not, judging goes on."""
        if wait_until(
            lambda: True if len(self._tries(mail)) >= count else None,
            timeout_s=self._patience_s,
            every_s=LOOK_EVERY_S,
        ):
            return
        self._mark("harness", f"fewer than {count} attempts were seen", mail.recipients[0])

    def await_outage(self, mail: Mail, *, longer_than_s: float) -> None:
        """Wait until attempts for this mail have failed for that long."""

        def lasted() -> bool | None:
            tries = self._tries(mail)
            if len(tries) < 2:
                return None
            span = datetime.fromisoformat(tries[-1]["opened_at"]) - datetime.fromisoformat(
                tries[0]["opened_at"]
            )
            return True if span / timedelta(seconds=1) > longer_than_s else None

        wait_until(lasted, timeout_s=self._patience_s, every_s=LOOK_EVERY_S)

    def _tries(self, mail: Mail) -> list[dict[str, Any]]:
        recipient = mail.recipients[0].lower()
        return [
            each
            for each in self.service.control.attempts()
            if recipient in (to.lower() for to in each.get("recipients") or ())
        ]

    def kill(self) -> None:
        """kill -9 for the workers."""
        self.sender.kill()
        self._mark("harness", "kill -9")

    def kill_application(self) -> None:
        """kill -9 for the process that committed the mails, if it lives on between them."""
        self.sender.kill_talker()
        self._mark("harness", "kill -9 to the application")

    def ask_to_stop(self) -> None:
        """Send the stop signal to the workers."""
        self.sender.signal_stop()
        self._mark("harness", self.file.stop_signal.name)

    def await_stop(self) -> list[Stopped]:
        """Wait for workers that were asked to stop."""
        stopped = self.sender.await_stop()
        for each in stopped:
            said = f"exited with {each.code}" if each.in_time else "did not exit and was killed"
            self._mark("sender", f"worker {said}")
        return stopped

    def not_stopped(self, stopped: Iterable[Stopped]) -> list[Finding]:
        """Return a finding for each worker that did not stop in time when it was asked to."""
        return [
            Finding(
                kind="did not stop",
                recipient="",
                sentence=f"the worker did not exit within {self.file.stop_timeout_s:g} s after {self.file.stop_signal.name}",
            )
            for each in stopped
            if not each.in_time
        ]

    def release_after_a_moment(self) -> None:
        """Let go what is held, but give a worker that drops everything at once the time to show it."""
        wait_until(
            lambda: True if all(w.process.poll() is not None for w in self.sender.workers) else None,
            timeout_s=min(0.5, 0.25 * self.timing.timeout_s),
        )
        self.release()

    def release(self) -> None:
        """Let go what the provider holds back."""
        if self.service.control.release():
            self._mark("provider", "held answers released")

    @property
    def _patience_s(self) -> float:
        """How long anything that must happen in a storm may take."""
        return self.timing.settle_s

    # --- the calm -----------------------------------------------------------------------------------

    def calm(self, *, refused: Iterable[str] = ()) -> History:
        """Switch the faults off and wait until nothing moves; return what happened.

        `refused`: recipients refused for good beside others, which no attempt's own answer says.
        """
        self._refused = tuple(refused)
        self.enqueue_bystander()
        self._fired = self.service.fired()
        self.service.control.heal()
        self.service.control.release()
        self._mark("provider", "the plan is healed: from here on everything is taken")
        if not self.sender.workers:
            self.start()
        still_since: float | None = None
        before: object = None
        deadline = monotonic_s() + self.timing.settle_s

        def at_rest() -> History | None:
            nonlocal still_since, before
            history, open_attempts = self._look()
            seen = (history.said, len(history.attempts), len(history.acceptances), open_attempts)
            if seen != before or open_attempts or not _settled(history, self.policy):
                before, still_since = seen, monotonic_s()
                return None
            assert still_since is not None
            return history if monotonic_s() - still_since >= self._quiet_s(history) else None

        history = wait_until(at_rest, timeout_s=deadline - monotonic_s(), every_s=LOOK_EVERY_S)
        if history is None:
            last, open_attempts = self._look()
            history = replace(last, moving=bool(open_attempts) or not _settled(last, self.policy))
        self.history = replace(history, marks=tuple(self._marks))
        return self.history

    def calm_after(self, mails: Sequence[Mail]) -> History:
        """Let the storm run until each of these mails was accepted (or time is up), then calm."""
        wanted = {recipient for mail in mails for recipient in mail.recipients}
        wait_until(
            lambda: (
                True
                if wanted
                <= {to for each in self.service.control.messages() for to in each.get("recipients") or ()}
                else None
            ),
            timeout_s=self._patience_s,
            every_s=LOOK_EVERY_S,
        )
        return self.calm()

    def _quiet_s(self, history: History) -> float:
        """How long nothing may move before we believe that nothing will."""
        timing = self.timing
        if not history.knows_states:
            return timing.lease_s + timing.timeout_s + timing.retry_cap_s
        if "reconcile" in self.file.abilities and any(
            each.state is Reported.UNKNOWN for each in history.said
        ):
            return max(timing.lease_s, 2 * timing.retry_cap_s)
        return max(0.7, 1.5 * timing.retry_cap_s)

    def _look(self) -> tuple[History, int]:
        """Gather what is known now, and how many attempts are under way."""
        rows = self.sender.status()
        said: tuple[Said, ...] = ()
        if rows is not None:
            try:
                said = said_from(rows)
            except ValueError as error:
                raise SenderError(f"{self.file.path}: [status] {error}") from error
        # Ledger before attempts: an acceptance always has its attempt then.
        acceptances = tuple(
            acceptance_from(facts, number=number)
            for number, facts in enumerate(self.service.control.messages(), 1)
        )
        attempts = self.service.control.attempts()
        known = History(said=said)
        return (
            History(
                obligations=tuple(
                    replace(owed, state=known.state_of(owed.recipient)) for owed in self._owed.values()
                ),
                acceptances=acceptances,
                attempts=tuple(try_from(facts) for facts in attempts),
                said=said,
                marks=tuple(self._marks),
                knows_states=rows is not None,
                refused=self._refused,
            ),
            sum(facts.get("state") != "closed" and bool(facts.get("recipients")) for facts in attempts),
        )

    # --- the judgement ------------------------------------------------------------------------------

    def judge(
        self,
        *,
        arrive: Iterable[Mail] = (),
        doubt: Iterable[Mail] = (),
        refused: Iterable[str] = (),
        may_park: Iterable[Mail] = (),
        more: Iterable[More] = (),
    ) -> None:
        """Judge the calm's history; raise `Broken` with every finding.

        `arrive`: must be accepted, parking is no way out. `doubt`: taken, but the sender was not told; may be
        parked, must not be called failed. `refused`: recipients refused for good. `may_park`: not taken, and may
        be parked (see `unseen`). `more`: further questions.
        """
        history = self.history
        assert history is not None, "calm() comes before judge()"
        hidden = {recipient for mail in may_park if self.unseen(mail) for recipient in mail.recipients}
        findings = [
            each
            for each in checks.everywhere(history, self.policy)
            if not (each.kind == "lost" and each.recipient in hidden)
        ]
        bystanders = () if self._bystander is None else (self._bystander,)
        must = [recipient for mail in (*arrive, *bystanders) for recipient in mail.recipients]
        findings += checks.given_up(history, must)
        findings += checks.not_said(history, must)
        refused = tuple(refused)
        findings += checks.not_refused(history, refused)
        findings += checks.again_after_refusal(history, refused)
        for mail in doubt:
            for recipient in mail.recipients:
                findings += checks.reported_failed(history, recipient)
        for question in more:
            findings += question(history)
        # Who is found stuck or lost need not be told that it did not come to rest.
        self.findings = _once(findings or checks.not_quiescent(history))
        if self.findings:
            raise Broken(self.findings)
        if refused and not history.knows_states:
            self._not_judged = NOBODY_TO_ASK
        self._must_have_struck()

    def unseen(self, mail: Mail) -> bool:
        """Tell whether this mail may be parked where we cannot see it: not taken, at most once, nobody to ask."""
        history = self.history
        assert history is not None, "calm() comes first"
        return (
            not history.knows_states
            and self.policy is Policy.AT_MOST_ONCE
            and not all(history.copies_for(recipient) for recipient in mail.recipients)
        )

    def content_of(self, mail: Mail) -> list[Finding]:
        """Compare the bytes in the ledger with what was handed over."""
        assert self.history is not None
        return [
            Finding(
                kind="content changed",
                ref=mail.obligation,
                recipient=recipient,
                sentence="; ".join(found),
                ids=(copy.id,),
            )
            for recipient in mail.recipients
            for copy in self.history.copies_for(recipient)
            if (found := differences(mail, self.service.control.raw(copy.id)))
        ]

    def _must_have_struck(self) -> None:
        idle = [
            str(rule["name"])
            for rule in self._rules
            if not self._fired.get(str(rule["name"])) and rule["name"] not in self._may_stay_idle
        ]
        if idle:
            raise Invalid(f"the fault {idle[0]!r} never struck, so nothing was put to the test")

    def evidence(self) -> dict[str, Any]:
        """Return what a certificate keeps of this scenario."""
        history = self.history or History(marks=tuple(self._marks))
        concerned = [finding.recipient for finding in self.findings] or [
            recipient
            for _, recipient in self._owed
            if self._bystander is None or recipient != self._bystander.recipient
        ]
        concerned = list(dict.fromkeys(concerned))[:5]
        timeline = history.timeline(concerned)
        return {
            "mails": [
                {
                    "ref": owed.ref,
                    "recipient": owed.recipient,
                    "owed": owed.copies,
                    "copies": len(history.copies_for(owed.recipient)),
                    "attempts": len(history.tries_for(owed.recipient)),
                    "state": state.value if (state := history.state_of(owed.recipient)) else None,
                    "bystander": self._bystander is not None and owed.recipient == self._bystander.recipient,
                }
                for owed in self._owed.values()
            ],
            "parked": checks.parked(history),
            "dropped": [each.recipient for each in checks.judged(history).dropped],
            "findings": [finding.as_json() for finding in self.findings],
            "not_judged": self._not_judged,
            "rules": [{"name": name, "fired": fired} for name, fired in self._fired.items()],
            "timeline": [
                {
                    "t_s": round((mark.at - self.began_at) / timedelta(seconds=1), 3),
                    "actor": mark.actor,
                    "text": mark.text,
                }
                for mark in timeline[:TIMELINE_LIMIT]
            ],
        }

    def _mark(self, actor: str, text: str, recipient: str | None = None) -> None:
        self._marks.append(Mark(at=now(), actor=actor, text=text, recipient=recipient))


def _policy(file: SenderFile, profile: str) -> Policy:
    if profile == "http" and "http-idempotency" in file.abilities:
        return Policy.EXACTLY_ONCE
    return Policy(file.policy)


def _settled(history: History, policy: Policy) -> bool:
    """Tell whether every promise came to an end, as far as the sender's states and the ledger show it."""
    for owed in history.obligations:
        if owed.state in (Reported.PENDING, Reported.SENDING):
            return False
        missing = owed.state is None and len(history.copies_for(owed.recipient)) < owed.copies
        if missing and (history.knows_states or not _may_have_ended(history, owed.recipient, policy)):
            return False
    return True


def _may_have_ended(history: History, recipient: str, policy: Policy) -> bool:
    """Tell whether a mail that was not taken may have come to an end that its sender cannot be asked about."""
    if checks.ended_by_refusal(history, recipient):
        return True
    # At most once parks what nobody can know.
    return policy is Policy.AT_MOST_ONCE and any(
        each.sent != "complete" for each in history.tries_for(recipient)
    )


def _once(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Leave out what says the same of the same mail twice."""
    return tuple({(each.kind, each.recipient, each.sentence): each for each in findings}.values())


def _spelled(rule: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in rule.items() if key != "name")
