"""Every promise has been seen to be broken: each small sin against the tiny sender fails what it must.

A scenario that no sender can fail proves nothing. These sins go beyond the known-bad senders that are shipped;
together the two break every promise of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

import pytest

from scenarios.promises import PROMISES, of_id
from scenarios.sender_file import read_sender
from tests.scenarios.running import SENDERS, by_status, certificate_in, certify


@dataclass(frozen=True, slots=True, kw_only=True)
class Sin:
    """A patch of `TinySender`, and exactly the promises among those that are run that it breaks."""

    methods: str
    breaks: tuple[str, ...]
    keeps: tuple[str, ...] = ()
    """Run as well, and kept: the sin is seen, and not more."""
    file: str = "tiny"


SINS: dict[str, Sin] = {
    "sends again what is in doubt over smtp": Sin(
        methods="def may_repeat(self): return True",
        breaks=tuple(
            f"smtp.{name}"
            for name in (
                "lost-answer.timeout",
                "lost-answer.fin",
                "lost-answer.rst",
                "lost-answer.truncated",
                "lost-answer.malformed",
                "crash.after-acceptance",
            )
        ),
        keeps=("smtp.crash.after-claim",),
    ),
    "doubts from the first word on": Sin(
        methods="""
def over_smtp(self, row):
    self.mark_doubt(row, True)
    return super().over_smtp(row)
""",
        breaks=("smtp.crash.before-the-body",),
        keeps=("smtp.crash.after-claim",),
    ),
    "believes a refusal after a doubt": Sin(
        methods="""
def settle(self, row, outcome):
    super().settle(dataclasses.replace(row, doubt=False), outcome)
""",
        breaks=("http.lost-answer.then-refused",),
        keeps=("http.lost-answer.fin",),
    ),
    "sends only what comes after its start": Sin(
        # When the process was begun, and not when Python was ready in it: what comes in between is sent.
        methods="""
def enqueue(self, mail):
    said = super().enqueue(mail)
    self.db.execute("UPDATE mail SET due = ? WHERE due = 0", (now().timestamp(),))
    return said

def work(self):
    ticks = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    self.db.execute("UPDATE mail SET due = 1e12 WHERE due < ?", (now().timestamp() - age_s,))
    super().work()
""",
        breaks=("http.crash.before-wake-up",),
        keeps=("http.temporary.then-success",),
    ),
    "commits what is rolled back": Sin(
        methods="def enqueue(self, mail): return super().enqueue(mail | {'rollback': False})",
        breaks=("http.business.rollback",),
        keeps=("http.business.same-event-twice",),
    ),
    "takes each enqueue for a new event": Sin(
        methods="""
def enqueue(self, mail):
    (count,) = self.db.execute("SELECT count(*) FROM mail").fetchone()
    return super().enqueue(mail | {"key": f"{mail['key']}-{count}"})
""",
        breaks=("smtp.business.same-event-twice",),
        keeps=("smtp.business.equal-content",),
    ),
    "knows events by their content": Sin(
        methods="def enqueue(self, mail): return super().enqueue(mail | {'key': mail['subject']})",
        breaks=("smtp.business.equal-content",),
        keeps=("smtp.business.same-event-twice",),
    ),
    "takes every refusal for final": Sin(
        methods="""
def settle(self, row, outcome):
    super().settle(row, dataclasses.replace(outcome, kind="refused") if outcome.kind == "later" else outcome)
""",
        breaks=("smtp.temporary.then-success", "smtp.recipients.one-later"),
        keeps=("smtp.refused.recipient",),
    ),
    "tries 400 and 422 again": Sin(
        methods="""
def read_http(self, status, retry_after, content):
    outcome = super().read_http(status, retry_after, content)
    return dataclasses.replace(outcome, kind="later") if outcome.kind == "refused" else outcome
""",
        breaks=("http.refused.400", "http.refused.422", "http.recipients.one-refused"),
        keeps=("http.temporary.then-success",),
    ),
    "does not read Retry-After": Sin(
        methods="""
