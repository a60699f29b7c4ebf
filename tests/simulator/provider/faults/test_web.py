"""The faults that only HTTP has: where they can strike follows from whether they are true."""

from __future__ import annotations

import pytest

from simulator.provider.answer import Reply, RetryAfter, RetryAfterKind
from simulator.provider.faults import FAULTS
from simulator.provider.faults.web import GatewayGivesUp, Redirect

TRUE = ("gzip", "chunked", "interim")


@pytest.mark.parametrize("name", TRUE)
def test_forms_of_a_true_answer_strike_where_there_is_one(name: str) -> None:
    """Before booking they would have to invent the answer that they dress up."""
    assert FAULTS[name].stages == {"http": ("reply", "lookup")}


@pytest.mark.parametrize("code", [502, 503, 504, 599])
def test_a_gateway_speaks_html(code: int) -> None:
    later = RetryAfter(kind=RetryAfterKind.ZERO)
    answer = GatewayGivesUp(code=code, retry_after=later).answer()

    assert isinstance(answer, Reply)
    assert (answer.code, answer.retry_after) == (code, later)
    assert (answer.body or "").startswith("<html>")
    assert str(code) in (answer.body or "")


def test_a_redirect_says_where() -> None:
    assert Redirect(code=301, location="http://other.example/x").answer() == Reply(
        code=301, headers=(("Location", "http://other.example/x"),)
    )
