"""Several mails in one request, on the wire and in the ledger."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simulator.store import StoreError
from tests.simulator.running import Running, Seen, Sender, ask, mail, request
from tests.simulator.servers.http.provider import accepted, plan

PATH = "/v1/emails/batch"
PEOPLE = ("ada@example.com", "bob@example.com", "eve@example.com")


def batch(*mails: object, key: str | None = None) -> bytes:
    return request(json.dumps(mails).encode(), path=PATH, key=key)


THREE = batch(*(mail(to=[each]) for each in PEOPLE), key="batch-1")
BAD = mail(to=["nobody"])


def statuses(seen: Seen) -> list[int]:
    return [each["http_status"] for each in seen.json["data"]]


def recipients(simulator: Running) -> list[str]:
    with simulator.control() as control:
        return sorted(each["recipients"][0] for each in control.messages())


def attempts(simulator: Running, count: int) -> list[dict[str, Any]]:
    with simulator.control() as control:
        control.wait_for_attempts(count=count, state="closed")
        return sorted(control.attempts(), key=lambda each: int(each["id"][4:]))


def test_each_mail_is_an_attempt_with_an_answer_of_its_own(simulator: Running) -> None:
    seen = ask(simulator, THREE)

    assert (seen.status, statuses(seen)) == (200, [200, 200, 200])
    assert (seen.json["accepted"], seen.json["rejected"]) == (3, 0)
    with simulator.control() as control:
        ids = {each["recipients"][0]: each["id"] for each in control.messages()}
    assert [each["id"] for each in seen.json["data"]] == [ids[each] for each in PEOPLE]
    tried = attempts(simulator, 3)
    assert [each["recipients"] for each in tried] == [[each] for each in PEOPLE]
    assert {(each["sent"], each["answer"], each["connection"]) for each in tried} == {
        ("complete", "200", tried[0]["connection"])
    }


def test_the_same_batch_again_is_replayed(simulator: Running) -> None:
    first, second = ask(simulator, THREE), ask(simulator, THREE)

    assert second.headers["idempotency-replayed"] == "true"
    assert second.body == first.body
    assert accepted(simulator) == 3
    other = ask(simulator, batch(mail(), key="batch-1"))
    assert (other.status, other.json["code"]) == (422, "key_reused")


def test_a_mail_that_is_wrong_is_refused_alone(simulator: Running) -> None:
    seen = ask(simulator, batch(mail(to=[PEOPLE[0]]), BAD, mail(to=[PEOPLE[1]])))

    assert (seen.status, statuses(seen)) == (200, [200, 422, 200])
    assert seen.json["data"][1]["error"]["code"] == "invalid_recipient"
    assert recipients(simulator) == [*PEOPLE[:2]]
    # What the sender was told of each mail is what the harness must hold it to.
    assert [each["answer"] for each in attempts(simulator, 3)] == ["200", "422", "200"]


@pytest.mark.parametrize(("items", "status"), [((mail(), BAD), 207), ((BAD, BAD), 400)])
def test_the_status_of_a_mixed_batch_is_a_setting(
    simulator: Running, items: tuple[dict[str, Any], ...], status: int
) -> None:
    plan(simulator, batch={"mixed_status": 207, "none_status": 400})

    assert ask(simulator, batch(*items)).status == status


@pytest.mark.parametrize(
    ("rules", "settings", "told"),
    [
        ([], {"mode": "all_or_nothing"}, ["422, of the whole request", "422", "422, of the whole request"]),
        ([], {"results": "totals"}, ["200, no result for this mail"] * 3),
        ([], {"results": "accepted"}, ["200", "422", "200"]),
        (
            [{"fault": "odd_results", "listing": "fewer"}],
            {},
            ["200, results fewer", "422, results fewer", "200, results fewer, no result for this mail"],
        ),
        ([{"fault": "reply", "stage": "request", "code": 503}], {}, ["503"]),
        ([{"fault": "reply", "stage": "reply", "code": 500}], {}, ["500, of the whole request"] * 3),
        ([{"fault": "interim"}], {}, ["200, 103 first", "422, 103 first", "200, 103 first"]),
        ([{"fault": "slow", "stage": "reply", "delay_s": 0}], {}, ["200", "422", "200"]),
    ],
)
def test_an_attempt_says_what_its_mail_was_told(
    simulator: Running, rules: list[dict[str, Any]], settings: dict[str, Any], told: list[str]
) -> None:
    """Its own result, in the form in which it came; or that there was none, or one for all of them."""
    plan(simulator, *rules, batch=settings)

    ask(simulator, batch(mail(), BAD, mail()))

    assert [each["answer"] for each in attempts(simulator, len(told))] == told


def test_one_that_is_wrong_may_refuse_all(simulator: Running) -> None:
    plan(simulator, batch={"mode": "all_or_nothing"})

    seen = ask(simulator, batch(mail(), BAD, mail()))

    assert (seen.status, seen.json["code"], seen.json["index"]) == (422, "invalid_recipient", 1)
    assert accepted(simulator) == 0
    assert ask(simulator, THREE).status == 200
    assert recipients(simulator) == [*PEOPLE]


@pytest.mark.parametrize("mode", ["each", "all_or_nothing"])
def test_a_rule_about_one_mail_refuses_it_or_all(simulator: Running, mode: str) -> None:
    """Stages of a mail are asked for each; words are that mail's outcome."""
    plan(
        simulator,
        {"fault": "reply", "stage": "accept", "code": 503, "retry_after": 7, "recipient": PEOPLE[1]},
        batch={"mode": mode},
    )

    seen = ask(simulator, THREE)

    if mode == "each":
        assert (seen.status, statuses(seen)) == (200, [200, 503, 200])
        assert recipients(simulator) == [PEOPLE[0], PEOPLE[2]]
    else:
        assert (seen.status, seen.headers["retry-after"]) == (503, "7")
        assert recipients(simulator) == []
    rules = [each["rules"] for each in attempts(simulator, 3)]
    assert rules == [[], ["rule 1"], []]


