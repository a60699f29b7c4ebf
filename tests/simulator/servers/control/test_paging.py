"""Lists in pages."""

from __future__ import annotations

import httpx
import pytest

from simulator.client import ControlClient
from simulator.servers.control.paging import MAX_PAGE
from tests.simulator.running import Running, ask, mail, request


@pytest.mark.parametrize("what", ["messages", "attempts"])
@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_lead_through_the_whole_list(
    simulator: Running, control: ControlClient, web: httpx.Client, what: str, newest_first: bool
) -> None:
    """Each once, in order; mail that comes meanwhile does not shift anything."""
    for number in range(5):
        ask(simulator, request(mail(), key=f"k{number}"))
    control.wait_for_attempts(state="closed", count=5)
    seen, after = [], None
    for _ in range(5):
        parameters = {"limit": 2, "newest_first": newest_first} | ({"after": after} if after else {})
        page = web.get(what, params=parameters).json()
        seen.append([each["key"] for each in page[what]])
        if (after := page["next"]) is None:
            break
        if newest_first:
            ask(simulator, request(mail(), key="late"))

    expected = [["k0", "k1"], ["k2", "k3"], ["k4"]]
    assert seen == ([["k4", "k3"], ["k2", "k1"], ["k0"]] if newest_first else expected)


def test_a_wait_shows_one_page_and_where_it_goes_on(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    """Waiting for a thousand mails must not bring a thousand mails."""
    for number in range(3):
        ask(simulator, request(mail(), key=f"k{number}"))
    control.wait_for_attempts(state="closed", count=3)

    for what in ("messages", "attempts"):
        answer = web.get(f"{what}/wait", params={"count": 3, "limit": 2}).json()
        assert ([each["key"] for each in answer[what]], answer["complete"]) == (["k0", "k1"], True)
        rest = web.get(what, params={"after": answer["next"]}).json()
        assert ([each["key"] for each in rest[what]], rest["next"]) == (["k2"], None)


@pytest.mark.parametrize(
    ("name", "given"),
    [("after", "-1"), ("after", "k0"), ("after", "9" * 40), ("limit", "0"), ("limit", str(MAX_PAGE + 1))],
)
def test_a_cursor_or_limit_that_is_none_is_refused(web: httpx.Client, name: str, given: str) -> None:
    """With one sentence that says what would be right."""
    answer = web.get("messages", params={name: given})

    assert answer.status_code == 400
    assert name in answer.json()["detail"]
