"""Gates on a shelf keep the contract of those in a database, and die like them."""

from __future__ import annotations

import pytest

from reference_sender.policy.bucket import Rate
from reference_sender.policy.gate import Gate, GateRules
from scenarios.simulation.byteless.outbox import Outbox, Shelf
from tests.reference_sender.outbox.gate_contract import DOWN, GateContract, claim, hear
from tests.scenarios.simulation.byteless.test_outbox import ShelfBench


@pytest.fixture
def outbox() -> ShelfBench:
    return ShelfBench(Outbox(Shelf()))


class TestGatesOnAShelf(GateContract):
    """The contract of gates."""


def test_a_claim_that_breaks_off_leaves_the_tokens_where_they_were(
    outbox: ShelfBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows and tokens are one transaction."""
    outbox.put("a")
    gate = Gate(GateRules(rates=(("main", Rate(per_s=1.0, burst=1)),)))

    def dies(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr("scenarios.simulation.byteless.outbox.Transaction.write", dies)
        with pytest.raises(MemoryError):
            claim(outbox, gate)
    assert outbox.shelf.buckets == {}
    assert len(claim(outbox, gate)) == 1
    assert outbox.shelf.buckets["main"].tokens == 0


def test_a_copy_knows_what_was_known_and_learns_for_itself(outbox: ShelfBench) -> None:
    hear(outbox, DOWN)
    copy = outbox.shelf.copy()
    hear(outbox, DOWN)
    assert copy.gates["main"].breaker.in_a_row == 1
    assert outbox.shelf.gates["main"] != copy.gates["main"]
