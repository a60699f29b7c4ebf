"""What becomes of mail: suppression, events, and both after a restart."""

from __future__ import annotations

from simulator.provider.fate import Fate, suppressed
from simulator.provider.faults import DecideFate
from simulator.provider.provider import Provider
from simulator.provider.rule import When
from simulator.provider.suppression import Suppression
from tests.simulator.provider.mails import ANN, BOB, NOW, after, mail, planned, provider, rule, send

BOUNCES = rule(DecideFate(fate=Fate.HARD_BOUNCE, after_s=3), ("smtp", "message"), when=When(times=1))


def fates(of: Provider) -> list[Fate]:
    return [each.fate for each in of.accounts["default"].ledger.acceptances]


def test_an_address_that_bounced_is_suppressed_from_then_on() -> None:
    """Not before the bounce has happened, and not in other accounts."""
    it = provider(planned(BOUNCES))
    for seconds in (0.0, 2.9, 3.0):
        send(it, mail(BOB), after(seconds))
    send(it, mail(ANN), after(4))
    send(it, mail(BOB), after(4), account="other")

    assert fates(it) == [Fate.HARD_BOUNCE, Fate.DELIVERED, Fate.SUPPRESSED, Fate.DELIVERED]
    assert [each.fate for each in it.accounts["other"].ledger.acceptances] == [Fate.HARD_BOUNCE]


def test_a_suppressed_address_stays_so_over_a_restart_and_can_be_lifted() -> None:
    first = provider(planned(BOUNCES))
    send(first, mail(BOB))
    it = provider(planned())
    it.restore(first.records(), after(5))
    send(it, mail(BOB), after(5))

    it.remember(it.accounts["default"].aftermath.lift(BOB.upper()))
    send(it, mail(BOB), after(7))
    again = provider(planned())
    again.restore([*it.records()], after(8))
    send(again, mail(BOB), after(8))

    assert fates(it) == [Fate.HARD_BOUNCE, Fate.SUPPRESSED, Fate.DELIVERED]
    assert fates(again)[-1] is Fate.DELIVERED


def test_an_address_can_be_suppressed_by_hand() -> None:
    """One of several recipients is suppressed; the mail goes to the other. A reset forgets the list."""
    it = provider()
    it.remember(
        it.accounts["default"].aftermath.suppress(Suppression(address=BOB, reason="manual", since=NOW))
    )
    _, verdict = send(it, mail(BOB, ANN))

    assert verdict is not None
    assert verdict.acceptance is not None
    assert verdict.acceptance.destinies == ((BOB, suppressed("manual")),)
    it.reset("default", NOW)
    send(it, mail(BOB))
    assert fates(it) == [Fate.DELIVERED]


def test_what_happens_to_mail_is_told_again_after_a_restart() -> None:
    first = provider(planned(BOUNCES))
    send(first, mail(BOB))
    it = provider(planned())
    it.restore(first.records(), after(5))
    logs = [each.accounts["default"].aftermath.events for each in (first, it)]
    for log in logs:
        log.advance(after(5))

    assert [event.type for _, event in logs[0].since(0)] == ["email.accepted", "email.bounced"]
    assert list(logs[0].since(0)) == list(logs[1].since(0))
