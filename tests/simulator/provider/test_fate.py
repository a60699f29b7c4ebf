"""Tests of fates: what becomes of a mail, when, and in which words."""

from __future__ import annotations

import random

import pytest

from simulator.provider.fate import (
    CATEGORIES,
    SCRIPTS,
    SUPPRESSES,
    BounceKind,
    Destiny,
    Fate,
    Happening,
    MtaReply,
    category_of,
    suppressed,
    timeline,
)


@pytest.mark.parametrize("fate", Fate)
def test_every_fate_begins_with_the_acceptance_and_goes_forward(fate: Fate) -> None:
    """Time never runs backwards on a timeline, and only a dropped mail is never heard of again."""
    steps = timeline(Destiny(fate=fate), random.Random(1))

    assert steps[0].happening is Happening.ACCEPTED
    assert steps[0].after_s == 0
    assert [step.happening for step in steps[1:]] == [happening for happening, _ in SCRIPTS[fate]]
    assert [step.after_s for step in steps] == sorted(step.after_s for step in steps)
    assert (len(steps) == 1) is (fate is Fate.DROPPED)


def test_the_same_dice_give_the_same_times_and_others_give_others() -> None:
    """Chance is an argument."""
    first, same, other = (
        timeline(Destiny(fate=Fate.CLICKED), random.Random(seed)) for seed in ("a", "a", "b")
    )

    assert first == same
    assert [step.after_s for step in first] != [step.after_s for step in other]


@pytest.mark.parametrize("after_s", [0.0, 0.25, 7.0, 86_400.0])
def test_a_given_time_is_kept_exactly(after_s: float) -> None:
    """The last step comes when the rule says; those before move along, and none comes after it."""
    steps = timeline(Destiny(fate=Fate.COMPLAINT, after_s=after_s), random.Random(1))

    assert steps[-1].after_s == after_s
    assert 0 <= steps[1].after_s <= after_s


def test_a_bounce_tells_what_the_server_said_and_what_that_means() -> None:
    """Without words of the rule the usual ones are said."""
    *_, hard = timeline(Destiny(fate=Fate.HARD_BOUNCE), random.Random(1))
    *_, soft = timeline(Destiny(fate=Fate.SOFT_BOUNCE), random.Random(1))

    assert (hard.bounce, str(hard.reply), hard.category) == (
        BounceKind.HARD,
        "550 5.1.1 no such user here",
        "invalid_recipient",
    )
    assert (soft.bounce, str(soft.reply), soft.category) == (
        BounceKind.SOFT,
        "452 4.2.2 mailbox full",
        "mailbox_full",
    )


@pytest.mark.parametrize(
    ("destiny", "reply", "category"),
    [
        (
            Destiny(fate=Fate.HARD_BOUNCE, code=554, enhanced="5.7.1", text="spam"),
            MtaReply(code=554, enhanced="5.7.1", text="spam"),
            "policy",
        ),
        (
            Destiny(fate=Fate.HARD_BOUNCE, code=552),
            MtaReply(code=552, enhanced="5.0.0", text="no such user here"),
            "other",
        ),
        (
            Destiny(fate=Fate.HARD_BOUNCE, category="content"),
            MtaReply(code=550, enhanced="5.1.1", text="no such user here"),
            "content",
        ),
    ],
)
def test_a_rule_may_give_its_own_words(destiny: Destiny, reply: MtaReply, category: str) -> None:
    """An enhanced code of another class than the code would contradict it."""
    *_, last = timeline(destiny, random.Random(1))

    assert (last.reply, last.category) == (reply, category)


@pytest.mark.parametrize("fate", Fate)
def test_only_a_fulfilled_fate_suppresses(fate: Fate) -> None:
    """A complaint suppresses when it comes, not when the mail is delivered; magic addresses never do."""
    steps = timeline(Destiny(fate=fate), random.Random(1))
    spared = timeline(Destiny(fate=fate, suppresses=False), random.Random(1))

    assert [step.suppressing for step in steps[:-1]] == [None] * (len(steps) - 1)
    assert steps[-1].suppressing == SUPPRESSES.get(fate)
    assert {step.suppressing for step in spared} == {None}


def test_a_suppressed_mail_says_why() -> None:
    *_, last = timeline(suppressed("hard_bounce"), random.Random(1))

    assert (last.happening, last.category, last.reason, last.reply) == (
        Happening.SUPPRESSED,
        "suppressed",
        "hard_bounce",
        None,
    )


@pytest.mark.parametrize(
    ("enhanced", "category"),
    [
        ("5.1.1", "invalid_recipient"),
        ("5.1.10", "invalid_recipient"),
        ("4.2.2", "mailbox_full"),
        ("5.4.4", "unreachable"),
        ("4.4.7", "expired"),
        ("5.7.26", "policy"),
        ("5.0.0", "other"),
        ("5.5.1", "other"),
    ],
)
def test_categories_follow_the_registry_of_enhanced_codes(enhanced: str, category: str) -> None:
    assert category_of(enhanced) == category
    assert category in CATEGORIES
