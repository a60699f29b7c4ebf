"""Rules in one line: `503 for 10 s`, `lose 2 answers`, `greylist`, `429 retry-after 3 first 2 to *@example.org`.

A line becomes the table that somebody would have written; nothing here knows what a rule does. It begins with what
goes wrong (`WHATS`, a reply code, the name of a fault); then come, in any order, where, whom and when (`_MODIFIERS`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from simulator.config.durations import NAMES as UNIT_NAMES
from simulator.config.durations import seconds_of
from simulator.config.place import Place, PlanError, did_you_mean, shown
from simulator.dialects import DIALECTS
from simulator.provider.answer import CertificateFlaw
from simulator.provider.fate import Fate
from simulator.provider.faults import FAULTS, SPELLINGS
from simulator.provider.rule import Per

#: A word is a text in double quotes (which may stand behind `=`, as in `header X-Kind="a b"`) or what has no blank.
_WORD = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*")+|"')
_ENHANCED = re.compile(r"[245]\.[0-9]{1,3}\.[0-9]{1,3}")

#: Codes that are at home on SMTP; all others are read as HTTP unless the line says `on smtp`.
SMTP_CODES = frozenset(
    {220, 221, 235, 250, 251, 252, 334, 354, 421, 432, 450, 451, 452, 454, 455, 521, 530, 534, 535, 538}
    | {550, 551, 552, 553, 554, 555, 556}
)
#: Codes that mean one stage only, wherever mail is handed over.
_STAGES_OF_CODES = {454: "auth", 534: "auth", 535: "auth", 538: "auth"}

Table = dict[str, Any]

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


def read_line(place: Place, text: str) -> list[Table]:
    """Return the tables that a line stands for: one, or one per wire. Raise `PlanError`."""
    line = _Line(place, text)
    tables = _what(line)
    while not line.is_over():
        _modify(line)
    given = line.finished()
    named = {"name": text.strip()}
    if len(tables) == 1:
        return [named | tables[0] | given]
    if "stage" in given:
        raise line.wrong("is too much: this strikes at the door of each wire")
    # Each half is of one wire; a line that names one means that half only.
    dialect = given.get("dialect")
    meant = [each for each in tables if dialect is None or DIALECTS.get(dialect, dialect) == each["dialect"]]
    if len(meant) == 1:
        return [named | meant[0] | given]
    return [{"name": f"{text.strip()} ({each['dialect']})"} | each | given for each in meant]


class _Line:
    """The words of a line, how far it was read, and what was read."""

    def __init__(self, place: Place, text: str) -> None:
        self._place = place
        self._text = text
        self._words: list[str] = [word.rstrip(",") for word in _WORD.findall(text) if word != ","]
        self._at = 0
        self.table: Table = {}
        self._after_s: float | None = None
        self._for_s: float | None = None
        if not self._words:
            raise place.wrong(f"the line is empty; {_BEGINNING}")
        if '"' in self._words:
            raise place.wrong(f"a text in {shown(text)} begins with a double quote and never ends")

    def is_over(self) -> bool:
        return self._at >= len(self._words)

    def word(self) -> str:
        """Return the next word, or nothing, and leave it there."""
        return "" if self.is_over() else self._words[self._at]

    def next(self, wanted: str) -> str:
        """Take the next word; `wanted` says what it should be."""
        if self.is_over():
            raise self._place.wrong(
                f"behind {shown(self._words[-1])}, the last word of {shown(self._text)}, {wanted} is missing"
            )
        self._at += 1
        return self._words[self._at - 1]

    def last(self) -> str:
        """Return the word that was taken last."""
        return self._words[self._at - 1] if self._at else ""

    def phrase(self, known: Mapping[str, Any]) -> str | None:
        """Take the longest of these phrases that stands here; a hyphen is as good as a blank."""
        for size in (4, 3, 2, 1):
            words = self._words[self._at : self._at + size]
            found = " ".join(words).lower().replace("-", " ").replace("_", " ")
            if len(words) == size and found in known:
                self._at += size
                return found
        return None

    def wrong(self, says: str) -> PlanError:
        """Return the error about the word that was taken last."""
        return self._place.wrong(
            f"{shown(self._words[self._at - 1])} (word {self._at} of {shown(self._text)}) {says}"
        )

    def put(self, key: str, value: object) -> None:
        if key in self.table:
            raise self.wrong(f'gives "{key}" a second time; say it once')
        self.table[key] = value

    # --- forms --------------------------------------------------------------------------------------

    def text(self, wanted: str) -> str:
        return _unquoted(self.next(wanted))

    def number(self, wanted: str = "a number") -> int:
        given = self.next(wanted)
        form = re.fullmatch(r"([0-9]{1,9})(?:st|nd|rd|th)?", given, re.IGNORECASE)
        if form is None:
            raise self.wrong(f"must be {wanted}")
        return int(form[1])

    def duration(self, wanted: str = "a length of time like 10 s or 5 minutes") -> float:
        """Take a length of time; without a unit these are seconds."""
        given = self.next(wanted)
        form = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([a-z]*)", given, re.IGNORECASE)
        if form is None:
            raise self.wrong(f"must be {wanted}")
        unit = form[2]
        if not unit and seconds_of(self.word()) is not None:
            unit = self.next("a unit")
        seconds = seconds_of(unit or "s")
        if seconds is None:
            raise self.wrong(f"has no unit of time; {did_you_mean(unit, UNIT_NAMES)}")
        return round(float(form[1]) * seconds, 6)

    def is_duration(self) -> bool:
        """Tell whether a length of time with its unit stands here, and not only a number."""
        form = re.fullmatch(r"[0-9.]+([a-z]*)", self.word(), re.IGNORECASE)
        if form is None:
            return False
        behind = self._words[self._at + 1] if self._at + 1 < len(self._words) else ""
        return seconds_of(form[1] or behind) is not None

    def begins_s(self, seconds: float) -> None:
        if self._after_s is not None:
            raise self.wrong("says a second time when it begins; say it once")
        self._after_s = seconds

    def lasts_s(self, seconds: float) -> None:
        if self._for_s is not None:
            raise self.wrong("says a second time how long it lasts; say it once")
        self._for_s = seconds

    def finished(self) -> Table:
        """Return what the modifiers stand for."""
        if self._after_s is not None:
            self.table["from_s"] = self._after_s
        if self._for_s is not None:
            self.put("until_s", (self._after_s or 0.0) + self._for_s)
        return self.table


def _unquoted(word: str) -> str:
    if len(word) >= 2 and word[0] == word[-1] == '"':
        return re.sub(r"\\(.)", r"\1", word[1:-1])
    return word


def _value(written: str) -> object:
    """Read what stands behind `key=` as TOML would: a number, true, false, or a text."""
    if re.fullmatch(r"-?[0-9]{1,15}", written):
        return int(written)
    if re.fullmatch(r"-?[0-9]{1,15}\.[0-9]{1,9}", written):
        return float(written)
    return {"true": True, "false": False}.get(written, _unquoted(written))


# --- what goes wrong --------------------------------------------------------------------------------

_BEGINNING = 'a line begins with what goes wrong, like "503 for 10 s", "lose 2 answers" or "hang up at rcpt"'


def _what(line: _Line) -> list[Table]:
    # The longest counts: "refuse ehlo" is a fault, "refuse ehlo@example.org" a recipient.
    phrase = line.phrase({**WHATS, **_SPECIAL})
    if phrase in _SPECIAL:
        return _SPECIAL[phrase](line)
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
    if word.lower() in _MODIFIERS:
        raise line.wrong(f"says whom or when, and what goes wrong comes first: {_BEGINNING}")
    raise line.wrong(f"is nothing that can go wrong; {_meant(word.lower())}")


def _meant(word: str) -> str:
    """Return what somebody may have meant who began with this word: by that word, as most of what is known has several."""
    known = sorted({*_SPECIAL, *WHATS})
    firsts = sorted({each.split()[0] for each in known})
    if close := get_close_matches(word, firsts, n=1):
        return f"did you mean {' or '.join(shown(each) for each in known if each.split()[0] == close[0])}?"
    return did_you_mean(word, {each for each in known if " " not in each})


def _reply(line: _Line, code: int) -> Table:
    if not 200 <= code <= 599:
        raise line.wrong("is no reply code; those are from 200 to 599")
    table: Table = {"fault": "reply", "code": code, "dialect": "smtp" if code in SMTP_CODES else "http"}
    if code in _STAGES_OF_CODES:
        table["stage"] = _STAGES_OF_CODES[code]
    if _ENHANCED.fullmatch(line.word()):
        table["enhanced"] = line.next("an enhanced code")
    return table


def _lose(line: _Line) -> list[Table]:
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


def _slow(line: _Line) -> list[Table]:
    if line.word().lower() == "by":
        line.next("by")
    return [{"fault": "slow", "delay_s": line.duration("how long, like 2 s")}]


def _refuse(line: _Line) -> list[Table]:
    table: Table = {"fault": "refuse_recipients", "recipient": line.text("whom, like bob@example.org")}
    if line.word().lower() == "with":
        line.next("with")
        table["code"] = line.number("a reply code")
        if _ENHANCED.fullmatch(line.word()):
            table["enhanced"] = line.next("an enhanced code")
        elif 400 <= table["code"] <= 599:
            table["enhanced"] = f"{table['code'] // 100}.0.0"
    return [table]


def _outage(line: _Line) -> list[Table]:
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


def _greylist(line: _Line) -> list[Table]:
    text = "greylisted, come back later"
    line.put("times", 1)
    line.put("per", "recipient")
    return [
        {"fault": "reply", "stage": "rcpt", "dialect": "smtp", "code": 451, "enhanced": "4.7.1", "text": text}
    ]


_SPECIAL: dict[str, Callable[[_Line], list[Table]]] = {
    "lose": _lose,
    "slow": _slow,
    "delay": _slow,
    "refuse": _refuse,
    "outage": _outage,
    "down": _outage,
    "greylist": _greylist,
}


# --- where, whom and when ---------------------------------------------------------------------------


def _modify(line: _Line) -> None:
    word = line.word()
    if word.startswith('"'):
        line.put("text", line.text("a text"))
        return
    percent = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]+)?)(%?)", word)
    if percent is not None:
        _number_first(line, percent)
        return
    phrase = line.phrase(_MODIFIERS)
    if phrase is not None:
        _MODIFIERS[phrase](line)
        return
    behind_number = line.last()[-1:].isdigit()
    line.next("a word")
    key, equals, value = word.partition("=")
    if equals and re.fullmatch(r"[a-z_]+", key):
        # Whatever a table may have, a line may have, too; whether there is such a key is the table's question.
        line.put(key, _value(value))
        return
    known = [*_SHOWN, *UNIT_NAMES] if behind_number else _SHOWN
    raise line.wrong(f"is not understood; {did_you_mean(word.lower(), known)}")


def _number_first(line: _Line, percent: re.Match[str]) -> None:
    """`1 %` and `3 times`: what is meant stands behind the number."""
    line.next("a number")
    behind = line.word().lower()
    if percent[2] or behind in ("%", "percent"):
        if not percent[2]:
            line.next("%")
        chance = float(percent[1]) / 100
        if chance > 1:
            raise line.wrong("is more than all; give a chance from 0 to 100 %")
        line.put("probability", round(chance, 9))
    elif behind == "times" and percent[1].isdecimal():
        line.next("times")
        line.put("times", int(percent[1]))
    else:
        raise line.wrong('stands alone; write "first 2", "2 times", "2 %" or "for 2 s"')


def _after(line: _Line) -> None:
    if line.is_duration():
        line.begins_s(line.duration())
    else:
        line.put("skip", line.number('a number ("after 2": leave the first 2 alone) or a length of time'))


def _every(line: _Line) -> None:
    if line.word().lower() == "other":
        line.next("other")
        line.put("every", 2)
    else:
        line.put("every", line.number('a number, like "every 3rd"'))


def _at(line: _Line) -> None:
    stage = line.next("a stage, like rcpt or accept").lower()
    known = line.table.get("stage")
    if known is None:
        line.put("stage", stage)
    else:
        line.table["stage"] = [*(known if isinstance(known, list) else [known]), stage]


def _on(line: _Line) -> None:
    given = line.next("a wire or dialect, like smtp or http").lower()
    known = {*DIALECTS, *DIALECTS.values()}
    if given not in known:
        raise line.wrong(f"is no wire and no dialect; {did_you_mean(given, known)}")
    line.put("dialect", given)


def _per(line: _Line) -> None:
    given = line.next("mail, recipient or connection").lower()
    known = [each.value for each in Per]
    if given not in known:
        raise line.wrong(f"is nothing to count by; {did_you_mean(given, known)}")
    line.put("per", given)


def _header(line: _Line) -> None:
    name, equals, value = line.next("a header and what is in it, like X-Kind=bulk").partition("=")
    if not equals:
        value = line.next("what is in the header")
    line.put("header", {name: _unquoted(value)})


def _retry_after(line: _Line) -> None:
    word = line.word().lower()
    if word in ("zero", "garbage"):
        line.put("retry_after", line.next(word).lower())
    elif word == "date":
        line.next("date")
        line.put("retry_after", f"date:{line.duration():g}")
    else:
        line.put("retry_after", line.duration("a length of time, or date 30, zero or garbage"))


def _word_for(key: str, wanted: str) -> Callable[[_Line], None]:
    return lambda line: line.put(key, line.text(wanted))


def _number_for(key: str) -> Callable[[_Line], None]:
    return lambda line: line.put(key, line.number())


def _always(key: str, value: object) -> Callable[[_Line], None]:
    return lambda line: line.put(key, value)


#: What a word behind the beginning means.
_MODIFIERS: dict[str, Callable[[_Line], None]] = {
    "first": _number_for("first"),
    "skip": _number_for("skip"),
    "attempt": _number_for("attempt"),
    "after": _after,
    "every": _every,
    "once": _always("times", 1),
    "twice": _always("times", 2),
    "for ever": _always("sticks", "mail"),
    "for": lambda line: line.lasts_s(line.duration()),
    "until": lambda line: line.put("until_s", line.duration()),
    "per": _per,
    "at": _at,
    "on": _on,
    "to": _word_for("recipient", "an address or a pattern"),
    "from": _word_for("sender", "an address or a pattern"),
    "key": _word_for("key", "an idempotency key or a pattern"),
    "account": _word_for("account", "an account or a pattern"),
    "header": _header,
    "retry after": _retry_after,
    "saying": _word_for("text", "a text in double quotes"),
    "and": lambda line: None,
}
_SHOWN = [each.replace("retry after", "retry-after") for each in _MODIFIERS if each != "and"]
