"""Which store a name means."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.provider.retention import Retention
from simulator.store import Durability, StoreError
from simulator.store.memory import MemoryStore
from simulator.store.opening import about, open_store
from simulator.store.sqlite import SqliteStore
from tests.simulator.store.records import at, booked


def test_a_path_is_a_sqlite_file(tmp_path: Path) -> None:
    """With what was asked of it."""
    store = open_store(
        str(tmp_path / "x.db"), now=lambda: at(0), durability=Durability.POWER, retention=Retention(count=1)
    )

    assert isinstance(store, SqliteStore)
    assert store.durability is Durability.POWER
    store.append([booked(1), booked(2)])
    assert [each.number for each in store.messages("default").found] == [2]
    store.close()


def test_memory_is_memory() -> None:
    store = open_store("memory", now=lambda: at(0), retention=Retention(count=1))

    assert isinstance(store, MemoryStore)
    store.append([booked(1), booked(2)])
    assert store.mails() == 1


@pytest.mark.parametrize(
    ("name", "durability", "says"),
    [
        ("memory", Durability.POWER, "survives no power cut; name a file"),
        (
            "mysql://root@localhost/x",
            Durability.PROCESS,
            r"begins with mysql://; it must be memory, the path",
        ),
        ("postgresql://nobody@127.0.0.1:1/none", Durability.PROCESS, "cannot be reached"),
    ],
)
def test_what_cannot_be_is_one_sentence(name: str, durability: Durability, says: str) -> None:
    with pytest.raises(StoreError, match=says):
        open_store(name, now=lambda: at(0), durability=durability)


def test_what_people_want_to_know_of_a_ledger_is_one_line(tmp_path: Path) -> None:
    """What a yes survives above all."""
    path = tmp_path / "x.db"
    bounds = Retention(age_s=7 * 86_400, count=1000, bytes=5)
    assert (
        about(MemoryStore(), Retention(age_s=90)) == "memory (forgotten at the end; durable: no; kept: 90 s)"
    )
    for durability, survives in ((Durability.PROCESS, "kill -9"), (Durability.POWER, "a power cut")):
        store = open_store(str(path), now=lambda: at(0), durability=durability)
        store.append([booked(1)])
        assert about(store, bounds) == (
            f"{path} (1 mail from before; durable: every yes survives {survives};"
            " kept: 7 days, 1000 mails, 5 bytes)"
        )
        store.close()
