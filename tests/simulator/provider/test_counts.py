"""What rules have counted, and that they count on after a restart as if there had been none."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.provider import counts
from simulator.provider.counts import Attempts, Counts
from simulator.provider.faults import ReplyWith
from simulator.provider.notes import Noted
from simulator.provider.provider import Provider, Setup
from simulator.provider.rule import Per, Rule, When
from tests.simulator.provider.mails import NOW, after, mail, planned, provider, rule, send
from tests.simulator.provider.test_provider import ACTIONS, RULES, Script, play


def counting(seed: int = 1, *, lasts: bool = True) -> Counts:
    return Counts("rule 1", random.Random(seed), NOW, lasts=lasts)


def restarted(it: Provider, setup: Setup) -> Provider:
    """Return a provider that has taken up what this one left behind."""
    it.settle()
    again = provider(setup)
    again.restore(it.records(), NOW)
    for account in again.accounts.values():
        account.recall_counts(account.aftermath.notes.all(counts.TOPIC))
        account.aftermath.notes.forget(counts.TOPIC)
    return again


# --- of one rule ------------------------------------------------------------------------------------


def test_only_what_changed_is_handed_out() -> None:
    it = counting()

    def news() -> set[str]:
        return {name for name, _ in it.news()}

    assert news() == {""}
    assert news() == set()
    it.meet()
    it.see("to:a@x")
    assert news() == {"", "/to:a@x"}
    it.stick("to:a@x")
    assert news() == {"!to:a@x"}
    it.planted_at = after(1)
    assert news() == {""}


def test_what_struck_must_not_wait_and_the_rest_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each mail would cost a record for each rule that let it pass."""
    monkeypatch.setattr(counts, "PATIENCE", 3)
    it, attempts = counting(), Attempts()
    list(it.news())

    def met() -> bool:
        it.meet()
        return it.is_urgent

    assert [met() for _ in range(3)] == [False, False, True]
    list(it.news())
    assert not met()
    it.fire("")
    assert it.is_urgent
    for number in range(3):
        assert not attempts.is_urgent
        attempts.count(f"mail {number}", "att_1", lasts=True)
    assert attempts.is_urgent


def test_a_kill_takes_away_only_what_was_let_pass() -> None:
    """Of a rule that lets two pass and strikes once: the two, or nothing."""
    setup = planned(rule(ReplyWith(code=503), ("http", "accept"), when=When(skip=2, times=1)))

    def killed(it: Provider) -> Provider:
        again = provider(setup)
        again.restore(it.records(), NOW)
        again.accounts["default"].recall_counts(again.accounts["default"].aftermath.notes.all(counts.TOPIC))
        return again

    def struck(it: Provider, mails: int) -> list[bool]:
        return [send(it, mail(dialect="native"))[1] is None for _ in range(mails)]

    first = provider(setup)
    first.records()
    assert struck(first, 2) == [False, False]
    second = killed(first)
    assert struck(second, 4) == [False, False, True, False]
    assert struck(killed(second), 4) == [False] * 4


def test_whom_nobody_will_know_again_is_not_remembered() -> None:
    """A connection does not outlive the process."""
    it = counting(lasts=False)
    it.see("c1")

    assert {name for name, _ in it.news()} == {""}
    assert list(it.names()) == [""]


def test_dice_fall_on_as_they_would_have() -> None:
    first, whole = counting(), counting()
    rolls = [whole.roll() for _ in range(10)]
    assert [first.roll() for _ in range(4)] == rolls[:4]
    first.meet()
    second = counting()
    for name, facts in first.news():
        assert facts is not None
        assert second.recall(name, facts)

    assert [second.roll() for _ in range(6)] == rolls[4:]


def test_counts_of_another_rule_are_left_alone() -> None:
    """Somebody has edited the plan in a way that nobody noticed."""
    (_, facts), *_ = Counts("another", random.Random(1), after(7), lasts=True).news()
    it = counting()

    assert facts is not None
    assert not it.recall("", facts)
    assert it.planted_at == NOW


