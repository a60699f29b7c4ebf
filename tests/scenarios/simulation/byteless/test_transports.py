"""The transports without bytes see what the real ones see, whatever the provider does."""

from __future__ import annotations

import pytest

from scenarios.simulation.behaviours import columns
from scenarios.simulation.cell import plan_of
from scenarios.simulation.profiles import BY_ID
from simulator.config import read_plan
from tests.scenarios.simulation.byteless.exchanges import (
    differences,
    mail_to,
    on_the_wire,
    setup_of,
    without_bytes,
)

ADA = mail_to("ada@example.com")
BOB = mail_to("bob@example.com", "order-2")


#: What is said out of turn is read as the answer to the next mail, if that comes at once: a race, and not of this room.
ALONE = ("250 within the mail",)


@pytest.mark.parametrize("profile", ["http-keys", "http-lookup-lagging", "smtp-at-most-once"])
def test_every_behaviour_looks_the_same(profile: str) -> None:
    """Evidence, times, answers read, look-up, attempts and acceptances: of this attempt and of one behind it."""
    place = BY_ID[profile]
    names = [name for name in columns(place.id, place.wire, byteless=True) if name not in ALONE]
    setups = {name: read_plan(plan_of(place, (name, "ok")), "the script") for name in names}

    found = differences(
        place.wire, setups, [ADA, ADA], keys=profile == "http-keys", looks="lookup" in profile
    )

    assert found == {}
    assert len(setups) > 25


@pytest.mark.parametrize("wire", ["http", "smtp"])
def test_two_mails_share_a_line(wire: str) -> None:
    """A line that is good is used again, and the provider sees one connection."""
    seen = without_bytes(wire, setup_of(), [ADA, BOB])

    assert seen == on_the_wire(wire, setup_of(), [ADA, BOB])
    assert {each.connection for each in seen.attempts} == {"c1"}
    assert len(seen.accepted) == 2


@pytest.mark.parametrize(
    ("apart_s", "connections"), [(4.9, {"c1"}), (5.1, {"c1", "c2"}), (9.0, {"c1", "c2"})]
)
def test_a_line_that_no_mail_needs_is_left(apart_s: float, connections: set[str]) -> None:
    """The time begins anew with each mail, and both levels are rid of the line at the same instant."""
    mails = [ADA, BOB, mail_to("cy@example.com", "order-3")]
    seen = without_bytes("smtp", setup_of(), mails[:2], apart_s=apart_s)

    assert seen == on_the_wire("smtp", setup_of(), mails[:2], apart_s=apart_s)
    assert {each.connection for each in seen.attempts} == connections
    assert len(seen.accepted) == 2
    if connections == {"c1"}:
        again = without_bytes("smtp", setup_of(), mails, apart_s=apart_s)
        assert {each.connection for each in again.attempts} == connections


@pytest.mark.parametrize("fault", ["hang", "reset", "hang_up", "garble"])
def test_a_goodbye_that_goes_wrong_concerns_no_mail(fault: str) -> None:
    """Also that of a line which is left while others are to come."""
    setup = setup_of({"name": "it", "dialect": "smtp", "stage": "quit", "fault": fault})
    seen = without_bytes("smtp", setup, [ADA, BOB], apart_s=6.0)

    assert seen == on_the_wire("smtp", setup, [ADA, BOB], apart_s=6.0)
    assert [each.evidence.code for each in seen.sent] == [250, 250]
    assert [each.rules for each in seen.attempts] == [("it",), ("it",)]


@pytest.mark.parametrize("wire", ["http", "smtp"])
def test_an_attempt_that_is_withdrawn_leaves_nothing(wire: str) -> None:
    """The worker says at the point of no return that the row is no longer its own."""
    seen = without_bytes(wire, setup_of(), [ADA], marked=False)

    assert seen.sent[0].evidence.trouble == "withdrawn"
    assert seen.accepted == ()
    assert seen.sent == on_the_wire(wire, setup_of(), [ADA], marked=False).sent
