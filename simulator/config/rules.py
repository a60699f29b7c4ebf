"""Rules: from a table of keys to a fault, the stages it strikes at, and whom it means."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from simulator.config.conditions import (
    STAGES,
    WHEN_KEYS,
    WHO_KEYS,
    read_per,
    read_when,
    read_who,
    where_known,
)
from simulator.config.fault import read_fault
from simulator.config.forms import read_text
from simulator.config.lines import read_line
from simulator.config.place import Place, did_you_mean, shown
from simulator.provider.faults import Fault, natural_stage
from simulator.provider.rule import Rule

RULE_KEYS = ("name", "fault", "stage", *WHO_KEYS, *WHEN_KEYS, "per", "sticks")


def read_rules(
    rules: object, source: str, *, start: int = 1, counted_from: int | None = 1
) -> tuple[Rule, ...]:
    """Read a list of rules. Raise `PlanError`.

    `start` is the number of the first one in the plan, which names it if it has no name. What is wrong is said of a rule
    by its place among those that somebody has written, who counts from `counted_from`; None: there is only one.
    """
    if not isinstance(rules, Sequence) or isinstance(rules, (str, bytes)):
        raise Place(source).wrong(f"the rules are {shown(rules)}; they must be a list ([[rule]] in TOML)")
    read: list[Rule] = []
    for at, data in enumerate(rules):
        called = "rule" if counted_from is None else f"rule {counted_from + at}"
        place = Place(source, "" if counted_from is None else called)
        # A line may stand for a rule on each wire.
        for table in read_line(place, data) if isinstance(data, str) else (data,):
            read.append(_read_rule(table, place, called, start + len(read)))
    return tuple(read)


def _read_rule(data: object, place: Place, called: str, number: int) -> Rule:
    if not isinstance(data, Mapping):
        raise place.wrong(f"a rule is a line or a table of keys, not {shown(data)}")
    name = read_text(place, "name", data.get("name", f"rule {number}"))
    if not name.strip() or not name.isprintable():
        raise place.wrong(f'"name" is {shown(name)}; give a short printable name or leave it out')
    if "name" in data:
        place = place.at(f"{called} ({shown(name)})")

    given = dict(data)
    if (
        given.get("fault") in ("fate", "refuse_recipients")
        and "recipients" in given
        and "recipient" not in given
    ):
        # Whom it means reads better in the plural; it is the same condition.
        given["recipient"] = given.pop("recipients")
    fault, spelling_stage = read_fault(place, given, RULE_KEYS)
    who, wires = read_who(place, given)
    wires = _wires_of_fault(place, data, fault, wires)
    when, sticks_to_mail = read_when(place, given)
    per = read_per(place, given)
    stages = _read_stages(place, given, fault, spelling_stage, wires)
    stages = where_known(place, given, stages, who, per, sticks_to_mail)
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


def _read_stages(
    place: Place, data: Mapping[str, Any], fault: Fault, spelling_stage: str | None, wires: Sequence[str]
) -> set[tuple[str, str]]:
    if spelling_stage is not None:
        return {
            (wire, spelling_stage) for wire in _wires_of_spelling(place, data, fault, spelling_stage, wires)
        }
    if "stage" not in data:
        return {(wire, natural_stage(fault, wire)) for wire in wires}
    given = data["stage"]
    if isinstance(given, list) and not given:
        raise place.wrong('"stage" is an empty list; name a stage, or leave it out')
    found: set[tuple[str, str]] = set()
    for each in given if isinstance(given, list) else [given]:
        found |= _places(place, read_text(place, "stage", each), fault, wires)
    return found


def _places(place: Place, stage: str, fault: Fault, wires: Sequence[str]) -> set[tuple[str, str]]:
    """Return where a stage of this name is, on the wires that the rule is for."""
    known = {each for wire in wires for each in STAGES[wire]}
    if stage not in {each for stages in STAGES.values() for each in stages}:
        raise place.wrong(f'"stage" is {shown(stage)}, which is no stage; {did_you_mean(stage, known)}')
    if stage not in known:
        on = " and ".join(wire.upper() for wire in wires)
        there = ", ".join(dict.fromkeys(each for wire in wires for each in STAGES[wire]))
        raise place.wrong(f'the stage "{stage}" does not exist on {on}; its stages are {there}')
    if not any(stage in fault.stages[wire] for wire in wires):
        fitting = dict.fromkeys(each for wire in wires for each in fault.stages[wire])
        raise place.wrong(
            f'the fault "{fault.name}" cannot strike at stage "{stage}"; it can at {", ".join(fitting)}'
        )
    return {(wire, stage) for wire in wires if stage in fault.stages[wire]}


def _wires_of_fault(
    place: Place, data: Mapping[str, Any], fault: Fault, wires: tuple[str, ...]
) -> tuple[str, ...]:
    left = tuple(wire for wire in wires if wire in fault.stages)
    if not left:
        asked, known = (" and ".join(each.upper() for each in some) for some in (wires, fault.stages))
        raise place.wrong(
            f'the fault "{data["fault"]}" does not exist on {asked}; it is one of {known}: leave "dialect" out'
        )
    return left


def _wires_of_spelling(
    place: Place, data: Mapping[str, Any], fault: Fault, spelling_stage: str, wires: Sequence[str]
) -> list[str]:
    """`accept_then_X` may name the stage at which the mail is accepted, or that of the answer, or none."""
    given = data.get("stage", spelling_stage)
    left = [wire for wire in wires if given in (spelling_stage, natural_stage(fault, wire))]
    if not left:
        raise place.wrong(
            f'"{data["fault"]}" strikes at stage "{spelling_stage}", not at {shown(given)}; '
            f'leave "stage" out, or write the fault "{fault.name}"'
        )
    return left
