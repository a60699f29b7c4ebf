"""Evidence and outcomes are plain values."""

from __future__ import annotations

import dataclasses

import pytest

from reference_sender.policy.evidence import Accepted, Evidence, Phase, Refused, TryLater, Unknown, Wire


@pytest.mark.parametrize("kind", [Evidence, Accepted, TryLater, Refused, Unknown])
def test_a_value_cannot_be_changed(kind: type) -> None:
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert not hasattr(kind, "__dict__") or "__slots__" in kind.__dict__


def test_evidence_without_a_reply_has_no_code() -> None:
    evidence = Evidence(wire=Wire.HTTP, phase=Phase.SENT, trouble="timeout")
    assert evidence.code is None
    assert dataclasses.replace(evidence, code=200).code == 200


def test_the_phases_are_in_the_order_of_an_attempt() -> None:
    order = list(Phase)
    assert (order[0], order[-1]) == (Phase.CONNECT, Phase.SENT)
    assert order.index(Phase.BODY) == len(order) - 2
