"""Tests of targets: where webhooks may go, and the sentence about where they may not."""

from __future__ import annotations

import pytest

from simulator.provider.webhooks import (
    STANDARD_SCHEDULE_S,
    Reach,
    TargetError,
    WebhookRules,
    check_address,
    check_target,
)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/hooks",
        "http://localhost/hooks?token=1",
        "https://[::1]:8443/",
        "http://127.9.9.9",
        "http://app:3000/hooks",  # Where a name leads is seen when it is looked up.
        "http://[::ffff:127.0.0.1]/",
    ],
)
def test_a_target_on_this_machine_is_allowed(url: str) -> None:
    check_target(url, Reach.LOOPBACK)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("file:///etc/passwd", "scheme 'file'"),
        ("ftp://127.0.0.1/", "scheme 'ftp'"),
        ("gopher://127.0.0.1/", "only http and https"),
        ("javascript:alert(1)", "scheme 'javascript'"),
        ("127.0.0.1:8000/hooks", "scheme"),
        ("//127.0.0.1/", "scheme 'none'"),
        ("", "scheme 'none'"),
        ("http://user:secret@127.0.0.1/", "user or a password"),
        ("http://user@127.0.0.1/", "user or a password"),
        ("http://@127.0.0.1/", "user or a password"),
        ("http:///hooks", "names no host"),
        ("http://127.0.0.1:0/", "names no host"),
        ("http://127.0.0.1:99999/", "cannot be read"),
        ("http://[::1/", "cannot be read"),
        ("http://127.0.0.1/#top", "fragment"),
        ("http://127.0.0.1/a b", "characters"),
        ("http://127.0.0.1/\r\nX: y", "characters"),
        ("http://grüße.example/", "characters"),
        ("http://10.0.0.1/", "--webhook-hosts private"),
        ("http://192.168.1.1/", "--webhook-hosts private"),
        ("http://[fd00::1]/", "--webhook-hosts private"),
        ("http://169.254.169.254/latest/meta-data", "--webhook-hosts any"),
        ("http://0.0.0.0/", "--webhook-hosts any"),
        ("http://8.8.8.8/", "--webhook-hosts any"),
        ("http://[::ffff:10.0.0.1]/", "--webhook-hosts private"),
    ],
)
def test_a_target_that_is_not_allowed_is_one_sentence(url: str, says: str) -> None:
    """Which says what would be right, and shows no password."""
    with pytest.raises(TargetError) as caught:
        check_target(url, Reach.LOOPBACK)

    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_how_far_they_may_go_is_a_setting() -> None:
    for text in ("10.0.0.1", "172.16.5.4", "192.168.0.9", "fd12::7", "127.0.0.1"):
        check_address(text, Reach.PRIVATE)
    for text in ("169.254.169.254", "8.8.8.8", "fe80::1%eth0", "224.0.0.1", "::"):
        check_address(text, Reach.ANY)
        with pytest.raises(TargetError):
            check_address(text, Reach.PRIVATE)


def test_the_usual_schedule_is_the_recommended_one() -> None:
    """Nine times in about three days."""
    assert WebhookRules().schedule_s == STANDARD_SCHEDULE_S
    assert len(STANDARD_SCHEDULE_S) == 9
    assert list(STANDARD_SCHEDULE_S) == sorted(STANDARD_SCHEDULE_S)


@pytest.mark.parametrize(
    ("events", "type_", "wanted"),
    [
        ((), "email.opened", True),
        (("email.bounced", "*.opened"), "email.opened", True),
        (("email.bounced",), "email.opened", False),
        (("EMAIL.OPENED",), "email.opened", False),
    ],
)
def test_the_types_that_are_wanted_are_told(events: tuple[str, ...], type_: str, wanted: bool) -> None:
    """All, if none is named."""
    assert WebhookRules(events=events).wants(type_) is wanted
