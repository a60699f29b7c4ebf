"""A claim's way through a gate, at a place that remembers what it was asked."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from reference_sender.outbox.passage import Found, Wanted, pass_through
from reference_sender.policy.breaker import Breaker, Position
from reference_sender.policy.bucket import Bucket, Rate, full
from reference_sender.policy.gate import NOTHING_KNOWN, Gate, GateRules, Shared
from tests.reference_sender.samples import NOW


class Place:
    """As many rows as anybody wants; everything that was asked, in order."""

    def __init__(self, shared: Shared | None = None) -> None:
        self.shared = shared
        self.said: list[str] = []
        self.number = 0

    def known(self) -> dict[str, Shared]:
        self.said.append("known")
        return {} if self.shared is None else {"main": self.shared}

    def locked(self, provider: str) -> Shared:
        self.said.append(f"locked {provider}")
        return self.shared or NOTHING_KNOWN

    def keep(self, provider: str, shared: Shared) -> None:
        self.said.append(f"keep {provider}")
        self.shared = shared

    def bucket(self, name: str, rate: Rate) -> Bucket:
        self.said.append(f"bucket {name}")
        return full(rate, NOW)

    def fill(self, name: str, bucket: Bucket) -> None:
        self.said.append(f"fill {name} {bucket.tokens:g}")

    def under_way(self) -> list[tuple[str, str | None]]:
        self.said.append("under way")
        return []

    def has_suspects(self) -> bool:
        return False

    def sees(self, wanted: Wanted) -> bool:
        raise AssertionError("there are none")

    def find(self, wanted: Wanted) -> list[Found]:
        self.said.append(f"find {'lost' if wanted.lost else 'due'} {wanted.most}")
        if wanted.lost:
            return []
        self.number += wanted.most
        rows = range(self.number - wanted.most, self.number)
        return [Found(id=n, token=1, recipient="a@b.c", priority=wanted.from_priority or 0) for n in rows]


def test_in_good_times_nothing_is_locked_and_nothing_is_written() -> None:
    place, gate = Place(), Gate(GateRules())
    lost, due = pass_through(place, gate, room=3, bulk=3, now=NOW)
    assert (lost, [each.id for each in due]) == ([], [0, 1, 2])
    assert place.said == ["known", "find lost 3", "find due 3"]


def test_what_is_counted_is_locked_first_and_buckets_in_one_order() -> None:
    rates = (("z", Rate(per_s=1.0, burst=9)), ("a", Rate(per_s=1.0, burst=2)))
    place, gate = Place(), Gate(GateRules(in_flight=5, rates=rates))
    assert len(pass_through(place, gate, room=3, bulk=3, now=NOW)[1]) == 2
    assert place.said == [
        *("known", "locked main", "bucket a", "bucket z", "under way", "find lost 2", "find due 2"),
        *("fill a 0", "fill z 7"),
    ]


def test_where_nothing_may_pass_nothing_is_looked_for() -> None:
    place = Place(replace(NOTHING_KNOWN, paused_until=NOW + timedelta(seconds=5)))
    assert pass_through(place, Gate(GateRules()), room=3, bulk=3, now=NOW) == ([], [])
    assert place.said == ["known"]


def test_a_probe_is_written_down_with_its_claim() -> None:
    opened = Breaker(position=Position.OPEN, until=NOW, trips=1)
    place, gate = Place(replace(NOTHING_KNOWN, breaker=opened)), Gate(GateRules())
    assert len(pass_through(place, gate, room=3, bulk=3, now=NOW)[1]) == 1
    assert place.said[-1] == "keep main"
    assert gate.seen.breaker.position is Position.HALF_OPEN
    assert gate.seen.breaker.probes == 1


def test_urgent_rows_are_found_first_and_bulk_up_to_its_share() -> None:
    place, gate = Place(), Gate(GateRules())
    _, due = pass_through(place, gate, room=3, bulk=1, now=NOW)
    assert [each.priority for each in due] == [50, 50, 50]
    assert place.said[-1] == "find due 3"
