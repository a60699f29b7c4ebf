"""Reads fault plans: TOML or JSON becomes a `Setup`, and whatever is wrong with it becomes one sentence.

What a fault or a rule *does* lives in `simulator.provider`; here is only the language people write it in:
keys, forms, which conditions can be known at which stage. Keys of faults come from the faults' own fields.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.dialects import DIALECTS
from simulator.provider.answer import RetryAfter, RetryAfterKind, spoken
from simulator.provider.faults import (
    AFTER_BOOKING,
    FAULTS,
    HTTP_STAGES,
    NATURAL_STAGE,
    SMTP_STAGES,
    SPELLINGS,
    Drop,
    Fault,
    RefuseRecipients,
    SlowDown,
)
from simulator.provider.idempotency import KeyRules
from simulator.provider.limits import Limits
from simulator.provider.plan import Pattern, Per, Plan, Rule, When, Who
from simulator.provider.provider import DEFAULT_ACCOUNT, Account, Setup


class PlanError(ValueError):
    """A plan cannot be used. The message is one sentence: where, what was given, what would be right."""


STAGES: dict[str, tuple[str, ...]] = {"smtp": SMTP_STAGES, "http": HTTP_STAGES}
WIRES = tuple(STAGES)

_SMTP_WITH_MAIL = ("mail", "rcpt", "data", "body", "message", "reply", "rset")
_SMTP_WITH_RECIPIENT = _SMTP_WITH_MAIL[1:]
_HTTP_WITH_MAIL = ("validate", "accept", "reply", "body")

#: At which stages a condition can be met at all; before, what it asks for is not known yet.
KNOWN_AT: dict[str, dict[str, tuple[str, ...]]] = {
    "account": {"smtp": SMTP_STAGES[3:], "http": HTTP_STAGES[1:]},
    "sender": {"smtp": _SMTP_WITH_MAIL, "http": _HTTP_WITH_MAIL},
    "recipient": {"smtp": _SMTP_WITH_RECIPIENT, "http": _HTTP_WITH_MAIL},
    # SMTP has no idempotency keys; on HTTP they come with the head of the request.
    "key": {"smtp": (), "http": HTTP_STAGES[1:]},
    # SMTP `body` strikes when the header block of the mail is there.
    "header": {"smtp": ("body", "message", "reply"), "http": _HTTP_WITH_MAIL},
}
#: What `per` and `sticks = "mail"` count by is told by the recipients.
_MAIL_KNOWN_AT = KNOWN_AT["recipient"]

WHO_KEYS = ("account", "dialect", "sender", "recipient", "key", "header")
WHEN_KEYS = tuple(field.name for field in dataclasses.fields(When))
RULE_KEYS = ("name", "fault", "stage", *WHO_KEYS, *WHEN_KEYS, "per", "sticks")
PLAN_KEYS = ("seed", "rule", "idempotency", "limits")


# --- where we are, for error messages ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in a plan we are reading."""

    source: str
    part: str = ""

    def wrong(self, says: str) -> PlanError:
        where = f"{self.source}: {self.part}: " if self.part else f"{self.source}: "
        return PlanError(f"{where}{says}")

    def at(self, part: str) -> _Place:
        return _Place(self.source, part)