@pytest.mark.parametrize("mode", ["each", "all_or_nothing"])
@pytest.mark.parametrize(("fault", "end"), [("hang_up", "eof"), ("reset", "reset")])
def test_a_line_that_breaks_at_one_mail_leaves_the_others_as_they_are(
    simulator: Running, mode: str, fault: str, end: str
) -> None:
    """Those before it are taken, one by one; the sender hears nothing of any."""
    plan(simulator, {"fault": fault, "stage": "accept", "recipient": PEOPLE[1]}, batch={"mode": mode})

    seen = ask(simulator, THREE)

    assert (seen.data, seen.end) == (b"", end)
    assert recipients(simulator) == ([PEOPLE[0]] if mode == "each" else [])
    assert {each["sent"] for each in attempts(simulator, 3)} == {"nothing"}


@pytest.mark.parametrize("stage", ["upload", "request", "reply", "body"])
def test_stages_of_the_request_are_asked_once(simulator: Running, stage: str) -> None:
    plan(simulator, {"fault": "hang_up", "stage": stage})

    assert ask(simulator, THREE).end == "eof"

    with simulator.control() as control:
        assert control.plan()["rules"][0]["seen"] == 1
    assert accepted(simulator) == (3 if stage in ("reply", "body") else 0)


def test_a_batch_may_fail_in_part_and_its_answer_be_lost(simulator: Running) -> None:
    """What no sender can know from the wire; sent again with its key, it hears the truth."""
    plan(
        simulator,
        {"fault": "reply", "stage": "accept", "code": 503, "recipient": PEOPLE[1]},
        {"fault": "accept_then_reset", "dialect": "http", "times": 1},
    )
    assert ask(simulator, THREE).end == "reset"

    seen = ask(simulator, THREE)

    assert seen.headers["idempotency-replayed"] == "true"
    assert statuses(seen) == [200, 503, 200]
    assert accepted(simulator) == 2


@pytest.mark.parametrize(
    ("listing", "indexes"),
    [("fewer", [0, 1]), ("shuffled", [2, 1, 0]), ("twice", [0, 1, 2, 2]), ("none", []), ("totals", None)],
)
def test_a_list_of_results_may_be_wrong(simulator: Running, listing: str, indexes: list[int] | None) -> None:
    plan(simulator, {"fault": "odd_results", "listing": listing})

    seen = ask(simulator, THREE)

    data = seen.json.get("data")
    assert (None if data is None else [each["index"] for each in data]) == indexes
    assert accepted(simulator) == 3


