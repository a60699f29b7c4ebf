"""Greylisting: the triplet, the least delay, the whitelist, and a clock that is the account's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.provider import greylist
from simulator.provider.answer import Reason, Refused
from simulator.provider.greylist import Greylist, GreylistState
from simulator.provider.notes import Noted
from simulator.provider.provider import Detail, Provider, Setup
from simulator.provider.rule import Pattern
from tests.simulator.provider.mails import ANN, BOB, NOW, after

RULES = Greylist(delay_s=300, within_s=3_600, remember_s=7_200)


def meet(
    state: GreylistState,
    at_s: float,
    *,
    rules: Greylist = RULES,
    ip: str = "192.0.2.1",
    sender: str = ANN,
    to: str = BOB,
) -> float | None:
    return state.meet(rules, ip, sender, to, after(at_s))


def test_who_comes_back_after_the_delay_passes_from_then_on() -> None:
    state = GreylistState()

    assert meet(state, 0) == 300
    assert meet(state, 100) == 200
    assert meet(state, 299) == 1
    assert meet(state, 300) is None
    assert meet(state, 301) is None
    assert meet(state, 301 + 7_200) is None
    assert meet(state, 301 + 7_200 + 7_201) == 300


def test_coming_too_early_does_not_begin_the_delay_anew_and_coming_too_late_does() -> None:
    state = GreylistState()

    assert [meet(state, at_s) for at_s in (0, 200, 3_600)] == [300, 100, None]
    assert [meet(state, at_s, to="new@example.org") for at_s in (0, 3_601, 3_900, 3_901)] == [
        300,
        300,
        1,
        None,
    ]


@pytest.mark.parametrize(
    ("other", "new"),
    [
        ({"ip": "192.0.2.200"}, False),
        ({"ip": "192.0.3.1"}, True),
        ({"sender": ANN.upper()}, False),
        ({"sender": ""}, True),
        ({"to": "other@example.org"}, True),
    ],
    ids=str,
)
def test_a_triplet_is_network_sender_and_recipient(other: dict[str, str], new: bool) -> None:
    state = GreylistState()
    meet(state, 0)
    meet(state, 300)

    assert (meet(state, 301, **other) is not None) is new  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("somewhere", "somewhere", True),
    ],
)
def test_networks(one: str, other: str, same: bool) -> None:
    state = GreylistState()
    meet(state, 0, ip=one)

    assert (meet(state, 300, ip=other) is None) is same


def test_each_address_may_be_a_client_of_its_own() -> None:
    state = GreylistState()
    rules = replace(RULES, whole_network=False)
    meet(state, 0, rules=rules)

    assert meet(state, 300, rules=rules, ip="192.0.2.2") == 300


@pytest.mark.parametrize("listed", [ANN, "*@example.org", BOB, "192.0.2.1", "192.0.2.0/24"])
def test_who_is_on_the_whitelist_is_never_put_off(listed: str) -> None:
    rules = replace(RULES, whitelist=(Pattern("nobody@example.com"), Pattern("10.0.0.0/8"), Pattern(listed)))

    assert meet(GreylistState(), 0, rules=rules) is None
    assert meet(GreylistState(), 0, rules=replace(rules, whitelist=rules.whitelist[:2])) == 300


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest triplet goes first."""
    monkeypatch.setattr(greylist, "MOST_TRIPLETS", 3)
    state = GreylistState()
    for number in range(4):
        meet(state, number, to=f"{number}@example.org")

    assert meet(state, 310, to="0@example.org") == 300
    assert meet(state, 310, to="3@example.org") is None


# --- at the provider --------------------------------------------------------------------------------


def ask(it: Provider, at_s: float = 0.0, *, account: str = "default", to: str = BOB) -> object:
    """Come to RCPT; return the answer."""
    attempt = it.open("smtp", "192.0.2.1:2500", after(at_s), account=account)
    it.step(attempt, "mail", Detail(sender=ANN), after(at_s))
    answer = it.step(attempt, "rcpt", Detail(recipient=to), after(at_s))
    it.close(attempt, after(at_s))
    return answer


def put_off(answer: object) -> bool:
    return isinstance(answer, Refused) and answer.reason is Reason.GREYLISTED