def _shown(value: object) -> str:
    """Show a value as it would be written in a plan, shortened."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _mean(given: object, known: Collection[str]) -> str:
    """Return a did-you-mean, or the list of what is known."""
    close = difflib.get_close_matches(str(given), sorted(known), n=1, cutoff=0.6)
    return f'did you mean "{close[0]}"?' if close else f"known are {', '.join(sorted(known))}"


def _unknown(place: _Place, data: Mapping[str, Any], known: Collection[str], what: str = "key") -> None:
    for key in data:
        if key not in known:
            raise place.wrong(f'there is no {what} "{key}"; {_mean(key, known)}')


# --- forms of values --------------------------------------------------------------------------------


def _whole(place: _Place, key: str, value: object, *, least: int | None = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        bound = "" if least is None else f" of {least} or more"
        raise place.wrong(f'"{key}" is {_shown(value)}; it must be a whole number{bound}')
    return value


def _number(place: _Place, key: str, value: object, *, above_zero: bool = False) -> float:
    number = math.nan
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            pass  # A whole number of hundreds of digits: as unfit as infinity, and said in the same sentence.
    if not math.isfinite(number) or number < 0 or (above_zero and number == 0):
        bound = "above 0" if above_zero else "of 0 or more"
        raise place.wrong(f'"{key}" is {_shown(value)}; it must be a number {bound}')
    return number


def _flag(place: _Place, key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise place.wrong(f'"{key}" is {_shown(value)}; it must be true or false')
    return value


def _string(place: _Place, key: str, value: object) -> str:
    if not isinstance(value, str):
        raise place.wrong(f'"{key}" is {_shown(value)}; it must be a text')
    return value


def _pattern(place: _Place, key: str, value: object) -> Pattern:
    text = _string(place, key, value)
    if not text and key != "sender":
        raise place.wrong(
            f'"{key}" is empty; give an exact text, a wildcard like "*@example.org" or a "/regex/"'
        )
    pattern = Pattern(text)
    try:
        pattern.matches("")
    except re.error as problem:
        raise place.wrong(
            f'"{key}" is {_shown(text)}, which is no regular expression: {problem}'
        ) from problem
    return pattern


def _code(place: _Place, key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 200 <= value <= 599:
        raise place.wrong(f'"{key}" is {_shown(value)}; it must be a reply code from 200 to 599')
    return value


def _enhanced(place: _Place, key: str, value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[245]\.[0-9]{1,3}\.[0-9]{1,3}", value):
        raise place.wrong(
            f'"{key}" is {_shown(value)}; it must be an enhanced code like "4.3.0" (class 2, 4 or 5)'
        )
    return value


def _retry_after(place: _Place, key: str, value: object) -> RetryAfter:
    match value:
        case bool():
            pass
        case int() | float() if math.isfinite(value) and value >= 0:
            return RetryAfter(kind=RetryAfterKind.SECONDS, seconds=float(value))
        case "zero":
            return RetryAfter(kind=RetryAfterKind.ZERO)
        case "garbage":
            return RetryAfter(kind=RetryAfterKind.GARBAGE)
        case str() if date := re.fullmatch(r"date:([0-9]{1,9}(?:\.[0-9]{1,9})?)", value):
            return RetryAfter(kind=RetryAfterKind.DATE, seconds=float(date[1]))
    raise place.wrong(
        f'"{key}" is {_shown(value)}; it must be a number of seconds, "date:30" (an HTTP-date 30 s ahead), '
        f'"zero" or "garbage"'
    )


#: How each parameter of a fault is read; a test holds that every field of every fault stands here.
PARAMETERS: dict[str, Callable[[_Place, str, object], Any]] = {
    "code": _code,
    "enhanced": _enhanced,
    "text": _string,
    "retry_after": _retry_after,
    "body": _string,
    "delay_s": _number,
}


# --- whole plans ------------------------------------------------------------------------------------


def read_plan_file(path: str | Path) -> Setup:
    """Read a plan from a TOML file (JSON if it is named so). Raise `PlanError`."""
    source = str(path)
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except FileNotFoundError as problem:
        raise PlanError(f"{source}: there is no such file; give the path of a fault plan") from problem
    except IsADirectoryError as problem:
        raise PlanError(f"{source}: this is a directory; give the path of a fault plan") from problem
    except UnicodeDecodeError as problem:
        line = problem.object[: problem.start].count(b"\n") + 1
        raise PlanError(f"{source}, line {line}: this is not UTF-8; save the plan in UTF-8") from problem
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        raise PlanError(f"{source}: the plan cannot be read: {reason}") from problem
    if Path(path).suffix.lower() == ".json":
        return read_plan(_parse_json(text, source), source)
    return read_plan(_parse_toml(text, source), source)


def _parse_toml(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        said = str(problem)
        if at := re.search(r" \(at line (\d+), column (\d+)\)$", said):
            line, what = int(at[1]), f"{said[: at.start()]} (column {at[2]})"
        else:  # "… (at end of document)"
            line, what = text.count("\n") + 1, said
        raise PlanError(f"{source}, line {line}: this is not valid TOML: {what}") from problem
    except RecursionError as problem:
        raise PlanError(f"{source}: this is not valid TOML: it is nested too deeply") from problem


def _parse_json(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        raise PlanError(
            f"{source}, line {problem.lineno}: this is not valid JSON: {problem.msg} (column {problem.colno})"
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise PlanError(f"{source}: this is not valid JSON: it goes beyond what is read here") from problem


def read_plan(data: Mapping[str, Any], source: str) -> Setup:
    """Read a plan that was parsed already. `source` names it in errors: a file, or `PUT plan`. Raise `PlanError`."""
    place = _Place(source)
    if not isinstance(data, Mapping):
        raise place.wrong(f"a plan is an object with the keys {', '.join(PLAN_KEYS)}, not {_shown(data)}")
    # JSON people write the plural, TOML needs the singular for [[rule]].
    _unknown(place, data, (*PLAN_KEYS, "rules"))
    if "rule" in data and "rules" in data:
        raise place.wrong('both "rule" and "rules" are given; put all rules under one of them')
    rules = data.get("rule", data.get("rules", []))
    return Setup(
        plan=Plan(
            rules=read_rules(rules, source), seed=_whole(place, "seed", data.get("seed", 0), least=None)
        ),
        keys=_read_keys(data.get("idempotency", {}), place.at("[idempotency]")),
        limits=_read_limits(data.get("limits", {}), place.at("[limits]")),
    )


def _read_keys(data: object, place: _Place) -> KeyRules:
    if not isinstance(data, Mapping):
        raise place.wrong(f"this must be a table of settings, not {_shown(data)}")
    _unknown(place, data, [field.name for field in dataclasses.fields(KeyRules)])
    given: dict[str, Any] = {
        key: _flag(place, key, value) if key in ("honoured", "required") else _number(place, key, value)
        for key, value in data.items()
    }
    rules = KeyRules(**given)
    if rules.required and not rules.honoured:
        raise place.wrong(
            '"required" is true and "honoured" is false; a key that is asked for must be honoured'
        )
    return rules


def _read_limits(data: object, place: _Place) -> Limits:
    if not isinstance(data, Mapping):
        raise place.wrong(f"this must be a table of settings, not {_shown(data)}")
    _unknown(place, data, [field.name for field in dataclasses.fields(Limits)])
    given: dict[str, Any] = {}
    for key, value in data.items():
        if value is None and key != "burst":  # JSON's null: no limit
            given[key] = None
        elif key == "rate_per_s":
            given[key] = _number(place, key, value, above_zero=True)
        else:
            given[key] = _whole(place, key, value, least=1)
    return Limits(**given)


# --- rules ------------------------------------------------------------------------------------------


def read_rules(rules: object, source: str, *, start: int = 1) -> tuple[Rule, ...]:
    """Read a list of rules. `start` is the number of the first one (when they are appended). Raise `PlanError`."""
    if not isinstance(rules, Sequence) or isinstance(rules, (str, bytes)):
        raise _Place(source).wrong(f"the rules are {_shown(rules)}; they must be a list ([[rule]] in TOML)")
    return tuple(_read_rule(data, source, number) for number, data in enumerate(rules, start))


def _read_rule(data: object, source: str, number: int) -> Rule:
    place = _Place(source, f"rule {number}")
    if not isinstance(data, Mapping):
        raise place.wrong(f"a rule is a table of keys, not {_shown(data)}")
    name = _string(place, "name", data.get("name", f"rule {number}"))
    if not name.strip() or not name.isprintable():
        raise place.wrong(f'"name" is {_shown(name)}; give a short printable name or leave it out')
    if "name" in data:
        place = place.at(f"rule {number} ({_shown(name)})")

    fault_name, spelling_stage, defaults = _fault_named(place, data)
    kind = FAULTS[fault_name]
    given = dict(data)
    if kind is RefuseRecipients and "recipients" in given and "recipient" not in given:
        # Whom it refuses reads better in the plural; it is the same condition.
        given["recipient"] = given.pop("recipients")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for key in given:
        if key in RULE_KEYS or key in fields:
            continue
        if key in PARAMETERS:
            having = [f'"{other}"' for other, it in FAULTS.items() if _has_field(it, key)]
            raise place.wrong(
                f'the fault "{data["fault"]}" has no key "{key}"; it belongs to {" and ".join(having)}'
            )
        raise place.wrong(f'there is no key "{key}"; {_mean(key, (*RULE_KEYS, *fields))}')
    parameters = defaults | {key: PARAMETERS[key](place, key, given[key]) for key in fields if key in given}
    for key, field in fields.items():
        if key not in parameters and field.default is dataclasses.MISSING:
            raise place.wrong(f'the fault "{data["fault"]}" needs the key "{key}"')
    fault = kind(**parameters)

    who, wires = _read_who(place, given)
    when, sticks_to_mail = _read_when(place, given)
    per = _read_per(place, given)
    stages = _read_stages(place, given, fault, spelling_stage, wires)
    stages = _where_known(place, given, stages, who, per, sticks_to_mail)
    return Rule(
        name=name,
        fault=fault,
        stages=frozenset(stages),
        who=who,
        when=when,
        per=per,
        sticks_to_mail=sticks_to_mail,
        written=json.dumps({"name": name} | dict(data), ensure_ascii=False),
    )


def _has_field(kind: type[Fault], key: str) -> bool:
    return any(field.name == key for field in dataclasses.fields(kind))


def _fault_named(place: _Place, data: Mapping[str, Any]) -> tuple[str, str | None, dict[str, Any]]:
    """Return the fault's own name, the stage its spelling fixes, and the spelling's defaults."""
    if "fault" not in data:
        raise place.wrong(f'the key "fault" is missing; known are {", ".join(sorted({*FAULTS, *SPELLINGS}))}')
    given = data["fault"]
    if isinstance(given, str) and given in FAULTS:
        return given, None, {}
    if isinstance(given, str) and given in SPELLINGS:
        spelling = SPELLINGS[given]
        return spelling.fault, spelling.stage, dict(spelling.defaults)
    raise place.wrong(f'"fault" is {_shown(given)}, which is no fault; {_mean(given, {*FAULTS, *SPELLINGS})}')


def _read_who(place: _Place, data: Mapping[str, Any]) -> tuple[Who, tuple[str, ...]]:
    """Return the conditions and the wires that the dialect allows."""
    named = {
        key: _pattern(place, key, data[key])
        for key in ("account", "sender", "recipient", "key")
        if key in data
    }
    headers: list[tuple[str, Pattern]] = []
    if "header" in data:
        if not isinstance(data["header"], Mapping) or not data["header"]:
            raise place.wrong(
                f'"header" is {_shown(data["header"])}; it must be a table of header names and patterns, '
                f'like {{ "X-Kind" = "bulk" }}'
            )
        for name, value in data["header"].items():
            if not re.fullmatch(r"[!-9;-~]+", name):
                raise place.wrong(f'"header" names {_shown(name)}, which is no header name')
            headers.append((name, _pattern(place, f"header.{name}", value)))
    dialect, wires = _read_dialect(place, data)
    return Who(**named, dialect=dialect, headers=tuple(headers)), wires


def _read_dialect(place: _Place, data: Mapping[str, Any]) -> tuple[Pattern | None, tuple[str, ...]]:
    if "dialect" not in data:
        return None, WIRES
    pattern = _pattern(place, "dialect", data["dialect"])
    if pattern.text.lower() in WIRES:
        # The name of a wire means every dialect on it.
        return None, (pattern.text.lower(),)
    meant = {wire for dialect, wire in DIALECTS.items() if pattern.matches(dialect)}
    if not meant:
        raise place.wrong(f'"dialect" is {_shown(pattern.text)}; {_mean(pattern.text, {*DIALECTS, *WIRES})}')
    return pattern, tuple(wire for wire in WIRES if wire in meant)


def _read_when(place: _Place, data: Mapping[str, Any]) -> tuple[When, bool]:
    given: dict[str, Any] = {}
    for key in WHEN_KEYS:
        if key not in data:
            continue
        value = data[key]
        if key in ("from_s", "until_s"):
            given[key] = _number(place, key, value)
        elif key == "probability":
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
                raise place.wrong(f'"probability" is {_shown(value)}; it must be a number from 0 to 1')
            given[key] = float(value)
        elif key == "times" and value == "once":
            given[key] = 1
        else:
            given[key] = _whole(place, key, value, least=1 if key in ("every", "attempt") else 0)
    sticks = data.get("sticks", "until_healed")
    match sticks:
        case "until_healed":
            return When(**given), False
        case "mail":
            return When(**given), True
        case "once":
            count = 1
        case bool():
            count = 0
        case int():
            count = sticks
        case _:
            count = 0
    if count < 1:
        close = difflib.get_close_matches(str(sticks), ["until_healed", "mail", "once"], n=1)
        hint = f'did you mean "{close[0]}"?' if close else ""
        right = hint or 'it must be "once", a whole number of times, "until_healed" or "mail"'
        raise place.wrong(f'"sticks" is {_shown(sticks)}; {right}')
    if "times" in data:
        raise place.wrong('both "times" and "sticks" say how often the rule strikes; leave one of them out')
    return When(**given, times=count), False


def _read_per(place: _Place, data: Mapping[str, Any]) -> Per:
    given = data.get("per", "plan")
    if given not in tuple(Per):
        raise place.wrong(f'"per" is {_shown(given)}; {_mean(given, [each.value for each in Per])}')
    return Per(given)


def _read_stages(
    place: _Place, data: Mapping[str, Any], fault: Fault, spelling_stage: str | None, wires: Sequence[str]
) -> set[tuple[str, str]]:
    if spelling_stage is not None:
        return {
            (wire, spelling_stage) for wire in _wires_of_spelling(place, data, fault, spelling_stage, wires)
        }
    stage = None
    if "stage" in data:
        stage = _string(place, "stage", data["stage"])
        known = {each for wire in wires for each in STAGES[wire]}
        if stage not in {each for stages in STAGES.values() for each in stages}:
            raise place.wrong(f'"stage" is {_shown(stage)}, which is no stage; {_mean(stage, known)}')
        if stage not in known:
            (wire,) = wires  # both wires together have every stage
            raise place.wrong(
                f'the stage "{stage}" does not exist on {wire.upper()}; its stages are {", ".join(STAGES[wire])}'
            )
    if stage is None:
        return {(wire, NATURAL_STAGE[wire][fault.name]) for wire in wires}
    if stage not in fault.stages:
        fitting = [each for each in fault.stages if any(each in STAGES[wire] for wire in wires)]
        raise place.wrong(
            f'the fault "{fault.name}" cannot strike at stage "{stage}"; it can at {", ".join(fitting)}'
        )
    return {(wire, stage) for wire in wires if stage in STAGES[wire]}


def _wires_of_spelling(
    place: _Place, data: Mapping[str, Any], fault: Fault, spelling_stage: str, wires: Sequence[str]
) -> list[str]:
    """`accept_then_X` may name the stage at which the mail is accepted, or that of the answer, or none."""
    given = data.get("stage", spelling_stage)
    left = [wire for wire in wires if given in (spelling_stage, NATURAL_STAGE[wire][fault.name])]
    if not left:
        raise place.wrong(
            f'"{data["fault"]}" strikes at stage "{spelling_stage}", not at {_shown(given)}; '
            f'leave "stage" out, or write the fault "{fault.name}"'
        )
    return left


def _where_known(
    place: _Place,
    data: Mapping[str, Any],
    stages: set[tuple[str, str]],
    who: Who,
    per: Per,
    sticks_to_mail: bool,
) -> set[tuple[str, str]]:
    """Leave out the wires on which a condition could never be met; none left is an error."""
    asked: list[tuple[str, dict[str, tuple[str, ...]]]] = [
        (f'"{key}"', KNOWN_AT[key]) for key in KNOWN_AT if key in data and key != "account"
    ]
    # Before a sender has named itself it belongs to the default account.
    if who.account is not None and not who.account.matches(DEFAULT_ACCOUNT):
        asked.append(('"account"', KNOWN_AT["account"]))
    if per in (Per.MAIL, Per.RECIPIENT):
        asked.append((f'"per" = "{per}"', _MAIL_KNOWN_AT))
    if sticks_to_mail:
        asked.append(('"sticks" = "mail"', _MAIL_KNOWN_AT))
    for what, known in asked:
        left = {(wire, stage) for wire, stage in stages if stage in known[wire]}
        if not left:
            # Once each, in the order of the protocol, of the wires that this rule could be on.
            on = {wire for wire, _ in stages}
            right = [
                f"{', '.join(known[wire])} ({wire.upper()})" for wire in WIRES if wire in on and known[wire]
            ]
            at = " and ".join(sorted({f'"{stage}"' for _, stage in stages}))
            raise place.wrong(
                f"{what} cannot be known at stage {at}; "
                + (f"it is at {' or '.join(right)}" if right else "SMTP has no idempotency keys")
            )
        stages = left
    return stages


# --- showing plans ----------------------------------------------------------------------------------


def rule_as_json(rule: Rule) -> dict[str, Any]:
    """Return a rule in the plan language: as it was written, or as somebody would write it."""
    if rule.written is not None:
        written: dict[str, Any] = json.loads(rule.written)
        return written
    data: dict[str, Any] = {"name": rule.name, "fault": rule.fault.name}
    stages = {stage for _, stage in rule.stages}
    natural = {(wire, NATURAL_STAGE[wire][rule.fault.name]) for wire, _ in rule.stages}
    if natural != rule.stages and len(stages) == 1:
        data["stage"] = next(iter(stages))
    wires = {wire for wire, _ in rule.stages}
    if rule.who.dialect is not None:
        data["dialect"] = rule.who.dialect.text
    elif len(wires) == 1:
        data["dialect"] = next(iter(wires))
    for key in ("account", "sender", "recipient", "key"):
        pattern: Pattern | None = getattr(rule.who, key)
        if pattern is not None:
            data[key] = pattern.text
    if rule.who.headers:
        data["header"] = {name: pattern.text for name, pattern in rule.who.headers}
    for field in dataclasses.fields(When):
        value = getattr(rule.when, field.name)
        if value != field.default:
            data[field.name] = value
    if rule.per is not Per.PLAN:
        data["per"] = rule.per.value
    if rule.sticks_to_mail:
        data["sticks"] = "mail"
    for parameter in dataclasses.fields(rule.fault):
        value = getattr(rule.fault, parameter.name)
        if value is not None and value != parameter.default:
            data[parameter.name] = _written_retry(value) if isinstance(value, RetryAfter) else value
    return data


def _written_retry(retry: RetryAfter) -> float | str:
    match retry.kind:
        case RetryAfterKind.SECONDS:
            return retry.seconds
        case RetryAfterKind.DATE:
            return f"date:{retry.seconds:.9f}".rstrip("0").rstrip(".")
        case _:
            return retry.kind.value


def plan_as_json(account: Account) -> dict[str, Any]:
    """Return what the control API shows of an account's plan: its rules with their counts, keys, limits."""
    return {
        "seed": account.plan.plan.seed,
        "rules": [
            rule_as_json(rule) | {"seen": seen, "fired": fired} for rule, seen, fired in account.plan.tally()
        ],
        "idempotency": dataclasses.asdict(account.setup.keys),
        "limits": dataclasses.asdict(account.setup.limits),
    }


