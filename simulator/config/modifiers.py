"""Where, whom and when, as a rule in one line says it: what may stand behind what goes wrong, in any order."""

from __future__ import annotations

import re
from collections.abc import Callable

from simulator.config.durations import NAMES as UNIT_NAMES
from simulator.config.place import did_you_mean
from simulator.config.words import Words, unquoted
from simulator.dialects import DIALECTS
from simulator.provider.rule import Per


def modify(line: Words) -> None:
    """Read the next modifier of a line into its table. Raises `PlanError`."""
    word = line.word()
    if word.startswith('"'):
        line.put("text", line.text("a text"))
        return
    percent = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]+)?)(%?)", word)
    if percent is not None:
        _number_first(line, percent)
        return
    phrase = line.phrase(MODIFIERS)
    if phrase is not None:
        MODIFIERS[phrase](line)
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


def _number_first(line: Words, percent: re.Match[str]) -> None:
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


def _after(line: Words) -> None:
    if line.is_duration():
        line.begins_s(line.duration())
    else:
        line.put("skip", line.number('a number ("after 2": leave the first 2 alone) or a length of time'))


def _every(line: Words) -> None:
    if line.word().lower() == "other":
        line.next("other")
        line.put("every", 2)
    else:
        line.put("every", line.number('a number, like "every 3rd"'))


def _at(line: Words) -> None:
    stage = line.next("a stage, like rcpt or accept").lower()
    known = line.table.get("stage")
    if known is None:
        line.put("stage", stage)
    else:
        line.table["stage"] = [*(known if isinstance(known, list) else [known]), stage]


def _on(line: Words) -> None:
    given = line.next("a wire or dialect, like smtp or http").lower()
    known = {*DIALECTS, *DIALECTS.values()}
    if given not in known:
        raise line.wrong(f"is no wire and no dialect; {did_you_mean(given, known)}")
    line.put("dialect", given)


def _per(line: Words) -> None:
    given = line.next("mail, recipient or connection").lower()
    known = [each.value for each in Per]
    if given not in known:
        raise line.wrong(f"is nothing to count by; {did_you_mean(given, known)}")
    line.put("per", given)


def _header(line: Words) -> None:
    name, equals, value = line.next("a header and what is in it, like X-Kind=bulk").partition("=")
    if not equals:
        value = line.next("what is in the header")
    line.put("header", {name: unquoted(value)})


def _retry_after(line: Words) -> None:
    word = line.word().lower()
    if word in ("zero", "garbage"):
        line.put("retry_after", line.next(word).lower())
    elif word == "date":
        line.next("date")
        line.put("retry_after", f"date:{line.duration():g}")
    else:
        line.put("retry_after", line.duration("a length of time, or date 30, zero or garbage"))


def _word_for(key: str, wanted: str) -> Callable[[Words], None]:
    return lambda line: line.put(key, line.text(wanted))


def _number_for(key: str) -> Callable[[Words], None]:
    return lambda line: line.put(key, line.number())


def _always(key: str, value: object) -> Callable[[Words], None]:
    return lambda line: line.put(key, value)


#: What a word behind the beginning means.
MODIFIERS: dict[str, Callable[[Words], None]] = {
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
_SHOWN = [each.replace("retry after", "retry-after") for each in MODIFIERS if each != "and"]


def _value(written: str) -> object:
    """Read what stands behind `key=` as TOML would: a number, true, false, or a text."""
    if re.fullmatch(r"-?[0-9]{1,15}", written):
        return int(written)
    if re.fullmatch(r"-?[0-9]{1,15}\.[0-9]{1,9}", written):
        return float(written)
    return {"true": True, "false": False}.get(written, unquoted(written))
