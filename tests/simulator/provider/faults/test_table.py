"""The table of faults is whole: each can strike somewhere, each says what it answers."""

from __future__ import annotations

import dataclasses

import pytest

from simulator.provider.answer import (
    Alert,
    CertificateFlaw,
    DragOn,
    Dressed,
    Garble,
    Hang,
    HangUp,
    Hold,
    KeepExpecting,
    Reply,
    Reset,
    ShowCertificate,
    Slow,
    TlsAlert,
    Truncate,
    Unasked,
    WhenHeard,
)
from simulator.provider.dress import (
    Announced,
    Chunked,
    Doubled,
    Dripped,
    Gzipped,
    Listed,
    Listing,
    Odd,
    Shape,
)
from simulator.provider.faults import (
    AFTER_BOOKING,
    FAULTS,
    HTTP_STAGES,
    SMTP_STAGES,
    SPELLINGS,
    WEBHOOK_STAGES,
    natural_stage,
)
from simulator.provider.faults.web import GatewayGivesUp
from tests.simulator.provider.faults.samples import sample

STAGES = {"smtp": SMTP_STAGES, "http": HTTP_STAGES, "webhook": WEBHOOK_STAGES}
ANSWERS = {
    "reply": Reply(code=451),
    "slow": Slow(delay_s=1),
    "hang": Hang(),
    "hang_up": HangUp(),
    "reset": Reset(),
    "garble": Garble(),
    "truncate": Truncate(),
    "hold": Hold(),
    "accept_then_drop": None,
    "fate": None,
    "webhook_early": None,
    "webhook_duplicate": None,
    "webhook_duplicate_new_id": None,
    "webhook_late": None,
    "webhook_reorder": None,
    "webhook_lose": None,
    "webhook_bad_signature": None,
    "webhook_stale": None,
    "webhook_malformed": None,
    "webhook_conflict": None,
    "webhook_unknown": None,
    "redirect": Reply(code=307, headers=(("Location", "/v1/emails"),)),
    "gateway": GatewayGivesUp().answer(),
    "odd_body": Dressed(dress=Odd(shape=Shape.NO_ID)),
    "odd_results": Dressed(dress=Listed(listing=Listing.FEWER)),
    "gzip": Dressed(dress=Gzipped()),
    "chunked": Dressed(dress=Chunked()),
    "drip": Dressed(dress=Dripped(pause_s=0.05)),
    "interim": Dressed(dress=Announced(status=103)),
    "two_answers": Dressed(dress=Doubled()),
    "no_continue": KeepExpecting(),
    "lookup_misses": None,
    "lookup_stale": None,
    "lookup_unfiltered": None,
    "refuse_ehlo": Reply(code=502),
    "refuse_handshake": WhenHeard(size_bytes=1, then=Alert(alert=TlsAlert.HANDSHAKE_FAILURE)),
    "break_handshake": WhenHeard(size_bytes=1, then=HangUp()),
    "bad_certificate": ShowCertificate(flaw=CertificateFlaw.EXPIRED),
    "cut_body": WhenHeard(size_bytes=100, then=HangUp()),
    "close_on_next": WhenHeard(size_bytes=1, then=HangUp()),
    "out_of_turn": Unasked(words=Reply(code=250)),
    "tarpit": DragOn(delay_s=1),
    "throttle": Reply(code=451, enhanced="4.7.0", text="too many messages, try again later"),
    "refuse_recipients": Reply(code=550, enhanced="5.1.1", text="no such mailbox"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_can_strike_on_a_wire(name: str) -> None:
    """Its natural stage is one of those it allows on each wire that it exists on."""
    on = FAULTS[name].stages

    assert on
    assert all(natural_stage(FAULTS[name], wire) in stages for wire, stages in on.items())


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_only_stages_that_exist(name: str) -> None:
    assert all(stages and set(stages) <= set(STAGES[wire]) for wire, stages in FAULTS[name].stages.items())


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_says_what_it_answers(name: str) -> None:
    assert sample(name).answer() == ANSWERS[name]


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_spelling_is_a_fault_after_booking(name: str) -> None:
    """`accept_then_X` loses the answer, not the mail."""
    spelling = SPELLINGS[name]
    fields = {field.name for field in dataclasses.fields(FAULTS[spelling.fault])}

    on = FAULTS[spelling.fault].stages

    assert all((wire, spelling.stage) in AFTER_BOOKING for wire in on)
    assert all(spelling.stage in stages for stages in on.values())
    assert {key for key, _ in spelling.defaults} <= fields
    assert name not in FAULTS
