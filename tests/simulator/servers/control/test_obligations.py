"""What was promised, and the verdict."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from simulator.client import ControlClient, ControlError
from tests.simulator.running import Running, ask, mail, request


def send(simulator: Running, to: str, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = ask(simulator, request(mail(to=[to], **more))).json
    return told


def test_the_verdict_compares_obligations_with_the_ledger(simulator: Running, control: ControlClient) -> None:
    """Once, twice, never, and never promised; what is open is lost when the calm is over."""
    control.owe([{"ref": name, "recipient": f"{name}@example.com"} for name in ("once", "twice", "never")])
    for to in ("once", "twice", "twice", "stranger"):
        send(simulator, f"{to}@example.com")

    verdict = control.verdict()
    assert (verdict["valid"], verdict["obligations"], verdict["accepted_once"]) == (False, 3, 1)
    assert [each["ref"] for each in verdict["duplicated"]] == ["twice"]
    assert [each["recipient"] for each in verdict["phantom"]] == ["stranger@example.com"]
    assert [each["ref"] for each in verdict["open"]] == ["never"]
    assert [each["ref"] for each in control.verdict(final=True)["lost"]] == ["never"]


def test_an_obligation_is_replaced_by_ref_and_recipient(control: ControlClient) -> None:
    """What the sender says of itself may change."""
    control.owe([{"ref": "r", "recipient": "ada@example.com"}])
    control.owe([{"ref": "r", "recipient": "ADA@example.com", "state": "unknown", "copies": 2}])

    assert control.obligations() == [
        {"ref": "r", "recipient": "ADA@example.com", "copies": 2, "sha256": None, "state": "unknown"}
    ]
    assert [each["ref"] for each in control.verdict()["parked"]] == ["r"]


BAD_OBLIGATIONS = {
    "no list": {"obligations": {}},
    "no object": {"obligations": [1]},
    "no ref": {"obligations": [{"recipient": "a@x"}]},
    "unknown key": {"obligations": [{"ref": "r", "recipient": "a@x", "due": 1}]},
    "unknown state": {"obligations": [{"ref": "r", "recipient": "a@x", "state": "lost"}]},
    "negative copies": {"obligations": [{"ref": "r", "recipient": "a@x", "copies": -1}]},
    "no address": {"obligations": [{"ref": "q", "recipient": "a@x"}, {"ref": "r", "recipient": "b"}]},
    "a name before the address": [{"ref": "r", "recipient": "Bob <b@x>", "copies": 0}],
    "short digest": {"obligations": [{"ref": "r", "recipient": "a@x", "sha256": "abc"}]},
}


def test_a_promise_that_can_never_be_kept_is_refused(control: ControlClient) -> None:
    """What was given, and what would be right."""
    with pytest.raises(ControlError) as refused:
        control.owe([{"ref": "q", "recipient": "a@x"}, {"ref": "r", "recipient": "b"}])

    assert str(refused.value).endswith(
        "obligation 2: recipient is 'b', to which no mail can go; give a bare address, like 'ada@example.com'"
    )


@pytest.mark.parametrize(
    "recipient", ["Postmaster", "bob@[192.0.2.1]", '"b b"@x', "bücher@exämple", "b@localhost"]
)
def test_whoever_can_get_mail_can_be_promised_some(control: ControlClient, recipient: str) -> None:
    """Over whichever wire; the promise says nothing of it."""
    control.owe([{"ref": "r", "recipient": recipient}])

    assert [each["recipient"] for each in control.obligations()] == [recipient]


@pytest.mark.parametrize("name", BAD_OBLIGATIONS)
def test_a_bad_obligation_is_refused_with_one_sentence(
    control: ControlClient, web: httpx.Client, name: str
) -> None:
    """And none of its companions is entered."""
    answer = web.post("obligations", json=BAD_OBLIGATIONS[name])

    assert answer.status_code == 422
    assert answer.json()["detail"]
    assert control.obligations() == []