def read_http(self, status, retry_after, content):
    return super().read_http(status, None, content)
""",
        breaks=("http.pace.retry-after-seconds", "http.pace.retry-after-date"),
        keeps=("http.pace.outage",),
    ),
    "reads Retry-After as seconds only": Sin(
        methods="""
def read_http(self, status, retry_after, content):
    return super().read_http(status, retry_after if (retry_after or "").isdigit() else None, content)
""",
        breaks=("http.pace.retry-after-date",),
        keeps=("http.pace.retry-after-seconds",),
    ),
    "gives up after three attempts": Sin(
        methods="""
def settle(self, row, outcome):
    super().settle(row, outcome)
    if outcome.kind == "later" and row.attempts >= 3:
        self.db.execute("UPDATE mail SET state = 'dead' WHERE key = ?", (row.key,))
""",
        breaks=("smtp.pace.outage",),
        keeps=("smtp.temporary.then-success",),
    ),
    "sends to all again for one that must wait": Sin(
        methods="""
def settle(self, row, outcome):
    super().settle(row, outcome)
    if outcome.kind == "later":
        self.db.execute("UPDATE mail SET state = 'pending' WHERE key = ?", (row.key,))
""",
        breaks=("smtp.recipients.one-later",),
        keeps=("smtp.temporary.then-success",),
    ),
    "claims nothing": Sin(
        methods="def claim(self): return self.due(now().timestamp())",
        breaks=("http.workers.two",),
        keeps=("http.crash.after-acceptance",),
    ),
    "dies of SIGTERM at once": Sin(
        methods="""
def claim(self):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return super().claim()
""",
        breaks=("http.workers.sigterm", "smtp.workers.sigterm"),
        keeps=("smtp.workers.two",),
    ),
    "does not hear SIGTERM": Sin(
        methods="""
def claim(self):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return super().claim()
""",
        breaks=("http.workers.sigterm",),
        keeps=("http.workers.two",),
    ),
    "sends twice to be sure": Sin(
        methods="""
def settle(self, row, outcome):
    super().settle(row, outcome)
    if outcome.kind == "accepted" and row.attempts == 1:
        self.db.execute("UPDATE mail SET state = 'pending' WHERE key = ?", (row.key,))
""",
        breaks=("smtp.dropped.not-resent", "http.dropped.not-resent"),
    ),
    "doubles no dots": Sin(
        methods="""
def bytes_of(self, row):
    # What tiny doubles, the wire halves again: this is the mail of a sender that never doubled it.
    return super().bytes_of(row).replace(b"\\r\\n..", b"\\r\\n.")
""",
        breaks=("smtp.content.real-mail",),
        keeps=("smtp.content.large",),
    ),
    "cuts large mails": Sin(
        methods="def bytes_of(self, row): return super().bytes_of(row)[:1_000_000]",
        breaks=("http.content.large", "smtp.content.large"),
        keeps=("http.content.real-mail",),
    ),
    "writes its attempts into the mail": Sin(
        methods="""
def bytes_of(self, row):
    return b"X-Attempt: %d\\r\\n" % row.attempts + super().bytes_of(row)
""",
        breaks=("http.content.same-bytes",),
        keeps=("http.content.real-mail", "smtp.content.same-bytes"),
    ),
    "writes its attempts into the mail, at least once": Sin(
        methods="""
def bytes_of(self, row):
    return b"X-Attempt: %d\\r\\n" % row.attempts + super().bytes_of(row)
""",
        breaks=("smtp.content.same-bytes", "smtp.lost-answer.fin"),
        file="tiny_at_least_once",
    ),
    "answers a doubt with two copies, at least once": Sin(
        methods="""
def settle(self, row, outcome):
    super().settle(row, outcome)
    if outcome.kind == "accepted" and row.doubt and row.attempts == 2:
        self.db.execute("UPDATE mail SET state = 'pending' WHERE key = ?", (row.key,))
""",
        breaks=("smtp.lost-answer.fin", "http.lost-answer.rst"),
        keeps=("smtp.temporary.then-success",),
        file="tiny_at_least_once",
    ),
    "sends to somebody else": Sin(
        methods="""
