"""No domain gets more than it may, and what may go does not wait behind what may not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reference_sender.policy.domains import ANY, choose, count, full, most_of


def test_a_full_domain_is_passed_over() -> None:
    candidates = [(1, "slow.test"), (2, "slow.test"), (3, "a.test"), (4, "slow.test"), (5, "b.test")]
    choice = choose(candidates, {"slow.test": 1}, {"slow.test": 2}, most=3)
    assert choice.ids == (1, 3, 5)
    assert choice.full == {"slow.test"}


def test_a_domain_without_a_limit_of_its_own_has_the_one_of_all() -> None:
    limits = {ANY: 1, "big.test": 5}
    assert (most_of("any.test", limits), most_of("big.test", limits), most_of("any.test", {})) == (1, 5, None)
    assert full({"any.test": 1, "big.test": 4}, limits) == {"any.test"}


@given(
    st.lists(st.sampled_from("abc"), max_size=30),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 5)),
    st.dictionaries(st.sampled_from(["a", "b", ANY]), st.integers(1, 5)),
    st.integers(0, 20),
)
def test_limits_hold_and_nobody_is_left_out_without_reason(
    domains: list[str], under_way: dict[str, int], limits: dict[str, int], most: int
) -> None:
    choice = choose(list(enumerate(domains)), under_way, limits, most=most)
    then = count([domains[n] for n in choice.ids])
    for domain, more in then.items():
        limit = most_of(domain, limits)
        assert limit is None or under_way.get(domain, 0) + more <= limit
    assert list(choice.ids) == sorted(choice.ids)
    if len(choice.ids) < most:
        assert all(n in choice.ids or domains[n] in choice.full for n in range(len(domains)))