@pytest.mark.parametrize("facts", ["", "7", "[]", '["rule 1"]', '["rule 1","never",1,1,1,1,1]', "nonsense"])
def test_damage_is_noticed(facts: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        counting().recall("", facts)
    with pytest.raises((ValueError, TypeError)):
        counting().recall("/to:a@x", facts)
    with pytest.raises((ValueError, TypeError)):
        Attempts().recall("mail to:a@x", f"x{facts}")


def forgotten(news: Iterator[tuple[str, str | None]]) -> set[str]:
    return {name for name, facts in news if facts is None}


def test_of_too_many_the_quietest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """And so it is remembered."""
    monkeypatch.setattr(counts, "MOST_SCOPES", 2)
    it, attempts = counting(), Attempts()
    for scope in ("a", "b", "a", "c"):
        it.see(scope)
        it.stick(scope)
        attempts.count(scope, f"att_{scope}", lasts=True)

    assert (it.seen_in("a"), it.seen_in("b"), it.seen_in("c")) == (2, 0, 1)
    assert (it.sticks_to("a"), it.sticks_to("b"), it.sticks_to("c")) == (True, False, True)
    assert forgotten(it.news()) == {"/b", "!b"}
    assert forgotten(attempts.news()) == {"a"}  # Its attempt was counted once.


# --- of a provider ----------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        RULES.flatmap(lambda rule: st.sampled_from([None, 2]).map(lambda nth: with_attempt(rule, nth))),
        max_size=4,
    ),
    ACTIONS,
    ACTIONS,
)
def test_a_restart_makes_no_difference_to_what_strikes(
    rules: list[Rule], before: Script, then: Script
) -> None:
    """Whatever counts, dice, windows of time and mails that a rule sticks to: they go on."""
    setup = planned(*(replace(rule, name=f"{rule.name}/{n}") for n, rule in enumerate(rules)))
    scripts = [[each for each in script if each[0] != "heal"] for script in (before, then)]
    lived = provider(setup)
    play(lived, scripts[0])
    again = restarted(lived, setup)
    for name in lived.accounts:
        again.account(name, NOW)  # One that was only named leaves nothing behind.
    struck = []
    for it in (lived, again):
        seen = {name: len(account.decisions) for name, account in it.accounts.items()}
        play(it, scripts[1])
        struck.append(
            {
                name: [
                    (each.stage, each.rules, each.answer, each.mail)
                    for each in account.decisions[seen.get(name, 0) :]
                ]
                for name, account in it.accounts.items()
            }
        )

    assert struck[0] == struck[1]
    for name in lived.accounts:
        assert lived.accounts[name].plan.tally(after(999)) == again.accounts[name].plan.tally(after(999))


def with_attempt(rule: Rule, nth: int | None) -> Rule:
    return replace(rule, when=replace(rule.when, attempt=nth))


def test_magic_addresses_go_on_too() -> None:
    """A first answer is lost once, not once more after each restart; another mailbox has its own."""
    it = provider()

    def answer(of: Provider, name: str) -> str:
        attempt, _ = send(of, mail(f"{name}@magic.test", dialect="native"))
        return attempt.answer

    assert answer(it, "lost-answer+1") == "hang up"
    again = restarted(it, Setup())
    assert answer(again, "lost-answer+1") == "accepted"
    assert answer(again, "lost-answer+2") == "hang up"


def test_another_plan_begins_anew_and_leaves_nothing_behind() -> None:
    """The same one, too, when somebody sets it again."""
    setup = planned(
        Rule(
            name="once",
            fault=ReplyWith(code=503),
            stages=frozenset({("http", "accept")}),
            when=When(times=1),
            per=Per.MAIL,
        )
    )
    it = provider(setup)
    send(it, mail(dialect="native"))
    names = {each.name for each in it.records() if isinstance(each, Noted)}
    it.set_up("default", setup, NOW)
    notes = [each for each in it.records() if isinstance(each, Noted)]

    assert len(names) == 2
    assert {each.name for each in notes if each.facts is None} == names
    assert [each.name for each in notes if each.facts is not None] == ["rule 0"]
    assert send(it, mail(dialect="native"))[1] is None


def test_without_rules_nothing_is_remembered() -> None:
    it = provider()
    send(it, mail())

    assert [each for each in it.records() if isinstance(each, Noted)] == []
