"""Which mail is whose: by rules, by who is shut, and never by either once there is doubt."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from reference_sender.policy.routes import Route, domain_of, share

PROVIDERS = ("main", "bulk", "spare")
ROUTES = (
    Route(to=("bulk", "spare"), classes=("newsletter",)),
    Route(to=("spare",), senders=("@news.example.org", "boss@example.org")),
    Route(to=("bulk",), domains=("gmail.com",)),
    Route(to=("main", "spare"), classes=("code",)),
)


def owners(shut: tuple[str, ...] = (), **mail: Any) -> list[str]:
    facts = {
        "mail_class": "confirmation",
        "sender": "shop@example.org",
        "recipient": "ann@example.com",
        "provider": None,
        "doubted": False,
    } | mail
    return [each for each in PROVIDERS if share(each, PROVIDERS, ROUTES, shut).takes(**facts)]


@pytest.mark.parametrize(
    ("mail", "shut", "expected"),
    [
        ({}, (), "main"),
        ({"mail_class": "newsletter"}, (), "bulk"),
        ({"mail_class": "newsletter"}, ("bulk",), "spare"),
        ({"mail_class": "newsletter"}, ("bulk", "spare"), "bulk"),
        ({"sender": "x@news.example.org"}, (), "spare"),
        ({"sender": "BOSS@example.org"}, (), "spare"),
        ({"recipient": "ann@GMAIL.com"}, (), "bulk"),
        ({"mail_class": "newsletter", "recipient": "ann@gmail.com"}, ("bulk",), "spare"),
        ({"mail_class": "code"}, ("main",), "spare"),
        # What no rule is about has nobody to stand in: it waits.
        ({}, ("main",), "main"),
        # In doubt it stays where it may have been taken, whoever is shut.
        ({"mail_class": "code", "provider": "main", "doubted": True}, ("main",), "main"),
        ({"mail_class": "code", "provider": "spare", "doubted": True}, (), "spare"),
        ({"mail_class": "newsletter", "provider": None, "doubted": True}, (), "main"),
        # Refused for now and without doubt it may go elsewhere.
        ({"mail_class": "code", "provider": "main"}, ("main",), "spare"),
    ],
)
def test_a_mail_has_one_provider(mail: dict[str, Any], shut: tuple[str, ...], expected: str) -> None:
    assert owners(shut, **mail) == [expected]


def test_whoever_is_shut_every_mail_is_somebodys_and_nobody_shares_one() -> None:
    mails = itertools.product(
        ("code", "newsletter", "notice"), ("shop@example.org", "x@news.example.org"), ("a@gmail.com", "a@b.c")
    )
    for (mail_class, sender, recipient), count in itertools.product(mails, range(4)):
        for shut in itertools.combinations(PROVIDERS, count):
            assert len(owners(shut, mail_class=mail_class, sender=sender, recipient=recipient)) == 1


def test_a_doubt_at_a_provider_that_is_gone_is_nobodys() -> None:
    """To ask another one would get a "not found" that proves nothing."""
    assert owners(provider="sold", doubted=True) == []


def test_with_one_provider_everything_is_its_own_but_the_doubts_of_another() -> None:
    alone = share("main", ("main",), (), ("main",))
    mail = {"mail_class": "notice", "sender": "a@b.c", "recipient": "d@e.f"}
    assert alone.takes(**mail, provider="sold", doubted=False)
    assert alone.takes(**mail, provider=None, doubted=True)
    assert not alone.takes(**mail, provider="sold", doubted=True)


def test_a_domain_is_what_stands_behind_the_last_at() -> None:
    assert domain_of('"a@b"@Example.COM') == "example.com"
