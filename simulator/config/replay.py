"""A recording of what struck: the decision log as the key `replay` of a plan, and read again from there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from simulator.config.conditions import STAGES
from simulator.config.fault import read_fault
from simulator.config.forms import read_choice, read_text, read_whole
from simulator.config.place import Place, refuse_unknown, shown
from simulator.provider.faults.written import as_table
from simulator.provider.holding import BOOKING
from simulator.provider.kept import held_as_json, held_from
from simulator.provider.ledger import Decision
from simulator.provider.message import short_name
from simulator.provider.plan import Recorded
from simulator.provider.strike import Held, Hit

#: `answer` is for people only.
REPLAY_KEYS = ("wire", "stage", "mail", "nth", "strikes", "held", "answer")
STRIKE_KEYS = ("rule", "recipients")


def replay_as_json(decisions: Iterable[Decision]) -> list[dict[str, Any]]:
    """Return what was decided, in the plan language. Decisions of former versions do not say enough: left out."""
    return [
        _place(each.wire, each.stage, each.mail, each.nth)
        | (
            {
                "strikes": [
                    _strike_as_json(struck.rule, json.loads(struck.fault), struck.recipients)
                    for struck in each.struck
                ]
            }
            if each.held is None
            else {"held": json.loads(each.held)}
        )
        | {"answer": each.answer}
        for each in decisions
        if each.wire
    ]


def recorded_as_json(recorded: Iterable[Recorded]) -> list[dict[str, Any]]:
    """Return a recording in the plan language."""
    return [
        _place(each.wire, each.stage, each.mail, each.nth)
        | (
            {"strikes": [_strike_as_json(hit.rule, as_table(hit.fault), hit.recipients) for hit in each.hits]}
            if each.held is None
            else {"held": json.loads(held_as_json(each.held))}
        )
        for each in recorded
    ]


def _place(wire: str, stage: str, mail: str, nth: int) -> dict[str, Any]:
    return {"wire": wire, "stage": stage} | ({"mail": mail} if mail else {}) | {"nth": nth}


def _strike_as_json(rule: str, table: dict[str, Any], recipients: tuple[str, ...] | None) -> dict[str, Any]:
    return {"rule": rule} | table | ({} if recipients is None else {"recipients": list(recipients)})


def read_replay(data: object, source: Place) -> tuple[Recorded, ...]:
    """Read what struck in a former run. Raise `PlanError`."""
    if not isinstance(data, Sequence) or isinstance(data, (str, bytes)):
        raise source.wrong(
            f'"replay" is {shown(data)}; it must be a list, as simulator decisions --save writes it'
        )
    return tuple(_read(each, source.at(f"replay {number}")) for number, each in enumerate(data, 1))


def _read(data: object, place: Place) -> Recorded:
    if not isinstance(data, Mapping):
        raise place.wrong(f"this must be a table, not {shown(data)}")
    refuse_unknown(place, data, REPLAY_KEYS)
    for key in ("wire", "stage", "nth"):
        if key not in data:
            raise place.wrong(f'the key "{key}" is missing')
    wire = read_choice(place, "wire", data["wire"], STAGES)
    recorded = Recorded(
        wire=wire,
        stage=read_choice(place, "stage", data["stage"], (*STAGES[wire], BOOKING)),
        mail=short_name(read_text(place, "mail", data.get("mail", ""))),
        nth=read_whole(place, "nth", data["nth"], least=1),
        hits=tuple(_strike(each, place) for each in _list(data.get("strikes", []), place)),
        held=_held(data["held"], place) if "held" in data else None,
    )
    if bool(recorded.hits) == (recorded.held is not None):
        raise place.wrong('it has either "strikes", or what a limit said ("held")')
    return recorded


def _list(data: object, place: Place) -> Sequence[object]:
    if not isinstance(data, list):
        raise place.wrong(f'"strikes" is {shown(data)}; it must be a list')
    return data


def _strike(data: object, place: Place) -> Hit:
    if not isinstance(data, Mapping):
        raise place.wrong(f"a strike is a table, not {shown(data)}")
    fault, _ = read_fault(place, data, STRIKE_KEYS)
    recipients = data.get("recipients")
    if recipients is not None and not (
        isinstance(recipients, list) and all(isinstance(each, str) for each in recipients)
    ):
        raise place.wrong(f'"recipients" is {shown(recipients)}; it must be a list of addresses')
    return Hit(
        rule=read_text(place, "rule", data.get("rule", "")),
        fault=fault,
        recipients=None if recipients is None else tuple(recipients),
    )


def _held(data: object, place: Place) -> Held:
    try:
        return held_from(data)  # type: ignore[arg-type]  # Whatever else it is, it is refused.
    except (KeyError, ValueError, TypeError, AttributeError) as problem:
        raise place.wrong(f'"held" is {shown(data)}; it must be as it was saved') from problem
