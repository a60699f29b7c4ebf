"""Webhooks over the control API: settings that are refused, deliveries that are found again."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from simulator import shapes
from simulator.client import ControlClient
from tests.simulator.receiver import Answer, receiving
from tests.simulator.running import Running, ask, mail, request

BAD: dict[str, Any] = {
    "no object": [],
    "no url": {"secret": "x"},
    "forbidden scheme": {"url": "ftp://127.0.0.1/"},
    "forbidden host": {"url": "http://10.0.0.1/"},
    "password in the url": {"url": "http://u:p@127.0.0.1/"},
    "unknown key": {"url": "http://127.0.0.1/", "uri": "x"},
    "bad secret": {"url": "http://127.0.0.1/", "secret": "x"},
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_webhook_is_refused_with_one_sentence(
    control: ControlClient, web: httpx.Client, name: str
) -> None:
    """And nothing is changed."""
    answer = web.put("webhook", json=BAD[name])

    assert answer.status_code == 422
    assert "\n" not in answer.json()["detail"]
    assert control.webhook()["url"] is None


def test_a_plan_with_a_forbidden_target_is_refused(control: ControlClient, web: httpx.Client) -> None:
    answer = web.put("plan", json={"webhooks": {"url": "http://192.168.0.1/"}})

    assert answer.status_code == 422
    assert "--webhook-hosts private" in answer.json()["detail"]


def test_without_a_webhook_nothing_is_delivered(simulator: Running, control: ControlClient) -> None:
    ask(simulator, request(mail()))

    assert control.deliveries() == []


def test_deliveries_are_found_by_what_they_tell(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    """In pages, newest first if wanted; what is shown has exactly the fields of its shape."""
    with receiving(Answer(status=500, body=b"no"), Answer(body=b"thanks")) as receiver:
        shown = control.set_webhook(receiver.url, schedule_s=[3600], events=["email.accepted"])
        ask(simulator, request(mail(to=["ada@example.com"])))
        receiver.wait(1)
        (failed,) = control.wait_for_deliveries(state="waiting")
        ask(simulator, request(mail(to=["bob@example.com"])))
        (told,) = control.wait_for_deliveries(state="delivered")
        control.forget_webhook()

    assert set(shown) == set(shapes.Webhook.__annotations__)
    assert set(told) == set(shapes.Delivery.__annotations__)
    assert set(told["tries"][0]) == set(shapes.Try.__annotations__)
    assert set(told["events"][0]) == set(shapes.EventTold.__annotations__)
    assert (told["tries"][0]["status"], told["tries"][0]["answer"]) == (200, "thanks")
    assert failed["tries"][0]["answer"] == "no"
    # The endpoint was taken away: its deliveries went with it.
    assert web.get("deliveries").json() == {"deliveries": [], "next": None}


def test_lists_of_deliveries_come_in_pages(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    with receiving() as receiver:
        control.set_webhook(receiver.url, events=["email.accepted"])
        for name in ("a", "b", "c"):
            ask(simulator, request(mail(to=[f"{name}@example.com"])))
        all_of_them = control.wait_for_deliveries(count=3, state="delivered")

        page = web.get("deliveries", params={"limit": 2}).json()
        rest = web.get("deliveries", params={"limit": 2, "after": page["next"]}).json()
        assert page["deliveries"] + rest["deliveries"] == all_of_them
        assert rest["next"] is None
        newest = web.get("deliveries", params={"newest_first": "true"}).json()["deliveries"]
        assert newest == all_of_them[::-1]
        (b,) = control.deliveries(to="B@example.com")
        assert control.deliveries(event=b["events"][0]["id"]) == [b]
        assert control.deliveries(type="email.opened") == []
        assert control.deliveries(rule="none") == []
