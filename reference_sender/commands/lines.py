"""`enqueue --jsonl`: mails as JSON lines, each answered with one, until the input ends.

A line that cannot be done is answered with one sentence, and the next one works.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import click
from sqlalchemy.exc import SQLAlchemyError

from reference_sender.commands.frame import database_sentence, moment_of
from reference_sender.message import Mail, parse_mail
from reference_sender.outbox.engine import StoreTrouble
from reference_sender.outbox.room import QueueCap
from reference_sender.outbox.store import Enqueued, Store, enqueue
from reference_sender.policy.classes import MailClass, QueueFull
from reference_sender.templates import Templates
from reference_sender.wiring import Parts

#: The longest wait that is believed, in seconds.
TEN_YEARS_S = 315_360_000

_FIELDS = frozenset(
    {"op", "key", "from", "to", "subject", "text", "html", "attachments", "headers", "rollback"}
    | {"template", "parameters", "class", "priority", "expires_in_s", "send_in_s"}
    | {"depends_on", "ordering_key", "slot", "traceparent"}
)


def answer_lines(
    parts: Parts, store: Store, templates: Templates, cap: QueueCap | None, notify: Callable[[], None]
) -> bool:
    """The JSON-lines process: one request a line, one answer a line, until the input ends. Tell whether all went well."""
    well = True
    for line in sys.stdin.buffer:
        if line.strip():
            answer = _answer(parts, store, templates, cap, line)
            click.echo(json.dumps(answer, ensure_ascii=False))
            well = well and answer.get("ok") is not False
            if answer.get("created"):
                notify()
    return well


def _answer(
    parts: Parts, store: Store, templates: Templates, cap: QueueCap | None, line: bytes
) -> dict[str, Any]:
    try:
        # Said outright: bytes alone would be guessed to be UTF-16 or UTF-32 by their first ones.
        request = json.loads(line.decode("utf-8"), object_pairs_hook=_each_once)
    except _Twice as error:
        return _wrong(str(error))
    except UnicodeDecodeError as error:
        return _wrong(f"the line is not UTF-8: byte {error.start + 1} of it is 0x{line[error.start]:02x}")
    except json.JSONDecodeError as error:
        # Its own words count lines, and this is one.
        return _wrong(f"the line is not JSON: {error.msg} at character {error.pos + 1}")
    except (ValueError, RecursionError) as error:
        return _wrong(f"the line is not JSON: {error}")
    if not isinstance(request, dict):
        return _wrong("the line must be a JSON object")
    try:
        match request.get("op", "enqueue"):
            case "enqueue":
                return _answer_enqueue(parts, store, templates, cap, request)
            case "status":
                from reference_sender.commands.status import told

                return told(store, now=parts.clock.now(), mails=True, queues=False)
            case other:
                return _wrong(f"the op {other!r} does not exist; there are enqueue and status")
    except SQLAlchemyError as error:
        return _wrong(database_sentence(error))
    except (StoreTrouble, ValueError, OverflowError, QueueFull) as error:  # InvalidMail among them
        return _wrong(str(error))


class _Twice(Exception):
    """A field stands in an object more than once, and nobody can know which one was meant (RFC 8259, section 4)."""


def _each_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in members:
        if name in found:
            raise _Twice(f"the field {name!r} is there twice; give it once")
        found[name] = value
    return found


def _answer_enqueue(
    parts: Parts, store: Store, templates: Templates, cap: QueueCap | None, request: dict[str, Any]
) -> dict[str, Any]:
    if unknown := sorted(request.keys() - _FIELDS):
        return _wrong(f"the field {unknown[0]!r} does not exist; there are {', '.join(sorted(_FIELDS))}")
    key, priority = request.get("key"), request.get("priority")
    if not isinstance(key, str) or not key:
        return _wrong('"key" must be a string that names the event')
    if priority is not None and (not isinstance(priority, int) or isinstance(priority, bool)):
        return _wrong('"priority" must be a whole number')
    for name in ("expires_in_s", "send_in_s"):
        seconds = request.get(name)
        if seconds is not None and not (isinstance(seconds, int | float) and 0 < seconds <= TEN_YEARS_S):
            return _wrong(f'"{name}" must be a number of seconds, greater than zero and at most ten years')
    for name in ("class", "depends_on", "ordering_key", "slot", "traceparent"):
        if not isinstance(request.get(name), str | None):
            return _wrong(f'"{name}" must be a string')
    template, parameters = request.get("template"), request.get("parameters")
    if template is not None and not isinstance(template, str):
        return _wrong('"template" must be the name of a template')
    if parameters is not None and (template is None or not isinstance(parameters, dict)):
        return _wrong('"parameters" must be an object, and "template" must say what for')
    if template is not None:
        if brought := sorted({"subject", "text", "html"} & request.keys()):
            return _wrong(f'"template" brings subject, text and html; leave out "{brought[0]}"')
        # Read as a mail with any text first, so that addresses and attachments are checked by the same rules.
        frame = parse_mail(request | {"text": "", "html": ""})
        mail = templates.mail(
            template,
            parameters or {},
            sender=frame.sender,
            recipients=frame.recipients,
            attachments=frame.attachments,
            headers=frame.headers,
        )
    else:
        mail = parse_mail(request)
    now = moment_of(parts, store)

    def after(seconds: float | None) -> datetime | None:
        return None if seconds is None else now + timedelta(seconds=seconds)

    done = put(
        parts,
        store,
        mail,
        key=key,
        now=now,
        rollback=bool(request.get("rollback", False)),
        template=template,
        parameters=(parameters or {}) if template is not None else None,
        mail_class=request.get("class") or MailClass.CONFIRMATION,
        priority=priority,
        expires_at=after(request.get("expires_in_s")),
        not_before=after(request.get("send_in_s")),
        depends_on=request.get("depends_on"),
        ordering_key=request.get("ordering_key"),
        slot=request.get("slot"),
        traceparent=request.get("traceparent"),
        cap=cap,
    )
    said: dict[str, Any] = {"ok": True, "key": key, "created": done.created}
    if done.differs:
        said["differs"] = True
    if done.suppressed:
        said["suppressed"] = list(done.suppressed)
    return said


def _wrong(sentence: str) -> dict[str, Any]:
    return {"ok": False, "error": sentence}


def put(
    parts: Parts,
    store: Store,
    mail: Mail,
    *,
    key: str,
    now: datetime,
    rollback: bool = False,
    **more: Any,
) -> Enqueued:
    """The business transaction of somebody who has no other business than this mail; `now` by the clock that workers go by, `more` as in `enqueue`."""
    with store.engine.connect() as connection, connection.begin() as transaction:
        done = enqueue(
            connection,
            mail,
            key=key,
            now=now,
            key_for=parts.key_for,
            **more,
        )
        if rollback:
            transaction.rollback()
    return done