def explain(rule: Rule) -> str:
    """Return one plain sentence that says what a rule does."""
    return f"{rule.name}: {_where(rule)}{_whom(rule)}{_often(rule)}, {_what(rule)}."


def _where(rule: Rule) -> str:
    places = [
        f'{wire.upper()} "{stage}"{" (already booked)" if (wire, stage) in AFTER_BOOKING else ""}'
        for wire, stage in sorted(rule.stages, reverse=True)
    ]
    return f"at {' and '.join(places)}"


def _whom(rule: Rule) -> str:
    parts = [
        f"{label} {pattern.text}"
        for label, pattern in (
            ("account", rule.who.account),
            ("dialect", rule.who.dialect),
            ("sender", rule.who.sender),
            ("recipient", rule.who.recipient),
            ("key", rule.who.key),
            *((f"header {name}", pattern) for name, pattern in rule.who.headers),
        )
        if pattern is not None
    ]
    return f", for {' and '.join(parts)}" if parts else ""


def _often(rule: Rule) -> str:
    when, parts = rule.when, []
    if when.skip:
        parts.append(f"leaving the first {when.skip} alone")
    if when.first is not None:
        parts.append("on the first occasion" if when.first == 1 else f"on the first {when.first} occasions")
    if when.every is not None and when.every > 1:
        parts.append(f"on every {_nth(when.every)} occasion")
    if when.attempt is not None:
        parts.append(f"in the {_nth(when.attempt)} attempt")
    if when.probability is not None:
        parts.append(f"with probability {when.probability:g}")
    if when.from_s is not None:
        parts.append(f"from {when.from_s:g} s on")
    if when.until_s is not None:
        parts.append(f"until {when.until_s:g} s")
    if when.times is not None:
        parts.append("once" if when.times == 1 else f"at most {when.times} times")
    if rule.per is not Per.PLAN:
        parts.append(f"counted per {rule.per}")
    if rule.sticks_to_mail:
        parts.append("then for ever on that mail")
    return "".join(f", {part}" for part in parts) or ", every time"


