"""Who must not be written to, for how long, and with what."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reference_sender.message import InvalidMail
from reference_sender.policy.classes import MailClass
from reference_sender.policy.suppression import Kind, Suppression, canonical
from tests.reference_sender.samples import NOW


def entry(kind: Kind = Kind.ALL, until_s: float | None = None) -> Suppression:
    until = None if until_s is None else NOW + timedelta(seconds=until_s)
    return Suppression(
        address="ann@example.com", kind=kind, reason="complaint", source="evt_1", since=NOW, until=until
    )


def test_who_is_suppressed_gets_nothing() -> None:
    assert all(entry().covers(each, NOW) for each in MailClass)


def test_who_unsubscribed_gets_codes_and_confirmations() -> None:
    covered = {each for each in MailClass if entry(Kind.NEWSLETTER).covers(each, NOW)}
    assert covered == {MailClass.NEWSLETTER}


def test_a_suppression_may_end() -> None:
    assert entry(until_s=1.0).covers(MailClass.CODE, NOW)
    assert not entry(until_s=0.0).covers(MailClass.CODE, NOW)


def test_an_address_is_one_however_it_is_spelled() -> None:
    assert canonical("Ann <Ann@Example.COM>") == canonical("ann@example.com") == "ann@example.com"
    with pytest.raises(InvalidMail, match="not an address"):
        canonical("nobody")
