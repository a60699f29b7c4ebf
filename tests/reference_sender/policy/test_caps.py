"""Giving up: the last attempt, the last day, the last moment it was worth sending."""

from __future__ import annotations

from datetime import timedelta

from reference_sender.policy.caps import overdue, too_many, too_old
from tests.reference_sender.samples import NOW, docket, settings


def test_the_last_allowed_attempt_is_the_last() -> None:
    three = settings(max_attempts=3)
    assert too_many(docket(attempts=2), three) is None
    assert too_many(docket(attempts=3), three) is not None


def test_age_counts_from_the_moment_it_was_queued() -> None:
    hour = settings(max_age_s=3_600.0)
    assert too_old(docket(), NOW + timedelta(minutes=59), hour) is None
    assert too_old(docket(), NOW + timedelta(minutes=60), hour) is not None
    assert too_old(docket(queued_at=NOW + timedelta(minutes=1)), NOW + timedelta(minutes=60), hour) is None


def test_a_mail_without_an_expiry_is_never_overdue() -> None:
    assert overdue(docket(), NOW + timedelta(days=9_999)) is None
    assert overdue(docket(expires_at=NOW), NOW) is not None
    assert overdue(docket(expires_at=NOW + timedelta(seconds=1)), NOW) is None
