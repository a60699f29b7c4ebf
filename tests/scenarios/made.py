"""Hand-made histories: a few words make an acceptance, an attempt, a state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from scenarios.history import History, Said, Try
from simulator.provider.acceptance import Acceptance
from simulator.provider.fate import Fate
from simulator.provider.obligations import Obligation, Reported

START = datetime(2026, 1, 1, tzinfo=UTC)
ANN = "ann@example.com"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def owed(
    recipient: str = ANN, copies: int = 1, state: Reported | None = None, ref: str = "order-1"
) -> Obligation:
    return Obligation(account="default", ref=ref, recipient=recipient, copies=copies, state=state)


def copy(number: int = 1, recipient: str = ANN, *, sha256: str = "aa", ref: str | None = "order-1", fate: Fate = Fate.DELIVERED) -> Acceptance:  # fmt: skip
    return Acceptance(
        id=f"msg_{number}",
        number=number,
        account="default",
        attempt=f"att_{number}",
        dialect="smtp",
        accepted_at=at(number),
        sender="shop@example.org",
        recipients=(recipient,),
        message_id="<1@shop>",
        key=None,
        fingerprint="",
        subject="Your order",
        size_bytes=100,
        sha256=sha256,
        obligation=ref,
        fate=fate,
    )


def tried(
    number: int = 1,
    answer: str = "250 2.0.0 OK",
    *,
    sent: str = "complete",
    took: bool = False,
    recipients: tuple[str, ...] = (ANN,),
    message_id: str | None = "<1@shop>",
    key: str | None = None,
    begins_s: float | None = None,
) -> Try:
    begins = float(number) if begins_s is None else begins_s
    return Try(
        id=f"att_{number}",
        opened_at=at(begins),
        closed_at=at(begins + 0.1),
        stage="reply",
        recipients=recipients,
        message_id=message_id,
        key=key,
        accepted=recipients if took else (),
        answer=answer,
        sent=sent,
    )


def history(
    obligations: tuple[Obligation, ...],
    acceptances: tuple[Acceptance, ...] = (),
    attempts: tuple[Try, ...] = (),
    *,
    knows_states: bool = True,
) -> History:
    """The sender says of each promise what its obligation carries as state."""
    return History(
        obligations=obligations,
        acceptances=acceptances,
        attempts=attempts,
        said=tuple(
            Said(key=each.ref, recipient=each.recipient, state=each.state)
            for each in obligations
            if each.state is not None
        ),
        knows_states=knows_states,
    )
