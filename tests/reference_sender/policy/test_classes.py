"""The table of mail classes: each has its manners, and what is refused first is not what people wait for."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reference_sender.policy.classes import (
    MANNERS,
    MailClass,
    QueueFull,
    check_room,
    ends_at,
    late_after_s,
    most_waiting,
)
from tests.reference_sender.samples import NOW


def test_every_class_has_its_manners() -> None:
    assert set(MANNERS) == set(MailClass)
    assert all(each.in_outage for each in MANNERS.values())


def test_what_is_urgent_goes_first_and_is_refused_last() -> None:
    by_priority = sorted(MailClass, key=lambda each: -MANNERS[each].priority)
    assert by_priority == list(MailClass)
    assert [most_waiting(each, 100) for each in by_priority] == [None, 100, 100, 80, 50]


@pytest.mark.parametrize("mail_class", MailClass)
def test_each_class_is_late_after_a_while_of_its_own(mail_class: MailClass) -> None:
    assert late_after_s(mail_class) == late_after_s(mail_class.value) == MANNERS[mail_class].late_after_s


def test_a_class_that_is_none_is_late_like_a_confirmation() -> None:
    assert late_after_s("telegram") == MANNERS[MailClass.CONFIRMATION].late_after_s
    assert MANNERS[MailClass.CONFIRMATION].late_after_s != MANNERS[MailClass.CODE].late_after_s


def test_without_a_cap_nobody_is_refused() -> None:
    for each in MailClass:
        check_room(each, 10**9, None)


def test_the_newsletter_is_refused_first_and_a_code_never() -> None:
    check_room(MailClass.NEWSLETTER, 49, 100)
    with pytest.raises(QueueFull, match="50 mails are waiting, and a newsletter is let in up to 50"):
        check_room(MailClass.NEWSLETTER, 50, 100)
    check_room(MailClass.NOTICE, 50, 100)
    with pytest.raises(QueueFull, match="confirmation"):
        check_room(MailClass.CONFIRMATION, 100, 100)
    check_room(MailClass.CODE, 10**6, 100)


def test_a_code_ends_by_itself_and_what_the_caller_says_counts_more() -> None:
    assert ends_at(MailClass.CODE, None, NOW) == NOW + timedelta(seconds=600)
    assert ends_at(MailClass.CODE, NOW, NOW) == NOW
    assert ends_at(MailClass.CONFIRMATION, None, NOW) is None
