"""Tests of the behaviours: each is a rule that the simulator takes, at a stage where it can strike."""

from __future__ import annotations

import pytest

from scenarios.simulation.behaviours import (
    BY_WIRE,
    HEALTHY,
    HTTP,
    LOOKED_UP,
    LOOKS,
    SMTP,
    SPARE,
    TOLD,
    Behaviour,
    columns,
)
from scenarios.simulation.cell import plan_of
from scenarios.simulation.profiles import BY_ID, HEARING, TIMES
from scenarios.simulation.storms import BY_NAME as STORMS_BY_NAME
from simulator.config import read_plan, warnings
from simulator.provider.faults import FAULTS, SPELLINGS
from simulator.provider.idempotency import WAYS, KeyRules


@pytest.mark.parametrize(
    ("wire", "behaviour"),
    [
        (wire, each)
        for wire, table in BY_WIRE.items()
        for each in table.values()
        if each.rule and not each.is_told
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_a_behaviour_is_a_rule_of_the_plan_language(wire: str, behaviour: Behaviour) -> None:
    """It is read without a complaint and without a warning."""
    setup = read_plan({"rule": [behaviour.as_rule(wire, attempt=1)]}, "test")

    assert warnings(setup) == []


def test_names_are_unique() -> None:
    """A name says which column of the matrix is meant."""
    assert len(BY_WIRE["http"]) == len(HTTP) + len(SPARE) + len(LOOKED_UP) + len(TOLD)
    assert len(BY_WIRE["smtp"]) == len(SMTP) + len(TOLD)


def test_both_wires_can_be_healthy() -> None:
    """The first column is the provider without any fault."""
    assert BY_WIRE["http"]["ok"] is BY_WIRE["smtp"]["ok"] is HEALTHY


#: Faults that no column shows, and where they are shown instead.
ELSEWHERE = {
    # It is for harnesses with hands.
    "hold",
    # Recipients refused one by one are a shape, not an attempt.
    "refuse_recipients",
    # Whoever hears of it: each mail of a storm has one.
    "fate",
    # The sender does not wait for 100.
    "no_continue",
    # There is no TLS in a world.
    "bad_certificate",
    "break_handshake",
    "refuse_handshake",
}


@pytest.mark.parametrize("wire", sorted(BY_WIRE))
def test_every_kind_of_fault_takes_part(wire: str) -> None:
    """A fault that no column shows would be proved nowhere."""
    rules = [
        rule for each in BY_WIRE[wire].values() for rule in (each.rule, *each.terms.get("rule", ())) if rule
    ]
    named = {rule["fault"] for rule in rules}
    shown = {SPELLINGS[name].fault if name in SPELLINGS else name for name in named}
    on_this_wire = {name for name, fault in FAULTS.items() if wire in fault.stages}
    told = {name for name, fault in FAULTS.items() if "webhook" in fault.stages}

    assert on_this_wire - shown == ELSEWHERE & on_this_wire
    assert told - shown == set()


# --- other terms ------------------------------------------------------------------------------------

#: What a provider's terms can be in a world, and which keys of a plan say so.
TERMS = {"limit", "greylist", "idempotency", "webhooks", "rule", "batch"}


def test_every_kind_of_terms_takes_part() -> None:
    """Limits and webhooks on both wires, keys and batches on the one that has them, greylists on the other."""
    said = {wire: {key for each in table.values() for key in each.terms} for wire, table in BY_WIRE.items()}

    assert said["http"] == TERMS - {"greylist"}
    assert said["smtp"] == TERMS - {"idempotency", "batch"}


@pytest.mark.parametrize("situation", ["finished", "in_flight", "failed", "lied"])
def test_every_way_of_keys_takes_part(situation: str) -> None:
    """Those that are left out, and why, stand at the end of the tables. A key with another body is no provider's doing."""
    usual = getattr(KeyRules(), situation)
    ways = {each.terms.get("idempotency", {}).get(situation) for each in HTTP} - {None}

    left_out = {"failed": {"refuse"}, "in_flight": {"process"}, "lied": {"release"}}
    assert ways == set(WAYS[situation]) - {usual} - left_out.get(situation, set())


def test_terms_come_on_top_of_the_profile_and_stay_when_faults_end() -> None:
    """The later of two that say different things counts; a limit of one name is there once."""
    forgotten = BY_ID["http-keys-forgotten"]
    plan = plan_of(forgotten, ("taken late, 409 until", "one mail in 20 s", "one mail a minute"))

    assert plan["idempotency"] == {"window_s": 60.0, "in_flight": "retry_after", "in_flight_s": 20}
    assert plan["limit"] == [{"name": "pace", "per_minute": 1}]
    assert [each["name"] for each in plan["rule"]] == ["1: taken late, 409 until"]
    assert forgotten.provider == {"idempotency": {"window_s": 60.0}}
    assert warnings(read_plan(plan, "test")) == []


def test_what_the_spare_does_is_met_behind_a_refusal_of_the_main_one() -> None:
    """The first attempt over SMTP, whichever it is, once the main provider has said 503 to the first of all."""
    plan = plan_of(BY_ID["http-with-spare"], ("spare: dot 451",))

    shut, struck = sorted(plan["rule"], key=lambda rule: str(rule["dialect"]))
    assert (shut["dialect"], shut["code"], shut["attempt"]) == ("http", 503, 1)
    assert (struck["name"], struck["dialect"], struck["times"]) == ("1: spare: dot 451", "smtp", 1)
    assert warnings(read_plan(plan, "test")) == []
    assert {each.name for each in SPARE} <= set(columns("http-with-spare", "http"))
    assert not {each.name for each in SPARE} & set(columns("http-keys", "http"))


def test_what_happens_at_a_look_up_is_met_behind_a_lost_answer() -> None:
    """It says itself how often it strikes, whichever attempt comes before it."""
    plan = plan_of(BY_ID[LOOKS], ("taken, asked: 503",))

    asked, lost = sorted(plan["rule"], key=lambda rule: str(rule["stage"]))
    assert (lost["fault"], lost["stage"], lost["attempt"]) == ("hang_up", "reply", 1)
    assert (asked["name"], asked["stage"], asked["code"]) == ("1: taken, asked: 503", "lookup", 503)
    assert asked["times"] == 2
    assert "attempt" not in asked
    assert warnings(read_plan(plan, "test")) == []
    assert {each.name for each in LOOKED_UP} <= set(columns(LOOKS, "http"))
    assert not {each.name for each in LOOKED_UP} & set(columns("http-keys", "http"))


def test_every_fault_of_a_look_up_takes_part() -> None:
    """But what is held until somebody lets go, which is for harnesses with hands. What is stale is not older than the sender knows."""
    at_look_ups = {name for name, fault in FAULTS.items() if "lookup" in fault.stages.get("http", ())}
    assert {each.rule["fault"] for each in LOOKED_UP} == at_look_ups - {"hold"}
    assert all(each.is_asked for each in LOOKED_UP)
    assert {each.rule["age_s"] for each in LOOKED_UP if "age_s" in each.rule} == {TIMES["lookup_lag_s"]}


@pytest.mark.parametrize("profile", [profile.id for profile in HEARING])
def test_where_somebody_hears_storms_are_the_columns_and_nowhere_else(profile: str) -> None:
    """What happens to an attempt is asked elsewhere."""
    told = {each.name for each in TOLD}

    assert set(columns(profile, BY_ID[profile].wire)) == told == set(STORMS_BY_NAME)
    assert not any(told & set(columns(each.id, each.wire)) for each in BY_ID.values() if not each.hears)


@pytest.mark.parametrize(
    ("name", "fired", "struck"),
    [
        ("ok", (), True),
        ("503", (), False),
        ("503", ("2: 503",), True),
        ("503", ("1: 503 with retry-after",), False),
        ("one mail in 20 s", ("limit: pace",), True),
        ("spare: dot 451", ("the main one is shut", "1: spare: dot 451"), True),
        ("spare: dot 451", ("the main one is shut",), False),
        ("one at a time", ("1: one at a time",), False),
    ],
)
def test_whether_a_behaviour_has_struck(name: str, fired: tuple[str, ...], struck: bool) -> None:
    """By the name of its rule, or by what its terms say."""
    assert BY_WIRE["http"][name].has_struck(fired) is struck


def test_columns_of_a_profile() -> None:
    """What leads nowhere in a profile is not played in it, and what needs bytes not without them."""
    assert "503, replayed" not in columns("http-keys", "http")
    assert "503, replayed" in columns("http-lookup-lagging", "http")
    left = set(columns("http-keys", "http")) - set(columns("http-keys", "http", byteless=True))
    assert left == {each.name for each in HTTP if each.needs_bytes and not each.profiles}
