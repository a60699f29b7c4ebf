"""Whom a rule means and when: its conditions, and at which stages each of them can be known at all."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping
from typing import Any

from simulator.config.forms import read_number, read_pattern, read_whole
from simulator.config.place import Place, did_you_mean, shown
from simulator.dialects import DIALECTS
from simulator.provider.faults import HTTP_STAGES, SMTP_STAGES, WEBHOOK_STAGES
from simulator.provider.provider import DEFAULT_ACCOUNT
from simulator.provider.rule import Pattern, Per, When, Who

STAGES: dict[str, tuple[str, ...]] = {"smtp": SMTP_STAGES, "http": HTTP_STAGES, "webhook": WEBHOOK_STAGES}
WIRES = tuple(STAGES)

_SMTP_WITH_MAIL = ("mail", "rcpt", "data", "body", "message", "reply", "rset")
_SMTP_WITH_RECIPIENT = _SMTP_WITH_MAIL[1:]
_HTTP_WITH_A_HEAD = HTTP_STAGES[HTTP_STAGES.index("upload") :]
_HTTP_WITH_MAIL = ("validate", "accept", "reply", "body")

#: At which stages a condition can be met at all; before, what it asks for is not known yet.
KNOWN_AT: dict[str, dict[str, tuple[str, ...]]] = {
    "account": {"smtp": SMTP_STAGES[3:], "http": _HTTP_WITH_A_HEAD, "webhook": WEBHOOK_STAGES},
    "sender": {"smtp": _SMTP_WITH_MAIL, "http": _HTTP_WITH_MAIL, "webhook": WEBHOOK_STAGES},
    "recipient": {"smtp": _SMTP_WITH_RECIPIENT, "http": _HTTP_WITH_MAIL, "webhook": WEBHOOK_STAGES},
    # SMTP has no idempotency keys; on HTTP they come with the head of the request.
    "key": {"smtp": (), "http": _HTTP_WITH_A_HEAD, "webhook": WEBHOOK_STAGES},
    # SMTP `body` strikes when the header block of the mail is there.
    "header": {"smtp": ("body", "message", "reply"), "http": _HTTP_WITH_MAIL, "webhook": WEBHOOK_STAGES},
    "event": {"smtp": (), "http": (), "webhook": WEBHOOK_STAGES},
}
#: What `per` and `sticks = "mail"` count by is told by the recipients.
_MAIL_KNOWN_AT = KNOWN_AT["recipient"]

WHO_KEYS = ("account", "dialect", "sender", "recipient", "key", "header", "event")
WHEN_KEYS = tuple(field.name for field in dataclasses.fields(When))


def read_who(place: Place, data: Mapping[str, Any]) -> tuple[Who, tuple[str, ...]]:
    """Return the conditions and the wires that the dialect allows."""
    named = {
        key: read_pattern(place, key, data[key])
        for key in ("account", "sender", "recipient", "key", "event")
        if key in data
    }
    headers: list[tuple[str, Pattern]] = []
    if "header" in data:
        if not isinstance(data["header"], Mapping) or not data["header"]:
            raise place.wrong(
                f'"header" is {shown(data["header"])}; it must be a table of header names and patterns, '
                f'like {{ "X-Kind" = "bulk" }}'
            )
        for name, value in data["header"].items():
            if not re.fullmatch(r"[!-9;-~]+", name):
                raise place.wrong(f'"header" names {shown(name)}, which is no header name')
            headers.append((name, read_pattern(place, f"header.{name}", value)))
    dialect, wires = _read_dialect(place, data)
    return Who(**named, dialect=dialect, headers=tuple(headers)), wires


def _read_dialect(place: Place, data: Mapping[str, Any]) -> tuple[Pattern | None, tuple[str, ...]]:
    if "dialect" not in data:
        return None, WIRES
    pattern = read_pattern(place, "dialect", data["dialect"])
    if pattern.text.lower() in WIRES:
        # The name of a wire means every dialect on it.
        return None, (pattern.text.lower(),)
    meant = {wire for dialect, wire in DIALECTS.items() if pattern.matches(dialect)}
    if not meant:
        raise place.wrong(
            f'"dialect" is {shown(pattern.text)}; {did_you_mean(pattern.text, {*DIALECTS, *WIRES})}'
        )
    return pattern, tuple(wire for wire in WIRES if wire in meant)


def read_when(place: Place, data: Mapping[str, Any]) -> tuple[When, bool]:
    given: dict[str, Any] = {}
    for key in WHEN_KEYS:
        if key not in data:
            continue
        value = data[key]
        if key in ("from_s", "until_s"):
            given[key] = read_number(place, key, value)
        elif key == "probability":
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
                raise place.wrong(f'"probability" is {shown(value)}; it must be a number from 0 to 1')
            given[key] = float(value)
        elif key == "times" and value == "once":
            given[key] = 1
        else:
            given[key] = read_whole(place, key, value, least=1 if key in ("every", "attempt") else 0)
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
        raise place.wrong(f'"sticks" is {shown(sticks)}; {right}')
    if "times" in data:
        raise place.wrong('both "times" and "sticks" say how often the rule strikes; leave one of them out')
    return When(**given, times=count), False


def read_per(place: Place, data: Mapping[str, Any]) -> Per:
    given = data.get("per", "plan")
    if given not in tuple(Per):
        raise place.wrong(f'"per" is {shown(given)}; {did_you_mean(given, [each.value for each in Per])}')
    return Per(given)


def where_known(
    place: Place,
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
            nowhere = (
                "events are told at stage webhook only"
                if what == '"event"'
                else "SMTP has no idempotency keys"
            )
            at = " and ".join(sorted({f'"{stage}"' for _, stage in stages}))
            raise place.wrong(
                f"{what} cannot be known at stage {at}; "
                + (f"it is at {' or '.join(right)}" if right else nowhere)
            )
        stages = left
    return stages