def test_the_clock_is_the_accounts_and_so_is_the_list() -> None:
    it = Provider(setup=Setup(greylist=RULES), now=NOW)
    it.name("other", NOW)

    assert put_off(ask(it))
    assert put_off(ask(it, account="other"))
    it.advance("default", 300, NOW)
    assert ask(it) is None
    assert put_off(ask(it, account="other"))


def test_what_is_said_names_the_wait_and_the_log_names_the_greylist() -> None:
    it = Provider(setup=Setup(greylist=replace(RULES, code=450, enhanced="4.2.0", text="later")), now=NOW)
    answer = ask(it, 0.5)

    assert isinstance(answer, Refused)
    assert (answer.smtp, answer.detail) == ((450, "4.2.0"), "later")
    assert answer.retry_after is not None
    assert answer.retry_after.seconds == 300
    account = it.account("default", NOW)
    assert [(each.stage, each.rules) for each in account.decisions] == [("rcpt", ("greylist",))]
    assert [each.rules for each in account.attempts.values()] == [("greylist",)]


def test_nothing_is_told_where_nothing_is_to_be_told() -> None:
    it = Provider(setup=Setup(greylist=replace(RULES, tells=False)), now=NOW)
    answer = ask(it)

    assert isinstance(answer, Refused)
    assert answer.retry_after is None


def test_taking_the_rules_away_keeps_the_list_and_another_setting_begins_a_new_one() -> None:
    it = Provider(setup=Setup(greylist=RULES), now=NOW)
    ask(it)
    it.heal("default", NOW)
    assert ask(it, 300) is None
    it.set_up("default", Setup(greylist=replace(RULES, delay_s=10)), NOW)
    assert put_off(ask(it, 300))
    it.set_up("default", Setup(), NOW)
    assert ask(it, 300) is None


# --- over a restart ---------------------------------------------------------------------------------


def again(it: Provider, setup: Setup) -> Provider:
    """Return a provider that knows what a store would have kept of this one: the newest note of each name."""
    known = Provider(setup=setup, now=NOW)
    notes = {(each.topic, each.name): each for each in it.records() if isinstance(each, Noted)}
    known.restore(list(notes.values()), NOW)
    return known


def at_rcpt(it: Provider, at_s: float) -> bool:
    """Come once; tell whether the recipient was taken."""
    attempt = it.open("smtp", "192.0.2.1:9", after(at_s))
    it.step(attempt, "mail", Detail(sender=ANN), after(at_s))
    return it.step(attempt, "rcpt", Detail(recipient=BOB), after(at_s)) is None


def test_a_restart_forgets_nobody() -> None:
    """Neither who waits nor who has passed."""
    setup = Setup(greylist=RULES)
    it = Provider(setup=setup, now=NOW)
    assert not at_rcpt(it, 0)
    it = again(it, setup)
    assert not at_rcpt(it, 200)
    assert at_rcpt(it, 300)
    it = again(it, setup)
    assert at_rcpt(it, 301)
    assert at_rcpt(again(it, setup), 302)
    assert not at_rcpt(again(it, setup), 302 + 7_201)


def test_a_setup_that_is_taken_up_again_takes_its_list_up() -> None:
    """One that was set over the control API stands in no file."""
    setup = Setup(greylist=RULES)
    it = Provider(now=NOW)
    it.set_up("default", setup, NOW)
    assert not at_rcpt(it, 0)
    it = again(it, Setup())
    it.take_up_setup("default", setup, NOW, NOW)

    assert at_rcpt(it, 300)


def test_another_setting_forgets_the_list_for_good() -> None:
    it = Provider(setup=Setup(greylist=RULES), now=NOW)
    assert not at_rcpt(it, 0)
    it.set_up("default", Setup(greylist=replace(RULES, delay_s=301)), NOW)

    assert not at_rcpt(again(it, Setup(greylist=RULES)), 300)


def test_one_that_passes_often_is_written_down_once_an_hour() -> None:
    """Where it is remembered for weeks."""
    state, rules = GreylistState(), replace(RULES, remember_s=3_110_400.0)
    for at_s in (0, 300):
        meet(state, at_s, rules=rules)
    assert len(state.news()) == 1

    assert [bool(meet(state, at_s, rules=rules) or state.news()) for at_s in (301, 3_599, 3_601, 3_602)] == [
        False,
        False,
        True,
        False,
    ]
