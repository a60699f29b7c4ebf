"""What facts mean together: the heaviest counts, in whatever order they came."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_sender.events.kinds import MEANING, Happened, Kind, bounce_by_reply, standing
from tests.reference_sender.samples import NOW


def test_every_kind_has_its_own_weight_and_a_reason() -> None:
    assert set(MEANING) == set(Kind)
    assert len({each.weight for each in MEANING.values()}) == len(Kind)
    assert all(each.why for each in MEANING.values())


def test_only_hard_bounces_and_complaints_suppress() -> None:
    assert {Kind.HARD_BOUNCE, Kind.COMPLAINT} == {kind for kind in Kind if MEANING[kind].suppresses}


@given(facts=st.lists(st.sampled_from(Kind), max_size=8), seed=st.randoms(use_true_random=False))
def test_order_and_repetition_change_nothing(facts: list[Kind], seed: object) -> None:
    shuffled = [*facts, *facts]
    seed.shuffle(shuffled)  # type: ignore[attr-defined] # a random.Random, as the strategy says
    assert standing(shuffled) is standing(facts)


@given(facts=st.lists(st.sampled_from(Kind), min_size=1), more=st.sampled_from(Kind))
def test_news_never_makes_it_better(facts: list[Kind], more: Kind) -> None:
    before, after = standing(facts), standing([*facts, more])
    assert before is not None
    assert after is not None
    assert MEANING[after].weight >= MEANING[before].weight


@pytest.mark.parametrize(
    ("facts", "stands"),
    [
        ([], None),
        ([Kind.DELIVERED, Kind.QUEUED], Kind.DELIVERED),
        ([Kind.HARD_BOUNCE, Kind.DELIVERED], Kind.HARD_BOUNCE),
        ([Kind.SOFT_BOUNCE, Kind.DELIVERED], Kind.DELIVERED),
        ([Kind.DEFERRED, Kind.SOFT_BOUNCE, Kind.DEFERRED], Kind.SOFT_BOUNCE),
        ([Kind.COMPLAINT, Kind.DELIVERED, Kind.OPENED], Kind.COMPLAINT),
    ],
)
def test_where_a_mail_stands(facts: list[Kind], stands: Kind | None) -> None:
    for order in itertools.permutations(facts):
        assert standing(order) is stands


@pytest.mark.parametrize(
    ("code", "enhanced", "kind"),
    [
        (550, "5.1.1", Kind.HARD_BOUNCE),
        (550, "5.2.1", Kind.HARD_BOUNCE),
        (None, "5.1.10", Kind.HARD_BOUNCE),
        (552, "5.2.2", Kind.SOFT_BOUNCE),
        (550, "5.7.1", Kind.SOFT_BOUNCE),
        (452, "5.1.1", Kind.SOFT_BOUNCE),
        (None, "4.1.1", Kind.SOFT_BOUNCE),
        (550, None, Kind.SOFT_BOUNCE),
        (None, None, Kind.SOFT_BOUNCE),
        (None, "nonsense", Kind.SOFT_BOUNCE),
    ],
)
def test_a_bounce_is_hard_only_if_the_address_is_wrong(
    code: int | None, enhanced: str | None, kind: Kind
) -> None:
    assert bounce_by_reply(code, enhanced) is kind


def test_a_recipient_alone_names_no_mail() -> None:
    assert not Happened(kind=Kind.COMPLAINT, at=NOW, recipient="a@b").names_a_mail
    assert Happened(kind=Kind.COMPLAINT, at=NOW, key="k").names_a_mail
