"""What goes out is checked before anything is up, and one sentence says what would be right."""

from __future__ import annotations

import base64

import pytest

from simulator.config import read_plan
from simulator.provider.provider import Setup
from simulator.provider.signing import secret_of
from simulator.provider.webhooks import Reach, WebhookRules
from simulator.servers.outgoing import OutgoingError, check_targets, usual_webhook
from simulator.servers.serve import ServeError
from tests.simulator.running import running

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()


def test_without_a_secret_there_is_one_that_follows_from_the_seed() -> None:
    assert usual_webhook("http://127.0.0.1/", None, 7) == WebhookRules(
        url="http://127.0.0.1/", secrets=(secret_of(7),)
    )
    assert usual_webhook(None, None, 7).secrets != usual_webhook(None, None, 8).secrets
    assert usual_webhook(None, SECRET, 7).secrets == (SECRET,)


def test_a_bad_secret_names_its_option() -> None:
    with pytest.raises(OutgoingError, match=r"^--webhook-secret: a webhook secret begins with whsec_"):
        usual_webhook(None, "hunter2", 0)


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
