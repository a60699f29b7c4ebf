"""Resealing is tested with what it seals, in `test_sealed`; here: that it needs something to seal with."""

from __future__ import annotations

import pytest

from reference_sender.outbox.store import Store


def test_who_has_no_key_has_nothing_to_seal_with(store: Store) -> None:
    with pytest.raises(AssertionError, match="nothing to seal with"):
        store.reseal_mails(after=0, limit=1)