def over_smtp(self, row):
    return super().over_smtp(dataclasses.replace(row, recipient=row.recipient.replace("order-1", "eve")))
""",
        breaks=("smtp.business.equal-content",),
    ),
    # What a sender without these keeps of all this is asked in test_tiny_ear.py, once.
    "believes every webhook": Sin(
        methods="def genuine(self, headers, body): return True",
        breaks=("http.webhooks.genuine",),
        file="tiny_hearing",
    ),
    "acknowledges what it has not kept yet": Sin(
        methods="""
def keep(self, rows):
    self.later = [*self.__dict__.get("later", ()), *rows]
    if len(self.later) > 50:
        super().keep(self.later)
""",
        breaks=("http.webhooks.kept",),
        file="tiny_hearing",
    ),
    "believes the last event": Sin(
        methods="def weigh(self, kinds): return kinds[-1] if kinds else None",
        breaks=("http.webhooks.worse-news",),
        file="tiny_hearing",
    ),
    "refuses a batch for one item": Sin(
        methods="def unreadable(self): return 400",
        breaks=("http.webhooks.neighbours",),
        file="tiny_hearing",
    ),
    "refuses what it does not know": Sin(
        methods="""
def answer(self, headers, body):
    known = [to for (to,) in self.db.execute("SELECT recipient FROM mail")]
    return super().answer(headers, body) if any(to.encode() in body for to in known) else 404
""",
        breaks=("http.webhooks.unknown-mail",),
        file="tiny_hearing",
    ),
    "forgets what comes early": Sin(
        methods="""
def keep(self, rows):
    sent = {to for (to,) in self.db.execute("SELECT recipient FROM mail WHERE state = 'accepted'")}
    super().keep([row for row in rows if row[1] in sent])
""",
        breaks=("http.webhooks.early",),
        file="tiny_hearing",
    ),
    "lets a doubt stand": Sin(
        methods="def believe(self): pass",
        breaks=("smtp.webhooks.settles-doubt",),
        file="tiny_hearing",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", SINS)
def test_a_sin_breaks_exactly_this(tmp_path: Path, name: str) -> None:
    """The promises beside it are kept."""
    sin = SINS[name]
    script = tmp_path / "sinner.py"
    script.write_text(
        "import dataclasses, os, pathlib, signal, sys, time\n"
        "from scenarios.clock import now\n"
        "from scenarios.senders.tiny import TinySender, run\n"
        f"class Sinner(TinySender):\n{indent(sin.methods.strip(), '    ')}\n"
        "sys.exit(run(Sinner, sys.argv[1:]))\n",
        encoding="utf-8",
    )
    text = (SENDERS / f"{sin.file}.toml").read_text(encoding="utf-8")
    file = tmp_path / "sender.toml"
    file.write_text(text.replace('"-m", "scenarios.senders.tiny"', '"{here}/sinner.py"'), encoding="utf-8")

    # One scenario after the other, without processes for it: the tests themselves run several at once.
    wanted = ",".join((*sin.breaks, *sin.keeps))
    done = certify("--sender", file, "--select", wanted, "--jobs", "1", "--report", tmp_path)

    certificate = certificate_in(tmp_path)
    assert by_status(certificate, "error") == set(), done.stdout
    assert by_status(certificate, "fail") == set(sin.breaks), done.stdout
    assert by_status(certificate, "pass") == set(sin.keeps)


def test_every_promise_is_broken_by_somebody() -> None:
    """By a sin here or by a known-bad sender."""
    broken = {promise_id for sin in SINS.values() for promise_id in sin.breaks}
    for file in (SENDERS / "known_bad").glob("*.toml"):
        broken.update(read_sender(file).broken)

    # What is asked in the simulated world is broken there, see tests/scenarios/test_exhaustive.py.
    outside = {promise.name for promise in PROMISES if "python-world" not in promise.presumes}
    assert outside - {of_id(each)[0].name for each in broken} == set()
