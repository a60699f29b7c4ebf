"""Tests of notices on the wire: what a receiver gets, whole and spoilt."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from simulator.clock import SystemClock
from simulator.provider.events import Event, event_as_json, events_of
from simulator.provider.notices import (
    WHOLE_BODY,
    Damage,
    Flaw,
    Forgery,
    Notice,
    Spoilt,
    body,
    notice_as_facts,
    notice_from,
    notice_of,
    signed,
)
from simulator.provider.signing import Scheme, read_secret
from tests.simulator.provider.mails import BOB, NOW, acceptance

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
KEY = read_secret(SECRET, Scheme.STANDARD)
SOUND = notice_of(next(iter(events_of(acceptance()))))


def spoilt(*flaws: Flaw) -> Notice:
    return Notice(source=SOUND.source, event=SOUND.event, due_at=NOW, flaws=flaws)


def request(notice: Notice, number: int = 1) -> tuple[bytes, dict[str, str]]:
    content = body([notice], batched=False, number=number)
    headers = signed(
        [notice],
        scheme=Scheme.STANDARD,
        keys=[KEY],
        webhook_id=notice.event.id,
        now=SystemClock().now(),
        content=content,
        number=number,
    )
    return content, headers


def test_one_event_is_an_object_and_a_batch_an_array() -> None:
    other = notice_of(list(events_of(acceptance()))[1])

    assert json.loads(body([SOUND], batched=False, number=1)) == event_as_json(SOUND.event)
    assert json.loads(body([SOUND, other], batched=True, number=1)) == [
        event_as_json(SOUND.event),
        event_as_json(other.event),
    ]
    assert json.loads(body([SOUND], batched=True, number=1)) == [event_as_json(SOUND.event)]


def test_half_a_character_from_a_mail_does_not_break_the_json() -> None:
    """Subjects may bring anything; what is sent is UTF-8."""
    (event, *_) = events_of(acceptance(subject="Grüße \ud83d"))

    assert json.loads(body([notice_of(event)], batched=False, number=1))["data"]["subject"] == "Grüße \ufffd"


@pytest.mark.parametrize("forgery", Forgery)
def test_a_receiver_refuses_each_forgery_and_takes_the_attempt_after_it(forgery: Forgery) -> None:
    notice = spoilt(Flaw(what=Spoilt.SIGNATURE, how=forgery))
    content, headers = request(notice)

    # Over garbage the library stumbles (ValueError): whoever uses it must be prepared for that, too.
    with pytest.raises((WebhookVerificationError, ValueError)):
        Webhook(SECRET).verify(content, headers)
    assert Webhook(SECRET).verify(*request(notice, number=2)) == event_as_json(SOUND.event)


@pytest.mark.parametrize("age_s", [301.0, 86_400.0])
def test_a_receiver_refuses_an_old_timestamp_though_it_is_signed(age_s: float) -> None:
    """And takes one that is not too old."""
    with pytest.raises(WebhookVerificationError, match="too old"):
        Webhook(SECRET).verify(*request(spoilt(Flaw(what=Spoilt.TIMESTAMP, age_s=age_s))))

    assert Webhook(SECRET).verify(*request(spoilt(Flaw(what=Spoilt.TIMESTAMP, age_s=200.0))))


def is_an_event(content: bytes) -> bool:
    try:
        read: Any = json.loads(content)
    except ValueError:
        return False
    return (
        isinstance(read, dict)
        and isinstance(read.get("type"), str)
        and isinstance(read.get("data"), dict)
        and isinstance(read.get("timestamp"), str)
    )


@pytest.mark.parametrize("damage", Damage)
def test_every_damage_makes_something_that_is_no_event(damage: Damage) -> None:
    """In a batch it spoils its own place only, or is sent alone."""
    notice = spoilt(Flaw(what=Spoilt.BODY, how=damage))
    content, _ = request(notice)

    assert not is_an_event(content)
    assert is_an_event(request(notice, number=2)[0])
    assert notice.alone is (damage in WHOLE_BODY)
    if not notice.alone:
        sound, item = json.loads(body([SOUND, notice], batched=True, number=1))
        assert sound == event_as_json(SOUND.event)
        assert not is_an_event(json.dumps(item).encode())


def test_what_cannot_share_a_signature_is_sent_alone() -> None:
    assert spoilt(Flaw(what=Spoilt.SIGNATURE, how="missing")).alone
    assert spoilt(Flaw(what=Spoilt.TIMESTAMP, age_s=9)).alone
    assert not SOUND.alone


@pytest.mark.parametrize(
    "notice",
    [
        SOUND,
        Notice(
            key="evt_1.2",
            source="evt_1",
            event=Event(
                id="evt_2",
                type="email.opened",
                account="a",
                at=NOW,
                order=(1, 2),
                given={"recipient": BOB},
                told_at=NOW,
            ),
            due_at=NOW,
            flaws=(Flaw(what=Spoilt.BODY, how="null", tries=3), Flaw(what=Spoilt.TIMESTAMP, age_s=1.5)),
            lost=True,
            once=True,
            rules=("r",),
        ),
    ],
)
def test_a_notice_can_be_written_and_read(notice: Notice) -> None:
    """It tells the same afterwards, though the mail may be gone by then."""
    again = notice_from(notice.event.account, json.loads(json.dumps(notice_as_facts(notice))))

    assert event_as_json(again.event) == event_as_json(notice.event)
    for name in ("key", "source", "due_at", "flaws", "lost", "once", "rules"):
        assert getattr(again, name) == getattr(notice, name)
