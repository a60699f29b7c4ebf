"""The faults of both wires: what each says beyond its one answer."""

from __future__ import annotations

from simulator.provider.faults import RefuseRecipients


def test_refused_recipients_are_refused_by_name() -> None:
    refused = RefuseRecipients(code=452, enhanced="4.2.2", text="full").refuse("a@x")

    assert (refused.recipient, refused.code, refused.enhanced, refused.text) == ("a@x", 452, "4.2.2", "full")
