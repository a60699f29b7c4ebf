"""Which mails go together, and how a refused request is taken apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reference_sender.policy.batches import apart, is_about_one, together
from reference_sender.policy.evidence import Accepted, Refused, TryLater, Unknown
from tests.reference_sender.samples import NOW, parcel


def numbers(groups: object) -> list[list[int]]:
    return [[each.id for each in group] for group in groups]  # type: ignore[attr-defined] # groups of parcels


#: More than all mails here have together.
AMPLE = 1_000_000


def test_mails_of_one_class_go_together_in_their_order() -> None:
    parcels = [parcel(id=n, mail_class="notice" if n % 2 else "newsletter") for n in range(6)]
    assert numbers(together(parcels, 2, AMPLE)) == [[0, 2], [1, 3], [4], [5]]


def test_what_may_be_about_one_mail_is_looked_for_and_what_is_about_the_provider_is_not() -> None:
    assert is_about_one(Refused(reason="no such address"))
    assert is_about_one(Unknown(reason="the key is known", futile=True))
    assert not is_about_one(Unknown(reason="silence"))
    assert not is_about_one(TryLater(reason="down", channel=True))
    assert not is_about_one(Accepted(reason="yes", provider_id="m1"))


def test_a_mail_in_doubt_goes_alone() -> None:
    parcels = [parcel(id=1), parcel(id=2, doubted_at=NOW), parcel(id=3)]
    assert numbers(together(parcels, 10, AMPLE)) == [[1, 3], [2]]


def test_a_request_does_not_grow_beyond_its_size() -> None:
    parcels = [parcel(id=n, raw=b"x" * 501) for n in range(3)]
    assert numbers(together(parcels, 10, 1_000)) == [[0], [1], [2]]
    assert numbers(together(parcels, 10, 1_002)) == [[0, 1], [2]]
    assert numbers(together(parcels, 10, 1)) == [[0], [1], [2]], "one alone goes, however large it is"


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=30), st.integers(1, 7))
def test_everybody_is_in_exactly_one_request(classes: list[str], most: int) -> None:
    parcels = [parcel(id=n, mail_class=kind) for n, kind in enumerate(classes)]
    groups = together(parcels, most, AMPLE)
    assert sorted(each.id for group in groups for each in group) == list(range(len(classes)))
    assert all(1 <= len(group) <= most for group in groups)
    assert all(len({each.mail_class for each in group}) == 1 for group in groups)


def test_the_bad_one_that_was_named_is_taken_out() -> None:
    assert numbers(apart([parcel(id=n) for n in range(4)], 1)) == [[0, 2, 3], [1]]


@given(st.integers(2, 40), st.integers(0, 39))
def test_halves_find_any_bad_one(count: int, bad: int) -> None:
    """Whoever cuts what is refused in two ends with the bad one alone, in few requests."""
    bad %= count
    todo, requests, refused = [tuple(parcel(id=n) for n in range(count))], 0, []
    while todo:
        part = todo.pop()
        requests += 1
        if any(each.id == bad for each in part):
            if len(part) == 1:
                refused.append(part[0].id)
            else:
                todo += apart(part, None)
    assert refused == [bad]
    assert requests <= 2 * count.bit_length() + 1
