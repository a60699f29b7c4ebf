"""What goes wrong, as a rule in one line says it: by its name, a reply code, or words of its own (`SPECIAL`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches

from simulator.config.modifiers import MODIFIERS
from simulator.config.place import did_you_mean, shown
from simulator.config.words import BEGINNING, Table, Words
from simulator.provider.answer import CertificateFlaw
from simulator.provider.fate import Fate
from simulator.provider.faults import FAULTS, SPELLINGS

_ENHANCED = re.compile(r"[245]\.[0-9]{1,3}\.[0-9]{1,3}")

#: Codes that are at home on SMTP; all others are read as HTTP unless the line says `on smtp`.
SMTP_CODES = frozenset(
    {220, 221, 235, 250, 251, 252, 334, 354, 421, 432, 450, 451, 452, 454, 455, 521, 530, 534, 535, 538}
    | {550, 551, 552, 553, 554, 555, 556}
)
#: Codes that mean one stage only, wherever mail is handed over.
_STAGES_OF_CODES = {454: "auth", 534: "auth", 535: "auth", 538: "auth"}

#: What goes wrong, in words, and the keys it stands for. The names of faults and fates are words, too.
WHATS: dict[str, Table] = {
    **{name.replace("_", " "): {"fault": name} for name in (*SPELLINGS, *FAULTS) if name != "fate"},
    **{fate.value.replace("_", " "): {"fault": "fate", "fate": fate.value} for fate in Fate},
    **{
        f"{flaw.value.replace('_', ' ')} certificate": {"fault": "bad_certificate", "problem": flaw.value}
        for flaw in CertificateFlaw
    },
    "bounce": {"fault": "fate", "fate": "hard_bounce"},
    "complain": {"fault": "fate", "fate": "complaint"},
    "defer": {"fault": "fate", "fate": "deferred"},
    "drop": {"fault": "accept_then_drop"},
}
#: How answers can be lost: `lose 2 answers by reset`.
MANNERS = {
    name.removeprefix("accept_then_").replace("_", " "): name
    for name in SPELLINGS
    if name != "accept_then_reply"
}


def read_what(line: Words) -> list[Table]:
    """Read the beginning of a line; return the tables it stands for: one, or one per wire. Raises `PlanError`."""
    # The longest counts: "refuse ehlo" is a fault, "refuse ehlo@example.org" a recipient.
    phrase = line.phrase({**WHATS, **SPECIAL})
    if phrase in SPECIAL:
        return SPECIAL[phrase](line)
    if phrase is not None:
        table = dict(WHATS[phrase])
        if table["fault"] in ("reply", "accept_then_reply") and line.word().isdecimal():
            return [_reply(line, line.number("a reply code")) | table]
        if phrase == "hang" and line.is_duration():
            table["delay_s"] = line.duration()
        return [table]
    word = line.next("what goes wrong")
    if re.fullmatch(r"[0-9]{1,9}", word):
        return [_reply(line, int(word))]
    if word.lower() in MODIFIERS:
        raise line.wrong(f"says whom or when, and what goes wrong comes first: {BEGINNING}")
    raise line.wrong(f"is nothing that can go wrong; {_meant(word.lower())}")


def _meant(word: str) -> str:
    """Return what somebody may have meant who began with this word: by that word, as most of what is known has several."""
    known = sorted({*SPECIAL, *WHATS})
    firsts = sorted({each.split()[0] for each in known})
    if close := get_close_matches(word, firsts, n=1):
        return f"did you mean {' or '.join(shown(each) for each in known if each.split()[0] == close[0])}?"
    return did_you_mean(word, {each for each in known if " " not in each})


def _reply(line: Words, code: int) -> Table:
    if not 200 <= code <= 599:
        raise line.wrong("is no reply code; those are from 200 to 599")
    table: Table = {"fault": "reply", "code": code, "dialect": "smtp" if code in SMTP_CODES else "http"}
    if code in _STAGES_OF_CODES:
        table["stage"] = _STAGES_OF_CODES[code]
    if _ENHANCED.fullmatch(line.word()):
        table["enhanced"] = line.next("an enhanced code")
    return table


def _lose(line: Words) -> list[Table]:
    if line.word().lower() == "the":
        line.next("answers")
    if re.fullmatch(r"[0-9]+", line.word()):
        line.put("first", line.number())
    if line.next("answers").lower() not in ("answer", "answers", "reply", "replies"):
        raise line.wrong('is not what can be lost; write "lose 2 answers" or "lose answers"')
    manner = "hang up"
    if line.word().lower() == "by":
        line.next("by")
        found = line.phrase(MANNERS)
        if found is None:
            word = line.next("how they are lost")
            raise line.wrong(f"is no way to lose an answer; {did_you_mean(word.lower(), MANNERS)}")
        manner = found
    return [{"fault": MANNERS[manner]}]


def _slow(line: Words) -> list[Table]:
    if line.word().lower() == "by":
        line.next("by")
    return [{"fault": "slow", "delay_s": line.duration("how long, like 2 s")}]


def _refuse(line: Words) -> list[Table]:
    table: Table = {"fault": "refuse_recipients", "recipient": line.text("whom, like bob@example.org")}
    if line.word().lower() == "with":
        line.next("with")
        table["code"] = line.number("a reply code")
        if _ENHANCED.fullmatch(line.word()):
            table["enhanced"] = line.next("an enhanced code")
        elif 400 <= table["code"] <= 599:
            table["enhanced"] = f"{table['code'] // 100}.0.0"
    return [table]


def _outage(line: Words) -> list[Table]:
    """Nobody gets in: said at the door of each wire."""
    if line.word().lower() == "of":
        line.next("of")
    if line.is_duration():
        line.lasts_s(line.duration())
    return [
        # Who logs in is let in by the plan of `default`, and turned away by that of his account.
        {"fault": "reply", "code": 421, "stage": ["connect", "auth"], "dialect": "smtp"},
        {"fault": "reply", "code": 503, "stage": "request", "dialect": "http"},
    ]


def _greylist(line: Words) -> list[Table]:
    text = "greylisted, come back later"
    line.put("times", 1)
    line.put("per", "recipient")
    return [
        {"fault": "reply", "stage": "rcpt", "dialect": "smtp", "code": 451, "enhanced": "4.7.1", "text": text}
    ]


SPECIAL: dict[str, Callable[[Words], list[Table]]] = {
    "lose": _lose,
    "slow": _slow,
    "delay": _slow,
    "refuse": _refuse,
    "outage": _outage,
    "down": _outage,
    "greylist": _greylist,
}
