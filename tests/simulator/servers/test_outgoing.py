"""What goes out is checked before anything is up, and one sentence says what would be right."""

from __future__ import annotations

import pytest

from simulator.config import read_plan
from simulator.provider.provider import Setup
from simulator.provider.webhooks import Reach, WebhookRules
from simulator.servers.options import ServeError
from simulator.servers.outgoing import OutgoingError, check_targets
from tests.simulator.running import running


@pytest.mark.parametrize(("reach", "right"), [(Reach.LOOPBACK, False), (Reach.PRIVATE, True)])
def test_targets_of_serve_and_of_plans_are_checked(reach: Reach, right: bool) -> None:
    planned: Setup = read_plan({"webhooks": {"url": "http://10.0.0.1/"}}, "plan")
    for usual, setups in (
        (WebhookRules(url="http://10.0.0.1/"), []),
        (WebhookRules(), [Setup(), planned]),
    ):
        if right:
            check_targets(usual, setups, reach)
        else:
            with pytest.raises(OutgoingError, match="--webhook-hosts private"):
                check_targets(usual, setups, reach)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"webhook_url": "ftp://127.0.0.1/"}, "only http and https"),
        ({"webhook_url": "http://192.168.1.2/"}, "--webhook-hosts private"),
        ({"webhook_secret": "x"}, "--webhook-secret"),
        ({"plan": {"webhooks": {"url": "http://8.8.8.8/"}}}, "--webhook-hosts any"),
    ],
)
def test_a_service_does_not_start_with_a_target_that_is_not_allowed(
    options: dict[str, object], says: str
) -> None:
    with pytest.raises(ServeError, match=says), running(**options):  # type: ignore[arg-type]
        raise AssertionError("it is up")