def _nth(number: int) -> str:
    last = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"


def _what(rule: Rule) -> str:
    match rule.fault:
        case Drop():
            return "take the mail, say yes and never deliver it"
        case RefuseRecipients(code=code, text=text):
            return f"refuse the recipient with {code} {text}"
        case SlowDown(delay_s=delay_s):
            return f"wait {delay_s:g} s, then go on"
        case fault:
            answer = fault.answer()
            return f"answer {spoken(answer)}" if fault.name == "reply" else spoken(answer)


# --- what is allowed, but hardly meant --------------------------------------------------------------


def warnings(setup: Setup) -> list[str]:
    """Return sentences about rules that can never strike or contradict themselves."""
    rules = setup.plan.rules
    found: list[str] = []
    for number, rule in enumerate(rules, 1):
        said = f"rule {number} ({_shown(rule.name)})"
        found += [f"{said} {says}" for says in _never(rule)]
        found += [f"{said} {says}" for says in _odd(rule)]
        if any(other.name == rule.name for other in rules[: number - 1]):
            found.append(f"{said} has the name of an earlier rule; the decision log cannot tell them apart")
        if shadow := _shadow(rule, rules[: number - 1]):
            found.append(f"{said} can never strike: {_shown(shadow)} always decides before it")
    return found


