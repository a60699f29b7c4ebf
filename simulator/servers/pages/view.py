"""What the page says: facts of the control API turned into what a person reads. Pure; the templates only lay it out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from simulator import shapes
from simulator.config import PlanError, explain, read_rules

#: What a verdict lists: one of them, several of them, and what is said of each; in the order of their weight.
FINDINGS: Mapping[str, tuple[str, str, str]] = {
    "duplicated": ("duplicate", "duplicates", "accepted too often"),
    "lost": ("loss", "losses", "promised and never accepted"),
    "misdirected": (
        "misdirected mail",
        "misdirected mails",
        "accepted for somebody else, or with other bytes",
    ),
    "phantom": ("mail nobody promised", "mails nobody promised", "accepted, but nobody promised it"),
    "misreported": ("misreported mail", "misreported mails", "accepted, but the sender says it was not"),
    "open": ("promise still open", "promises still open", "not accepted yet"),
    "parked": ("mail waits for a person", "mails wait for a person", "waits for a person"),
    "unsent": ("mail unsent for a reason", "mails unsent for a reason", "ended unsent, with a reason"),
    "dropped": (
        "mail dropped by the provider",
        "mails dropped by the provider",
        "accepted, and never delivered",
    ),
    "forgotten": (
        "promise of which nothing is known any more",
        "promises of which nothing is known any more",
        "not in the ledger, which does not keep all mails any more",
    ),
}
#: Those of them that make a verdict false.
WRONG = ("duplicated", "lost", "misdirected", "phantom", "misreported")


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """The verdict at a glance."""

    tone: str
    """`good`, `bad`, `waiting` or `calm`."""
    title: str
    detail: str


def banner(verdict: shapes.Verdict, mails: int) -> Banner:
    """Return what is said of an account on top of the page."""
    counts = {name: len(_findings(verdict, name)) for name in FINDINGS}
    said = " · ".join(
        f"{thousands(counts[name])} {one if counts[name] == 1 else several}"
        for name, (one, several, _) in FINDINGS.items()
        if counts[name]
    )
    kept = f"{verdict['accepted_once']} of {counted(verdict['obligations'], 'promise')} kept exactly once"
    if any(counts[name] for name in WRONG):
        return Banner(
            tone="bad", title=said, detail=kept if verdict["obligations"] else "Nothing was promised."
        )
    if verdict["valid"] is True:
        return Banner(tone="good", title="Every promise was kept", detail=said or kept)
    if verdict["obligations"]:
        return Banner(tone="waiting", title=said or kept, detail=kept)
    if mails:
        return Banner(
            tone="calm",
            title=f"{counted(mails, 'mail')} accepted, none of them twice",
            detail="Enter promises (POST obligations) and losses are found, too.",
        )
    return Banner(
        tone="calm", title="Nothing accepted yet", detail="Send something, or let something go wrong."
    )


def findings(verdict: shapes.Verdict) -> list[tuple[str, str, shapes.Finding]]:
    """Return every finding with its name and what that means."""
    return [(name, says, each) for name, (*_, says) in FINDINGS.items() for each in _findings(verdict, name)]


def _findings(verdict: shapes.Verdict, name: str) -> list[shapes.Finding]:
    found: list[shapes.Finding] = verdict[name]  # type: ignore[literal-required] # a key of FINDINGS
    return found


def tone_of(attempt: shapes.Attempt) -> str:
    """Return how an attempt went: `good`, `lost` (taken, and the sender cannot know), `bad`, `held`, `open`."""
    if attempt["state"] != "closed":
        return attempt["state"]
    if not attempt["accepted"]:
        return "bad"
    # A yes is a 2xx on both wires; anything else after booking is a lie or a loss.
    told_yes = attempt["sent"] == "complete" and attempt["answer"].startswith(("2", "accepted"))
    return "good" if told_yes else "lost"


#: What the tones mean, for whoever cannot see colours.
TONES: Mapping[str, str] = {
    "good": "accepted, and the sender was told",
    "lost": "accepted, but the sender was not told so",
    "bad": "not accepted",
    "held": "its answer is held back",
    "open": "goes on",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleShown:
    """A rule of the plan in force."""

    name: str
    sentence: str
    seen: int
    fired: int
    over: bool


def rules(plan: Mapping[str, Any]) -> list[RuleShown]:
    """Return the rules of a plan as the control API shows it, explained."""
    return [
        RuleShown(
            name=str(rule["name"]),
            sentence=_explained(written(rule), number).removeprefix(f"{rule['name']}: "),
            seen=int(rule["seen"]),
            fired=int(rule["fired"]),
            over=bool(rule.get("over")),
        )
        for number, rule in enumerate(plan["rules"], 1)
    ]


def lines(plan: Mapping[str, Any]) -> str:
    """Return the rules as they are edited, one a line: in one line where that says it all, else as a table (JSON)."""
    return "\n".join(_line(written(rule)) for rule in plan["rules"])


def settings(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return all of a plan but its rules and a recording: what stays when other rules are put in force."""
    return {name: value for name, value in plan.items() if name not in _NO_SETTINGS and value is not None}


#: What is shown of a plan and is no setting: of a recording only how far it is.
_NO_SETTINGS = frozenset({"rules", "settings", "doubts", "replay"})


def written(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule without what is only counted."""
    return {name: value for name, value in rule.items() if name not in ("seen", "fired", "over")}


def _line(rule: dict[str, Any]) -> str:
    try:
        same = [written_rule.written for written_rule in read_rules([rule["name"]], "plan")]
    except PlanError:
        same = []
    if len(same) == 1 and same[0] is not None and json.loads(same[0]) == rule:
        return str(rule["name"])
    return json.dumps(rule, ensure_ascii=False)


def _explained(rule: dict[str, Any], number: int) -> str:
    (read,) = read_rules([rule], "plan", start=number)
    return explain(read)


# --- small things -----------------------------------------------------------------------------------


def thousands(number: int) -> str:
    return f"{number:,}"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def clock_time(moment: str) -> str:
    """Return the time of day of an ISO instant, in UTC, to the millisecond."""
    return moment[11:23]


def size(number: int) -> str:
    """Return a number of bytes for people."""
    if number < 1024:
        return f"{number} B"
    if number < 1024 * 1024:
        return f"{number / 1024:.1f} KiB"
    return f"{number / 1024 / 1024:.1f} MiB"


def lead(seconds: float) -> str:
    """Return how far a clock is ahead."""
    if not seconds:
        return "real time"
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    said, left = [], round(seconds)
    for unit, length in units:
        if left >= length:
            said.append(f"{left // length} {unit}")
            left %= length
    return f"{' '.join(said[:2]) or '<1 s'} ahead"


def took(attempt: shapes.Attempt) -> str:
    """Return how long an attempt took."""
    if attempt["closed_at"] is None:
        return "…"
    began = datetime.fromisoformat(attempt["opened_at"])
    ended = datetime.fromisoformat(attempt["closed_at"])
    ms = (ended - began).total_seconds() * 1000
    return f"{ms:.0f} ms" if ms < 10_000 else f"{ms / 1000:.1f} s"


def copies_note(mails: Sequence[shapes.Message]) -> dict[str, int]:
    """Return which of these mails are copies of each other: of one Message-ID to one of the same recipients."""
    seen: dict[tuple[str, str], list[str]] = {}
    for mail in mails:
        if mail["message_id"] is not None:
            for recipient in mail["recipients"]:
                seen.setdefault((mail["message_id"], recipient.lower()), []).append(mail["id"])
    return {id_: len(ids) for ids in seen.values() if len(ids) > 1 for id_ in ids}
