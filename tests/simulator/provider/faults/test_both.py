"""The faults of both wires: what each says beyond its one answer."""

from __future__ import annotations

import pytest

from simulator.provider.faults import FAULTS, RefuseRecipients


def test_refused_recipients_are_refused_by_name() -> None:
    refused = RefuseRecipients(code=452, enhanced="4.2.2", text="full").refuse("a@x")

    assert (refused.recipient, refused.code, refused.enhanced, refused.text) == ("a@x", 452, "4.2.2", "full")


@pytest.mark.parametrize("name", ["drip", "two_answers"])
def test_forms_of_a_true_answer_strike_where_there_is_one(name: str) -> None:
    """Before booking they would have to invent the answer that they dress up."""
    assert FAULTS[name].stages["http"] == ("reply", "lookup")
    assert not {"message", "body", "idle"} & set(FAULTS[name].stages["smtp"])