def _never(rule: Rule) -> list[str]:
    when, says = rule.when, []
    if when.first == 0:
        says.append("can never strike: first = 0")
    if when.times == 0:
        says.append("can never strike: times = 0")
    if when.probability == 0:
        says.append("can never strike: probability = 0")
    if when.until_s is not None and when.until_s <= (when.from_s or 0.0):
        says.append("can never strike: its time window is empty")
    if when.first and when.every and when.every > when.first:
        says.append(f"can never strike: the {_nth(when.every)} occasion is not among the first {when.first}")
    return says


def _odd(rule: Rule) -> list[str]:
    says = []
    enhanced: str | None = getattr(rule.fault, "enhanced", None)
    code: int | None = getattr(rule.fault, "code", None)
    if enhanced is not None and code is not None and enhanced[0] != str(code)[0]:
        says.append(f"says {code} and {enhanced}, which contradict each other")
    wires = {wire for wire, _ in rule.stages}
    if wires == {"smtp"} and getattr(rule.fault, "body", None) is not None:
        says.append('gives a "body", which has no place on SMTP')
    if wires == {"http"} and enhanced is not None and rule.fault.name == "reply":
        says.append('gives an "enhanced" code, which has no place on HTTP')
    if len(wires) == 2 and ("smtp", "body") in rule.stages:
        says.append(
            'strikes before booking on SMTP and after it on HTTP: "body" means two things; add "dialect"'
        )
    return says


def _shadow(rule: Rule, earlier: Sequence[Rule]) -> str | None:
    """Return the earlier rule that leaves nothing to this one, if a single one does at all its stages."""
    for other in earlier:
        lets_others_decide = isinstance(other.fault, (SlowDown, RefuseRecipients))
        if lets_others_decide or not rule.stages <= other.stages:
            continue
        if other.who in (Who(), rule.who) and other.when == When():
            return other.name
    return None
