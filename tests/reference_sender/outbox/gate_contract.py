"""What every outbox must do about gates, whatever it stands on: one suite, to be run on each of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from reference_sender.life import Parcel, State
from reference_sender.policy.breaker import BreakerRules, Position
from reference_sender.policy.bucket import Rate
from reference_sender.policy.classify import classify
from reference_sender.policy.decision import Decision, Doubt
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.policy.gate import NOTHING_KNOWN, Gate, GateRules, Shared
from reference_sender.policy.routes import Mine, Route
from tests.reference_sender.outbox.contract import Bench
from tests.reference_sender.samples import MAIL, NOW

YES = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=200, provider_id="m1")
DOWN = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=503)
FAST = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=429, retry_after="30")

RULES = GateRules(breaker=BreakerRules(failures=2, pause_s=10, probes=1, probe_s=60))
TWO = ("main", "spare")
BOTH = (Route(to=TWO),)


def at(seconds: float) -> Any:
    return NOW + timedelta(seconds=seconds)


def claim(outbox: Bench, gate: Gate, at_s: float = 0.0, *, limit: int = 10, **more: Any) -> list[Parcel]:
    given: dict[str, Any] = {"lease_s": 60.0, "dedupes": True} | more
    return outbox.store.claim(now=at(at_s), limit=limit, gate=gate, **given)


def hear(outbox: Bench, seen: Evidence | None, at_s: float = 0.0, rules: GateRules = RULES) -> Shared:
    outcome = None if seen is None else classify(seen)
    return outbox.store.hear(rules, outcome, seen, now=at(at_s), began_at=at(at_s))


def put(outbox: Bench, *keys: str, to: str = "ann@example.com", **more: Any) -> None:
    for key in keys:
        outbox.put(key, replace(MAIL, recipients=(to,)), **more)


def keys(parcels: list[Parcel]) -> list[str]:
    return [each.key for each in parcels]


class GateContract:
    """Every test is a promise of the outbox. A subclass brings the fixture `outbox`."""

    def test_with_nothing_known_mail_flows_and_remembers_where_it_went(self, outbox: Bench) -> None:
        put(outbox, "a", "b")
        gate = Gate(RULES)
        (parcel,) = claim(outbox, gate, limit=1)
        assert (parcel.provider, parcel.mail_class) == ("main", "confirmation")
        assert (gate.is_full, gate.again_at, gate.seen) == (True, None, NOTHING_KNOWN)
        assert outbox.row(1).provider == "main"
        assert outbox.store.gates() == {}, "nothing is written while nothing is wrong"

    def test_what_one_is_told_holds_for_all(self, outbox: Bench) -> None:
        put(outbox, "a")
        hear(outbox, FAST)
        other = Gate(RULES)
        assert claim(outbox, other) == []
        assert other.again_at == at(30)
        assert claim(outbox, other, 29.9) == []
        assert keys(claim(outbox, other, 30)) == ["a"]

    def test_an_open_breaker_is_everybodys_and_so_are_its_probes(self, outbox: Bench) -> None:
        put(outbox, "a", "b", "c")
        hear(outbox, DOWN)
        assert hear(outbox, DOWN).breaker.position is Position.OPEN
        one, other = Gate(RULES), Gate(RULES)
        assert claim(outbox, one, 9) == []
        assert one.again_at == at(10)
        assert keys(claim(outbox, one, 10)) == ["a"]
        assert outbox.store.gates()["main"].breaker.position is Position.HALF_OPEN
        assert claim(outbox, other, 11) == []
        assert claim(outbox, one, 11) == []
        assert hear(outbox, YES, 12).breaker.clean
        assert keys(claim(outbox, other, 12)) == ["b", "c"]

    def test_every_other_probe_is_a_mail_that_was_tried_before(self, outbox: Bench) -> None:
        """Where the first answer about each mail gets lost, one that was never tried would never find the provider well."""
        put(outbox, "a", "b", "c")
        again = Decision(state=State.PENDING, reason="no answer", next_attempt_at=at(5))
        (first,) = claim(outbox, Gate(RULES), limit=1)
        outbox.store.settle(first, again, now=at(0))
        hear(outbox, DOWN)
        hear(outbox, DOWN)
        (fresh,) = claim(outbox, Gate(RULES), 10)
        assert fresh.key == "b"
        outbox.store.settle(fresh, replace(again, next_attempt_at=at(40)), now=at(10))
        assert hear(outbox, DOWN, 10).breaker.trips == 2
        assert keys(claim(outbox, Gate(RULES), 30)) == ["a"]

    def test_where_none_was_tried_any_mail_is_a_probe(self, outbox: Bench) -> None:
        put(outbox, "a")
        hear(outbox, DOWN)
        assert hear(outbox, DOWN).breaker.trips == 1
        assert keys(claim(outbox, Gate(RULES), 10)) == ["a"]
        hear(outbox, DOWN, 11)
        put(outbox, "b")
        assert keys(claim(outbox, Gate(RULES), 31)) == ["b"]

    def test_a_probe_that_was_lost_with_its_worker_does_not_keep_it_open(self, outbox: Bench) -> None:
        put(outbox, "a", "b")
        hear(outbox, DOWN)
        hear(outbox, DOWN)
        assert keys(claim(outbox, Gate(RULES), 10, lease_s=30.0)) == ["a"]
        assert claim(outbox, Gate(RULES), 69) == []
        assert keys(claim(outbox, Gate(RULES), 71)) == ["a"], "its lease ran out, and it may probe again"

    def test_a_probe_that_came_to_no_attempt_leaves_its_place(self, outbox: Bench) -> None:
        put(outbox, "a", "b")
        hear(outbox, DOWN)
        hear(outbox, DOWN)
        assert keys(claim(outbox, Gate(RULES), 10)) == ["a"]
        hear(outbox, None, 11)
        assert keys(claim(outbox, Gate(RULES), 11)) == ["b"]

    def test_a_rate_is_shared(self, outbox: Bench) -> None:
        put(outbox, *"abcdefgh")
        rules = replace(RULES, rates=(("main", Rate(per_s=2.0, burst=3)),))
        one, other = Gate(rules), Gate(rules)
        assert len(claim(outbox, one)) == 3
        assert claim(outbox, other) == []
        assert other.again_at == at(0.5)
        assert len(claim(outbox, other, 0.5)) == 1
        assert claim(outbox, one, 0.5) == []
        assert len(claim(outbox, one, 99)) == 3

    def test_a_token_is_taken_only_with_a_mail(self, outbox: Bench) -> None:
        put(outbox, "a")
        rules = replace(RULES, rates=(("main", Rate(per_s=0.001, burst=3)),))
        gate = Gate(rules)
        assert len(claim(outbox, gate)) == 1
        assert (gate.is_full, gate.again_at) == (False, None)
        put(outbox, "b", "c", "d")
        assert keys(claim(outbox, Gate(rules))) == ["b", "c"]

    def test_several_buckets_must_all_have_room(self, outbox: Bench) -> None:
        put(outbox, *"abcd")
        mine, ours = ("main", Rate(per_s=0.001, burst=3)), ("house", Rate(per_s=0.001, burst=4))
        assert len(claim(outbox, Gate(replace(RULES, rates=(mine, ours))))) == 3
        neighbour = replace(RULES, provider="spare", providers=("spare",), rates=(ours,))
        assert len(claim(outbox, Gate(neighbour))) == 1

    def test_what_all_have_under_way_is_counted(self, outbox: Bench) -> None:
        put(outbox, *"abcde")
        gate = Gate(replace(RULES, in_flight=3))
        parcels = claim(outbox, gate)
        assert len(parcels) == 3
        assert claim(outbox, Gate(gate.rules)) == []
        done = Decision(state=State.ACCEPTED, reason="accepted", provider_id="m1")
        outbox.store.settle(parcels[0], done, now=NOW)
        assert len(claim(outbox, Gate(gate.rules))) == 1
        # Those of the dead do not count: they are the next to be taken.
        assert len(claim(outbox, Gate(gate.rules), 61)) == 3

    def test_a_domain_gets_no_more_than_it_may_and_holds_up_no_other(self, outbox: Bench) -> None:
        put(outbox, *(f"slow-{n}" for n in range(9)), to="ann@slow.test")
        put(outbox, "x", to="bob@SLOW.test")
        put(outbox, "a", to="ann@a.test")
        put(outbox, "b", "c", to="ann@b.test")
        rules = replace(RULES, domains={"slow.test": 2, "*": 1})
        assert keys(claim(outbox, Gate(rules), limit=3)) == ["slow-0", "slow-1", "a"]
        assert keys(claim(outbox, Gate(rules), limit=3)) == ["b"]

    def test_bulk_takes_no_more_than_its_share_and_urgent_mail_goes_first(self, outbox: Bench) -> None:
        put(outbox, *"abcd")
        put(outbox, "code", priority=100)
        gate = Gate(RULES)
        assert keys(claim(outbox, gate, limit=3, bulk=1)) == ["code", "a"]
        assert gate.is_full, "there may be more bulk, as soon as there is room for it"
        assert keys(claim(outbox, gate, limit=3, bulk=0)) == []
        assert keys(claim(outbox, gate, limit=2)) == ["b", "c"]

    def test_patient_mail_waits_until_the_provider_has_been_well(self, outbox: Bench) -> None:
        put(outbox, "news", priority=-100)
        hear(outbox, DOWN)
        hear(outbox, DOWN)
        gate = Gate(RULES)
        assert claim(outbox, gate, 9) == []
        put(outbox, "order")
        assert keys(claim(outbox, gate, 11, lease_s=600.0)) == ["order"]
        hear(outbox, YES, 12)
        assert claim(outbox, gate, 71) == []
        assert keys(claim(outbox, gate, 72)) == ["news"]

    def test_patient_mail_probes_where_there_is_no_other(self, outbox: Bench) -> None:
        put(outbox, "news", "more news", priority=-100)
        hear(outbox, DOWN)
        hear(outbox, DOWN)
        gate = Gate(RULES)
        assert claim(outbox, gate, 9) == []
        assert keys(claim(outbox, gate, 10, lease_s=600.0)) == ["news"], "or it would wait for ever"
        assert claim(outbox, gate, 11) == []
        hear(outbox, YES, 12)
        assert claim(outbox, gate, 71) == []
        assert keys(claim(outbox, gate, 72)) == ["more news"]

    def test_routes_send_mail_their_way(self, outbox: Bench) -> None:
        routes = (
            Route(to=("spare",), domains=("b.test",)),
            Route(to=("spare",), senders=("@other.test",)),
            Route(to=("spare",), classes=("newsletter",)),
        )
        put(outbox, "a", to="ann@a.test")
        put(outbox, "b", to="ann@B.test")
        outbox.put("c", replace(MAIL, sender="x@other.test"))
        rules = replace(RULES, providers=TWO, routes=routes)
        assert keys(claim(outbox, Gate(replace(rules, provider="spare")))) == ["b", "c"]
        assert keys(claim(outbox, Gate(rules))) == ["a"]

    def test_another_stands_in_for_who_is_shut_but_not_for_what_is_in_doubt(self, outbox: Bench) -> None:
        put(outbox, "doubted", "lost", "later", "fresh")
        rules = replace(RULES, providers=TWO, routes=BOTH)
        main, spare = Gate(rules), Gate(replace(rules, provider="spare"))
        doubted, _lost, later = claim(outbox, main, limit=3)
        back = Decision(state=State.PENDING, reason="503", next_attempt_at=NOW)
        outbox.store.settle(later, back, now=NOW)
        outbox.store.settle(doubted, replace(back, doubt=Doubt.NEW), now=NOW)
        assert claim(outbox, spare, 1) == []
        hear(outbox, DOWN)
        hear(outbox, DOWN)
        # Its lease runs out, and where keys dedupe it is in doubt from its claim on: it stays where it was.
        assert keys(claim(outbox, spare, 61)) == ["later", "fresh"]
        assert [each.provider for each in outbox.store.find(key="later")] == ["spare"]
        hear(outbox, None, 61)
        assert sorted(keys(claim(outbox, main, 62))) in (["lost"], ["doubted"])

    def test_a_row_that_is_in_nobodys_hands_any_more_is_taken_with_its_new_provider(
        self, outbox: Bench
    ) -> None:
        """Before the point of no return nothing can have been taken: such a row may go elsewhere."""
        put(outbox, "a")
        rules = replace(RULES, providers=TWO, routes=BOTH)
        claim(outbox, Gate(rules), dedupes=False)
        hear(outbox, DOWN)
        hear(outbox, DOWN)
        spare = Gate(replace(rules, provider="spare"))
        assert keys(claim(outbox, spare, 61, dedupes=False)) == ["a"]
        assert outbox.row(1).provider == "spare"

    def test_each_attempt_says_whom_it_asked(self, outbox: Bench) -> None:
        put(outbox, "a", "b")
        (a, b) = claim(outbox, Gate(replace(RULES, provider="spare", providers=("spare",))))
        again = Decision(state=State.PENDING, reason="503", next_attempt_at=NOW)
        outbox.store.settle(a, again, now=NOW, evidence=DOWN)
        outbox.store.settle(b, again, now=NOW)
        assert [each.provider for each in outbox.attempts()] == ["spare", None], "the second came to none"

    def test_a_reconciler_looks_after_the_doubts_of_its_own_provider(self, outbox: Bench) -> None:
        """Another one would be told "not found", and believe it."""
        put(outbox, "a", "b", "c", "d")
        rules = replace(RULES, providers=TWO)
        for provider in ("main", "spare", "sold"):
            named = replace(rules, provider=provider, providers=(provider,))
            (parcel,) = claim(outbox, Gate(named), limit=1, dedupes=False)
            assert outbox.store.mark(parcel, now=NOW)
        (nameless,) = outbox.claim(dedupes=False)
        outbox.store.mark(nameless, now=NOW)
        main, spare = (Mine(provider=each, providers=TWO) for each in TWO)
        # Where keys dedupe nothing is parked, but for what was at a provider that nobody knows any more.
        assert outbox.store.park_lost(now=at(61), dedupes=True, mine=spare) == []
        assert outbox.store.park_lost(now=at(61), dedupes=True, mine=main) == [3]
        assert outbox.store.park_lost(now=at(61), dedupes=False, mine=spare) == [2]
        assert sorted(outbox.store.park_lost(now=at(61), dedupes=False, mine=main)) == [1, 4]
        seen = {
            mine.provider: [each.id for each in outbox.store.doubtful(now=at(61), limit=9, mine=mine)]
            for mine in (main, spare)
        }
        assert seen == {"main": [1, 4], "spare": [2]}
        assert len(outbox.store.doubtful(now=at(61), limit=9)) == 4
