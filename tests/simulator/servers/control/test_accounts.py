"""Accounts that there are not: nobody makes one by reading, whoever sets one up or waits in it does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from simulator.client import ControlError
from simulator.servers.control.app import ENDPOINTS
from simulator.servers.control.endpoint import Endpoint, Missing
from tests.simulator.running import Running, ask, mail, request, running

#: A body that each row takes which makes an account.
BODIES: dict[tuple[str, str], object] = {
    ("PUT", "/clock"): {"advance_s": 0},
    ("PUT", "/plan"): {"rules": []},
    ("POST", "/plan"): ["503 first 2"],
    ("POST", "/events"): {"type": "email.bounced"},
    ("POST", "/suppressions"): {"address": "ada@example.com"},
    ("PUT", "/webhook"): {"url": "http://127.0.0.1:9/"},
    ("POST", "/obligations"): {"obligations": []},
}
#: What each of them refuses: read at once, and seen only when it is looked at closely.
BAD_BODIES: dict[tuple[str, str], tuple[object, ...]] = {
    ("PUT", "/clock"): ({"advance_s": "soon"}, {"advance_s": 1e15}, {"now": "1999-01-01T00:00:00Z"}),
    ("PUT", "/plan"): (
        {"rules": ["503 frist 2"]},
        {"webhooks": {"url": "http://192.0.2.1/"}},
        {"returns": {"smtp": "192.0.2.1:25"}},
    ),
    ("POST", "/plan"): (["503 frist 2"], {"limits": {}}, "503 frist 2"),
    ("POST", "/events"): ({"type": "email.lost"}, {"type": "email.bounced", "timestamp": "soon"}),
    ("POST", "/suppressions"): ({"reason": "manual"}, {"address": "ada@example.com", "reason": 7}),
    ("PUT", "/webhook"): ({}, {"url": "http://192.0.2.1/"}),
    ("POST", "/obligations"): (
        {},
        [{"ref": "a"}],
        [{"ref": "a", "recipient": "b@example.com", "copies": -1}],
    ),
}
ROWS = [row for row in ENDPOINTS if row.of_account]


def of(missing: Missing) -> list[Endpoint]:
    return [row for row in ROWS if row.missing is missing]


def name_of(row: Endpoint) -> str:
    return f"{row.method} {row.path}"


def path_of(row: Endpoint) -> str:
    return row.path.format(id="msg_1", number=0).lstrip("/") if "{" in row.path else row.path.lstrip("/")


@pytest.fixture(scope="module")
def simulator() -> Iterator[Running]:
    with running() as service:
        # Whoever waits or listens is answered at once with what there is, as when the service stops.
        service.service.moves.end()
        service.service.feed.end()
        yield service


@pytest.mark.parametrize("row", of(Missing.REFUSED), ids=name_of)
def test_who_reads_makes_no_account(simulator: Running, web: httpx.Client, row: Endpoint) -> None:
    """404, and the sentence says which one was meant; afterwards there is none."""
    answer = web.request(row.method, path_of(row), params={"account": "defualt"})

    assert answer.status_code == 404
    assert answer.json()["detail"].startswith("there is no account 'defualt'; did you mean 'default'?")
    assert "defualt" not in simulator.service.provider.accounts


def test_reading_is_what_is_refused() -> None:
    """Every row that only shows something is among them; a row that is new is, unless it says otherwise."""
    shown = {row.path for row in ROWS if row.method == "GET"} - {"/health", "/openapi.json", "/stream"}

    assert {row.path for row in of(Missing.REFUSED) if row.method == "GET"} == {
        path for path in shown if not path.endswith("/wait")
    }


@pytest.mark.parametrize("row", of(Missing.MADE), ids=name_of)
def test_who_sets_it_up_or_waits_makes_it(simulator: Running, web: httpx.Client, row: Endpoint) -> None:
    """From then on a sender who shows its name belongs to it; who waits for its mail must not wait in vain."""
    name = f"made by {name_of(row)}"
    body = BODIES.get((row.method, row.path))

    assert web.request(row.method, path_of(row), params={"account": name}, json=body).status_code == 200
    assert name in simulator.service.provider.accounts


@pytest.mark.parametrize(
    ("row", "body"),
    [(row, body) for row in of(Missing.MADE) if row.takes for body in BAD_BODIES[row.method, row.path]],
    ids=lambda each: name_of(each) if isinstance(each, Endpoint) else json.dumps(each),
)
def test_who_is_refused_makes_no_account(
    simulator: Running, web: httpx.Client, row: Endpoint, body: object
) -> None:
    """Whoever misspells the plan as well as the name leaves nothing behind."""
    answer = web.request(row.method, path_of(row), params={"account": "refused"}, json=body)

    assert answer.status_code == 422, answer.text
    assert "refused" not in simulator.service.provider.accounts


def test_rules_for_an_account_that_is_made_by_them_come_after_those_it_begins_with() -> None:
    """Also by their names, which count on."""
    with (
        running({"rule": [{"fault": "reset"}]}) as service,
        service.control("shop") as control,
    ):
        shown = control.add_rules({"fault": "hang_up"})

        assert [rule["name"] for rule in shown["rules"]] == ["rule 1", "rule 2"]


@pytest.mark.parametrize("row", of(Missing.IGNORED), ids=name_of)
def test_who_asks_for_nothing_of_it_is_answered_all_the_same(
    simulator: Running, web: httpx.Client, row: Endpoint
) -> None:
    """A harness asks whether all is well, or lets go what is held, before there is anything."""
    body: dict[str, list[str]] | None = {"rules": []} if row.takes else None
    name = f"not yet at {row.path}"
    answer = web.request(row.method, path_of(row), params={"account": name}, json=body)

    assert answer.status_code == 200
    assert (name in simulator.service.provider.accounts) is (row.path == "/account")


def test_an_account_is_made_once_and_its_senders_are_known(simulator: Running) -> None:
    """To make it again is no mistake, and takes nothing away."""
    with simulator.control("sk_1") as control:
        with pytest.raises(ControlError, match="there is no account 'sk_1'"):
            control.messages()

        assert control.make_account() is True
        ask(simulator, request(mail(), headers={"Authorization": "Bearer sk_1"}))

        assert control.make_account() is False
        assert [each["account"] for each in control.messages()] == ["sk_1"]


def test_an_account_that_was_made_is_there_after_a_restart(tmp_path: Path) -> None:
    """Its senders go on to belong to it."""
    ledger = f"{tmp_path}/simulator.db"
    with running(ledger=ledger) as service, service.control("shop") as control:
        control.make_account()
    with running(ledger=ledger) as service, service.control("shop") as control:
        assert control.make_account() is False


def test_a_long_list_is_cut(simulator: Running) -> None:
    """The sentence stays one that people read."""
    for number in range(9):
        with simulator.control(f"run {number}") as control:
            control.make_account()
    with (
        simulator.control("z" * 200) as nobody,
        pytest.raises(ControlError, match=r"there is no account 'z+…'; there are .* and \d+ more \(PUT acc"),
    ):
        nobody.messages()
