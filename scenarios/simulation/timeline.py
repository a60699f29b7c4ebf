"""What happened in a world, for a person: when, who, what was on the wire, what was committed, who died.

A `Recorder` listens while a world runs and changes nothing in it; `Timeline` folds what it heard into lines,
one for each exchange and each commit. Nothing here judges.
"""

from __future__ import annotations

import contextvars
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from scenarios.checks import Finding
from scenarios.history import Said
from scenarios.simulation.loop import OWNER
from scenarios.simulation.network import Wired
from scenarios.simulation.processes import Process
from scenarios.simulation.world import BEGIN, World
from simulator.provider.ledger import Booked, Decided

#: So much of a line is shown, in characters.
WIDTH = 150
TONES = {
    "wire": "",
    "commit": "green",
    "ledger": "bold yellow",
    "death": "bold red",
    "story": "cyan",
    "finding": "bold red",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One thing that happened."""

    at: float
    """Virtual seconds since the world began."""
    who: str
    kind: str
    """wire, commit, ledger, death or story."""
    text: str
    connection: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one commit did to one mail, as the sender itself says. None: there was (or is) no such row."""

    at: float
    who: str
    key: str
    recipient: str
    before: str | None
    after: str | None


class Recorder:
    """Hears everything in a world. Make it before anything runs there."""

    def __init__(self, world: World, said: Callable[[], Iterable[Said]]) -> None:
        self.moments: list[Moment] = []
        self.changes: list[Change] = []
        self.on_booking: Callable[[], None] = lambda: None
        """Called for each mail that the provider has booked, before it answers."""
        self._world = world
        self._said = said
        self._dialled_by: dict[int, str] = {}
        self._rows = self._ask()
        world.watcher = world.ledger.watcher = self
        world.network.on_wire = self._wire
        for (key, recipient), (state, _) in self._rows.items():
            self.note("application", f"has promised {key} to {recipient}: {state}")

    def note(self, who: str, text: str, kind: str = "story") -> None:
        """Add what only the harness knows."""
        self.moments.append(Moment(at=self._world.loop.time(), who=who, kind=kind, text=text))

    # --- what a watcher is told ---------------------------------------------------------------------

    def committed(self, process: Process, statements: tuple[str, ...]) -> None:
        """Say what the commit changed: the states of mails, or else which columns."""
        before, self._rows = self._rows, self._ask()
        words = []
        for name in dict.fromkeys((*before, *self._rows)):
            old, new = before.get(name, (None, None)), self._rows.get(name, (None, None))
            if old == new:
                continue
            key, recipient = name
            self.changes.append(
                Change(
                    at=self._world.loop.time(),
                    who=process.name,
                    key=key,
                    recipient=recipient,
                    before=old[0],
                    after=new[0],
                )
            )
            tries = f" (attempt {new[1]})" if new[1] is not None and new[1] != old[1] and old[0] else ""
            words.append(f"{key} to {recipient}: {old[0] or 'nothing'} → {new[0] or 'nothing'}{tries}")
        self.note(process.name, "commits " + ("; ".join(words) or _written(statements)), "commit")

    def booked(self, process: Process | None, records: Sequence[Any]) -> None:
        """Say what the provider took, and which of its rules struck."""
        for record in records:
            match record:
                case Booked(acceptance=taken):
                    names = ", ".join(
                        filter(
                            None, (taken.key and f"key {_short(taken.key)}", _short(taken.message_id or ""))
                        )
                    )
                    fate = "" if taken.fate.value == "delivered" else f", to be {taken.fate.value}"
                    self.note(
                        "provider",
                        f"ACCEPTS {taken.obligation or 'a mail'} for {', '.join(taken.recipients)} ({names}){fate}",
                        "ledger",
                    )
                    self.on_booking()
                case Decided(decision=decision):
                    # Written some time later; what counts is when it was decided.
                    at = (decision.at - BEGIN).total_seconds()
                    text = f"rule strikes: {', '.join(decision.rules)}"
                    self.moments.append(Moment(at=at, who="provider", kind="story", text=text))

    def died(self, process: Process, cause: str) -> None:
        """Say who was killed, and where."""
        self.note(process.name, f"DIES: {cause}", "death")

    def _wire(self, wired: Wired) -> None:
        if wired.what == "open":
            owner = OWNER.get()
            self._dialled_by[wired.connection] = owner.name if isinstance(owner, Process) else "somebody"
        client = wired.source.startswith("127.")
        self.moments.append(
            Moment(
                at=wired.at,
                who=self._dialled_by.get(wired.connection, "somebody"),
                kind="wire",
                text=_on_wire(wired, client),
                connection=wired.connection,
            )
        )

    def _ask(self) -> dict[tuple[str, str], tuple[str | None, int | None]]:
        # In nobody's context: the question must not be a crash point of whoever commits.
        said = contextvars.Context().run(self._said)
        return {(each.key, each.recipient): (each.state.value, each.attempts) for each in said}


# --- words ------------------------------------------------------------------------------------------


def _on_wire(wired: Wired, client: bool) -> str:
    arrow = "→" if client else "←"
    match wired.what:
        case "open":
            return "→ connects"
        case "fin" | "rst":
            return f"{arrow} {wired.what.upper()}"
    return f"{arrow} {_client_words(wired.data) if client else _provider_words(wired.data)}"


_REQUEST = re.compile(rb"(GET|POST|PUT|DELETE) (\S+) HTTP/1\.[01]\r\n")
_COMMAND = re.compile(
    rb"(EHLO|HELO|MAIL|RCPT|DATA|RSET|QUIT|NOOP|AUTH|STARTTLS)\b[^\r\n]*\r\n$", re.IGNORECASE
)


def _client_words(data: bytes) -> str:
    if found := _REQUEST.match(data):
        head, _, body = data.partition(b"\r\n\r\n")
        key = re.search(rb"\r\n(?:x-)?(?:idempotency|dedupe)-key: ([^\r]*)", head, re.IGNORECASE)
        words = [found[1].decode(), found[2].decode("ascii", "replace")]
        words += [f"key {_short(key[1].decode('ascii', 'replace'))}"] if key else []
        words += [f"{len(body)} bytes"] if body else []
        return " ".join(words)
    if data == b".\r\n":
        return "final dot"
    if _COMMAND.match(data):
        word, _, rest = data.decode("ascii", "replace").strip().partition(" ")
        address = re.search(r"<([^>]*)>", rest)
        return f"{word} {address[1]}" if address else word
    return f"{len(data)} bytes"


def _provider_words(data: bytes) -> str:
    if data.startswith(b"HTTP/1."):
        head, _, body = data.partition(b"\r\n\r\n")
        line, *more = head.decode("latin-1").split("\r\n")
        words = " ".join(line.split(" ")[1:])
        extra = [each for each in more if each.lower().startswith(("idempotency-replayed", "retry-after"))]
        return ", ".join(filter(None, (words, *extra, f"{len(body)} bytes" if body else "")))
    text = data.decode("utf-8", "replace")
    if re.match(r"\d{3}[ -]", text) and text.endswith("\r\n"):
        last = text.rstrip("\r\n").split("\r\n")[-1]
        # A yes needs no words; why not, does.
        return last[:3] if last[0] in "23" else last
    if len(text) <= 40:
        return repr(text)
    return f"{len(data)} bytes {text[:24]!r}…"


def _short(name: str) -> str:
    return name if len(name) <= 26 else f"{name[:14]}…{name[-8:]}"


def _written(statements: Iterable[str]) -> str:
    words: dict[str, None] = {}
    for sql in statements:
        if found := re.match(r'\s*UPDATE\s+"?(\w+)"?\s+SET\s+(.*?)(?:\s+WHERE\b|$)', sql, re.S | re.I):
            columns = re.findall(r'"?(\w+)"?\s*=', found[2])
            words[f"{found[1]} ({', '.join(columns)})"] = None
        elif found := re.match(r'\s*(?:INSERT|REPLACE)\b.*?\bINTO\s+"?(\w+)', sql, re.S | re.I):
            words[found[1]] = None
        else:
            words[" ".join(sql.split())[:60]] = None
    return ", ".join(words)


# --- lines ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a timeline."""

    kind: str
    text: str


def lines(moments: Sequence[Moment], findings: Iterable[Finding] = ()) -> list[Line]:
    """Fold moments into lines: what follows on one connection at one instant is one exchange."""
    folded: list[Moment] = []
    for moment in sorted(moments, key=_at):
        last = folded[-1] if folded else None
        if (
            last is not None
            and moment.kind == last.kind == "wire"
            and (moment.connection, moment.at) == (last.connection, last.at)
        ):
            text = f"{last.text} {moment.text}"
            folded[-1] = Moment(at=last.at, who=last.who, kind="wire", text=text, connection=last.connection)
        else:
            folded.append(moment)
    shown = [
        Line(kind=each.kind, text=_line(each))
        for number, each in enumerate(folded)
        if not _only_goodbye(each, folded[:number])
    ]
    shown += [
        Line(
            kind="finding",
            text=_cut(
                f"{'':>14}{each.kind.upper()}: {f'{each.recipient}: ' if each.recipient else ''}{each.sentence}"
            ),
        )
        for each in findings
    ]
    return shown


def _at(moment: Moment) -> float:
    return moment.at


def _only_goodbye(moment: Moment, before: Sequence[Moment]) -> bool:
    """Tell whether a line says no more than that an idle connection, whose last word was an answer, is closed."""
    if moment.kind != "wire" or set(moment.text.split()) - {"→", "←", "FIN"}:
        return False
    last = next(
        (each for each in reversed(before) if each.kind == "wire" and each.connection == moment.connection),
        None,
    )
    return last is None or "FIN" in last.text or last.text.rfind("←") > last.text.rfind("→")


def _line(moment: Moment) -> str:
    who = f"{moment.at:10.3f} s  {moment.who:<12}"
    wire = f"#{moment.connection} " if moment.kind == "wire" else ""
    return _cut(f"{who} {wire}{moment.text}")


def _cut(text: str) -> str:
    text = " ".join(text.splitlines())
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def show(console: Console, shown: Iterable[Line]) -> None:
    """Print a timeline; in colour where the console is a terminal."""
    for line in shown:
        console.print(Text(line.text, style=TONES[line.kind]), soft_wrap=True)
