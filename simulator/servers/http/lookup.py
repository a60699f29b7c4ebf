"""Looking mail up: what a reconciler asks, by id, key or Message-ID. No attempt, but a stage where rules strike."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.types import Scope

from simulator.dialects.native.lookup import found, read_query
from simulator.provider.answer import Answer, Refused, Reply, with_words
from simulator.provider.ledger import Attempt
from simulator.provider.lookup import Query
from simulator.servers.http.desk import Desk
from simulator.servers.http.head import read_head
from simulator.servers.http.line import HttpLine
from simulator.servers.http.sending import all_said

#: More members of a query string than this are nobody's look-up.
MAX_PARAMETERS = 20


async def look_up(desk: Desk, scope: Scope, id_: str | None) -> None:
    """Serve a look-up: of one mail by its id, or (None) of those with a key or Message-ID."""
    line: HttpLine = scope["state"]["line"]
    head = read_head(scope, desk.provider, desk.now())
    asked: Query | Refused | Reply | None = head.trouble
    if asked is None:
        asked = Query(id=id_) if id_ is not None else _query(scope)
    query = asked if isinstance(asked, Query) else Query()
    asking = desk.provider.open_look_up(head.account, line.peer, line.name, query, desk.now())
    line.name = asking.connection
    answer = await _find(desk, asking, asked) if isinstance(asked, Query) else asked
    await desk.say(answer, [asking], line)
    await all_said(line)


async def _find(desk: Desk, asking: Attempt, query: Query) -> Answer:
    struck, view = desk.provider.ask_look_up(asking, desk.now())
    desk.moved()
    rest = await desk.wire.wait_out(struck, asking)
    # Only now: a look-up that was slow sees what has been accepted meanwhile.
    words = found(query, desk.provider.look_up(query, asking.account, desk.now(), view=view))
    return words if rest is None else with_words(rest, words)


def _query(scope: Scope) -> Query | Refused:
    try:
        text = scope["query_string"].decode("ascii")
        return read_query(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_PARAMETERS))
    except ValueError:
        return read_query([])
