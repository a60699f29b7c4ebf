"""Resealing is tested with what it seals, in `test_sealed`; here: that it needs something to seal with."""

from __future__ import annotations

from pathlib import Path

import pytest

from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.store import Store


def test_who_has_no_key_has_nothing_to_seal_with(tmp_path: Path) -> None:
    store = Store(open_engine(f"sqlite:///{tmp_path / 'outbox.db'}"))
    with pytest.raises(AssertionError, match="nothing to seal with"):
        store.reseal_mails(after=0, limit=1)
    store.engine.dispose()