@pytest.mark.parametrize(
    ("results", "members"), [("accepted", {"data", "errors"}), ("totals", {"accepted", "rejected"})]
)
def test_what_is_said_is_a_setting(simulator: Running, results: str, members: set[str]) -> None:
    plan(simulator, batch={"results": results})

    assert set(ask(simulator, batch(mail(), BAD)).json) == members


def test_each_mail_may_have_its_own_key(simulator: Running) -> None:
    """Sent again after a part failed: what was taken is replayed, what was not is tried."""
    plan(
        simulator,
        {"fault": "reply", "stage": "accept", "code": 503, "recipient": PEOPLE[1], "times": 1},
    )
    mails = [mail(to=[each], idempotency_key=f"k-{each}") for each in PEOPLE]

    first, second = ask(simulator, batch(*mails)), ask(simulator, batch(*mails))

    assert statuses(first) == [200, 503, 200]
    assert statuses(second) == [200, 200, 200]
    assert [each.get("replayed", False) for each in second.json["data"]] == [True, False, True]
    assert recipients(simulator) == [*PEOPLE]


def test_a_batch_is_in_flight_while_one_of_its_mails_is_held(simulator: Running) -> None:
    plan(simulator, {"fault": "hold", "stage": "accept", "recipient": PEOPLE[2], "times": 1})
    with Sender(simulator.http) as first, simulator.control() as control:
        first.say(THREE)
        control.wait_for_attempts(state="held")
        assert accepted(simulator) == 2

        seen = ask(simulator, THREE)

        assert (seen.status, seen.json["code"]) == (409, "key_in_flight")
        control.release()
        assert statuses(first.see()) == [200, 200, 200]
    assert ask(simulator, THREE).headers["idempotency-replayed"] == "true"
    assert accepted(simulator) == 3


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{}", 400, "invalid_request"),
        (b"[]", 400, "invalid_request"),
        (json.dumps([mail()] * 101).encode(), 413, "too_many_mails"),
        (b"[" * 100_000, 400, "invalid_request"),
    ],
    ids=["object", "empty", "too many", "nested"],
)
def test_what_is_no_batch_is_refused_whole(simulator: Running, body: bytes, status: int, code: str) -> None:
    seen = ask(simulator, request(body, path=PATH))

    assert (seen.status, seen.json["code"]) == (status, code)
    assert len(attempts(simulator, 1)) == 1
    assert accepted(simulator) == 0


def test_a_batch_is_looked_at_by_post_only(simulator: Running) -> None:
    seen = ask(simulator, request(method="GET", path=PATH))

    assert (seen.status, seen.headers["allow"]) == (405, "POST")


def test_a_large_batch_is_taken(simulator: Running) -> None:
    """A hundred mails, more than is parsed on the loop."""
    text = "x" * 4096
    mails = [mail(to=[f"{number}@example.com"], text=text) for number in range(100)]

    seen = ask(simulator, batch(*mails))

    assert (seen.json["accepted"], accepted(simulator)) == (100, 100)


def test_no_yes_without_a_durable_batch(
    simulator: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What fails to be kept gets no answer; what comes after it is put off whole."""
    store = simulator.service.store
    append = store.append

    def fail(records: object) -> None:
        raise StoreError("the ledger cannot be written: disk full")

    monkeypatch.setattr(store, "append", fail)
    first, again = ask(simulator, THREE), ask(simulator, batch(mail(to=["zoe@example.com"])))

    assert (first.data, first.end) == (b"", "eof")
    assert again.status == 503
    assert recipients(simulator) == [*PEOPLE]
    monkeypatch.setattr(store, "append", append)
    with simulator.control() as control:
        control.owe([{"ref": "r", "recipient": "ada@example.com"}])
    assert ask(simulator, THREE).headers["idempotency-replayed"] == "true"
    caplog.clear()


def test_a_rule_about_a_key_means_the_key_of_the_batch_and_that_of_a_mail(simulator: Running) -> None:
    rule = {"fault": "reply", "stage": "accept", "code": 503}
    plan(simulator, rule | {"key": "batch-1"}, rule | {"key": "own-*"})

    whole = ask(simulator, THREE)
    own = ask(simulator, batch(mail(idempotency_key="own-1"), mail(idempotency_key="other"), mail(), key="b"))

    assert statuses(whole) == [503, 503, 503]
    assert statuses(own) == [503, 200, 200]
