"""The endpoints of what was promised, and of the verdict: promises against ledger."""

from __future__ import annotations

import re

from starlette.responses import Response

from simulator import shapes
from simulator.dialects.address import can_receive
from simulator.provider.obligations import Obligation, Reported
from simulator.servers.control.context import Context
from simulator.servers.control.endpoint import Answer, Asked, Body, Endpoint, Missing, flag
from simulator.servers.control.problems import Refusal
from simulator.servers.control.said import Said

#: As `shapes.Line` says it.
_LINE = re.compile(rf"[^\x00-\x1f\x7f]{{1,{shapes.MAX_LINE_CHARS}}}")
_SHA256 = re.compile("[0-9A-Fa-f]{64}")
_KEYS = ("ref", "recipient", "copies", "sha256", "state")


async def list_obligations(context: Context, asked: Asked) -> Response:
    return Said(
        shapes.ObligationsShown(obligations=[_shown(each) for each in asked.account.obligations.values()])
    )


async def enter_obligations(context: Context, asked: Asked) -> Response:
    data = asked.body
    entries = data.get("obligations") if isinstance(data, dict) else data
    if not isinstance(entries, list) or (isinstance(data, dict) and len(data) > 1):
        raise Refusal(422, 'the body must be {"obligations": [{"ref": …, "recipient": …}, …]}')
    obligations = [_read(entry, asked.account_name, n) for n, entry in enumerate(entries, 1)]
    context.named(asked.account_name)
    context.provider.owe(obligations, context.now())
    await context.committer.commit()
    return Said(shapes.Entered(obligations=len(obligations)))


async def show_verdict(context: Context, asked: Asked) -> Response:
    judgement = await context.archive.judge(asked.account.name, context.now(), final=asked.given["final"])
    obedience = await context.archive.judge_obedience(asked.account.name, context.now())
    return Said(judgement.as_json() | {"obedience": obedience.as_json()})


def _shown(obligation: Obligation) -> shapes.ObligationShown:
    return shapes.ObligationShown(
        ref=obligation.ref,
        recipient=obligation.recipient,
        copies=obligation.copies,
        sha256=obligation.sha256,
        state=None if obligation.state is None else obligation.state.value,
    )


def _read(entry: object, account: str, number: int) -> Obligation:
    where = f"obligation {number}"
    if not isinstance(entry, dict):
        raise Refusal(422, f"{where} must be an object with ref and recipient")
    for key in entry:
        if key not in _KEYS:
            raise Refusal(422, f"{where}: there is no key {key!r}; known are {', '.join(_KEYS)}")
    for key in ("ref", "recipient"):
        if not (isinstance(entry.get(key), str) and _LINE.fullmatch(entry[key])):
            raise Refusal(
                422,
                f"{where}: {key} must be a text of 1 to {shapes.MAX_LINE_CHARS} characters on one line",
            )
    if not can_receive(entry["recipient"]):
        raise Refusal(
            422,
            f"{where}: recipient is {entry['recipient'][:60]!r}, to which no mail can go; give a bare address,"
            " like 'ada@example.com'",
        )
    copies = entry.get("copies", 1)
    if isinstance(copies, bool) or not isinstance(copies, int) or not 0 <= copies <= shapes.MAX_COPIES:
        raise Refusal(422, f"{where}: copies must be a whole number from 0 to {shapes.MAX_COPIES}")
    sha256 = entry.get("sha256")
    if sha256 is not None and not (isinstance(sha256, str) and _SHA256.fullmatch(sha256)):
        raise Refusal(422, f"{where}: sha256 must be 64 hex digits or null")
    state = entry.get("state")
    states = {each.value for each in Reported}
    if not (state is None or (isinstance(state, str) and state in states)):
        raise Refusal(422, f"{where}: there is no state {state!r}; known are {', '.join(sorted(states))}")
    return Obligation(
        account=account,
        ref=entry["ref"],
        recipient=entry["recipient"],
        copies=copies,
        sha256=None if sha256 is None else sha256.lower(),
        state=None if state is None else Reported(state),
    )


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/obligations",
        says="List what was promised.",
        does=list_obligations,
        gives=Answer(shape=shapes.ObligationsShown),
    ),
    Endpoint(
        method="POST",
        path="/obligations",
        says="Enter what was promised.",
        does=enter_obligations,
        missing=Missing.MADE,
        takes=Body(shapes=(shapes.ObligationsNamed, list[shapes.Obligation])),
        gives=Answer(shape=shapes.Entered),
    ),
    Endpoint(
        method="GET",
        path="/verdict",
        says="Compare promises with the ledger.",
        does=show_verdict,
        gives=Answer(shape=shapes.Verdict),
        parameters=(flag("final", "Nothing more will come: what is still open is lost."),),
    ),
)
