"""The decision log over the wire, and the plan that strikes the same again."""

from __future__ import annotations

import httpx

from simulator.client import ControlClient
from tests.simulator.running import Running, ask, mail, request


def test_what_struck_is_listed_in_order_and_in_pages(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    control.set_plan({"rules": ["503 first 2"], "limits": {"rate_per_s": 0.001}})
    told = [ask(simulator, request(mail())).status for _ in range(4)]

    assert told == [503, 503, 200, 429]
    decisions = control.decisions()
    assert [(each["rules"], each["stage"], each["answer"]) for each in decisions] == [
        (["503 first 2"], "accept", "503"),
        (["503 first 2"], "accept", "503"),
        (["limit: account"], "booking", "refused: rate_limited"),
    ]
    page = web.get("decisions", params={"limit": 2}).json()
    assert [each["number"] for each in page["decisions"]] == [each["number"] for each in decisions[:2]]
    rest = web.get("decisions", params={"after": page["next"]}).json()
    assert (len(rest["decisions"]), rest["next"]) == (1, None)


def test_a_recording_is_a_plan_that_does_the_same(simulator: Running, control: ControlClient) -> None:
    """Set in another account it strikes there, and says how far it is."""

    def sends(account: str) -> list[int]:
        headers = {"Authorization": f"Bearer {account}"}
        return [ask(simulator, request(mail(), headers=headers)).status for _ in range(4)]

    control.set_plan({"rules": ["503 every other", "429 once"]})
    told = sends("default")
    recording = control.replay()
    with simulator.control("again") as again:
        again.set_plan(recording)
        assert again.plan()["replay"] == {"recorded": 3, "struck": 0}
        assert sends("again") == told == [429, 503, 200, 503]
        assert again.plan()["replay"] == {"recorded": 3, "struck": 3}
        assert again.replay()["replay"] == recording["replay"]
