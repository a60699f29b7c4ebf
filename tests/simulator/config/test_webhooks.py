"""The table `[webhooks]`: every setting can be written, every mistake is one sentence."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any

import pytest

from simulator.config import read_plan
from simulator.config.place import Place
from simulator.config.webhooks import WEBHOOK_KEYS, read_webhooks, webhooks_as_json
from simulator.provider.signing import Scheme
from simulator.provider.webhooks import WebhookRules
from tests.simulator.config.plans import sentence

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
WHOLE: dict[str, Any] = {
    "url": "https://app.example:8443/hooks?x=1",
    "secret": [SECRET, SECRET],
    "scheme": "standard",
    "events": ["email.bounced", "*.delivered"],
    "headers": {"Authorization": "Bearer x"},
    "batch": 10,
    "batch_wait_s": 0.5,
    "connections": 2,
    "timeout_s": 3,
    "schedule_s": [5, 60.5],
    "jitter": 0,
    "give_up_on": [406],
    "disable_after_s": 432_000,
    "verify_tls": False,
}


def test_every_setting_can_be_written_and_is_shown_as_it_was_written() -> None:
    """Read back, it is the same."""
    rules = read_plan({"webhooks": WHOLE}, "plan").webhooks

    assert set(WHOLE) == set(WEBHOOK_KEYS)
    assert len(WEBHOOK_KEYS) == len(dataclasses.fields(WebhookRules))
    assert all(
        getattr(rules, field.name) != field.default
        for field in dataclasses.fields(rules)
        if field.name != "scheme"
    )
    assert webhooks_as_json(rules) == WHOLE
    assert read_webhooks(webhooks_as_json(WebhookRules()), Place("x")) == WebhookRules()


def test_one_secret_may_stand_alone_and_needs_no_form_in_the_plain_scheme() -> None:
    assert read_webhooks({"secret": SECRET}, Place("x")).secrets == (SECRET,)
    plain = read_webhooks({"secret": "anything", "scheme": "hmac"}, Place("x"))
    assert (plain.scheme, plain.secrets) == (Scheme.HMAC, ("anything",))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ([], "this must be a table of settings"),
        ({"urls": "x"}, 'there is no key "urls"; did you mean "url"?'),
        ({"url": 7}, '"url" is 7; it must be a text'),
        ({"url": "file:///etc/passwd"}, "only http and https"),
        ({"url": "http://u:p@h/"}, "user or a password"),
        ({"secret": "hunter2"}, "begins with whsec_"),
        ({"secret": {}}, '"secret" is {}; it must be a list of secrets'),
        ({"scheme": "rsa"}, '"scheme" is "rsa"; known are hmac, none, standard'),
        ({"events": "email.bounced"}, '"events" is "email.bounced"; it must be a list of types'),
        ({"events": ["email.bounce"]}, 'did you mean "email.bounced"?'),
        ({"headers": ["x"]}, "it must be a table of header names and values"),
        ({"headers": {"a b": "x"}}, "which is no header name"),
        ({"headers": {"a": "x\r\nb: c"}}, "characters that no header has"),
        (
            {"headers": {"Content-Length": "5"}},
            '"headers" names "Content-Length", which each delivery has by itself',
        ),
        (
            {"headers": {"Webhook-Signature": "v1,x"}},
            '"headers" names "Webhook-Signature", which each delivery has by itself',
        ),
        ({"batch": 0}, '"batch" is 0; it must be a whole number of 1 or more'),
        ({"connections": 1000}, '"connections" is 1000; it must be a whole number from 1 to 100'),
        ({"timeout_s": 0}, '"timeout_s" is 0; it must be a number above 0'),
        ({"schedule_s": 5}, '"schedule_s" is 5; it must be a list of seconds'),
        ({"schedule_s": [-1]}, '"schedule_s" is -1; it must be a number of 0 or more'),
        ({"schedule_s": [1] * 101}, '"schedule_s" has 101 delays; there may be 100'),
        ({"jitter": 1}, '"jitter" is 1; it must be a number from 0 to below 1'),
        ({"give_up_on": [200]}, '"give_up_on" holds 200; it must be a status from 300 to 599'),
        ({"verify_tls": "no"}, '"verify_tls" is "no"; it must be true or false'),
    ],
)
def test_a_mistake_is_one_sentence(settings: Any, says: str) -> None:
    said = sentence({"webhooks": settings})

    assert says in said
    assert "[webhooks]" in said
    assert "hunter2" not in said
