"""The soak's eyes: what was promised and is not so is seen."""

from __future__ import annotations

from pathlib import Path

from simulator.store.sqlite import SqliteStore
from tests.benchmarks.servers.soaked import Told, compare
from tests.simulator.store.records import booked


def test_what_is_not_as_senders_were_told_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "soak.db"
    store = SqliteStore(path)
    names = ["<kept@x>", "<unanswered@x>", "<twice@x>", "<twice@x>", "<renamed@x>", "<nobodys@x>"]
    store.append(
        [booked(number, id=f"msg_{number}", message_id=name) for number, name in enumerate(names, 1)]
    )
    store.close()
    told = Told(ids={"<unanswered@x>": None, "<never taken@x>": None})
    for name, id_ in (("kept", 1), ("twice", 4), ("renamed", 99), ("lost", 7)):
        told.yes(f"<{name}@x>", f"msg_{id_}")

    assert compare(path, told) == {
        "in the ledger": 6,
        "of those, never answered": 1,
        "answered, and not there": 1,
        "there more than once": 1,
        "there under another id": 1,
        "of nobody": 1,
    }
