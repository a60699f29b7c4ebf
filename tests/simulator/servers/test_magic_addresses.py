"""Magic addresses over real sockets: what a sender sees of them on each wire."""

from __future__ import annotations

import smtplib
from collections.abc import Iterator

import pytest

from tests.simulator.running import Running, ask, mail, request, running


@pytest.fixture(scope="module")
def simulator() -> Iterator[Running]:
    with running() as service:
        yield service


def test_over_http(simulator: Running) -> None:
    def post(name: str) -> tuple[int | None, str]:
        seen = ask(simulator, request(mail(to=[f"{name}@magic.test"])))
        return (seen.status if seen.data else None), seen.end

    assert [post("503-once"), post("503-once")] == [(503, "open"), (200, "open")]
    assert [post("lost-answer+1"), post("lost-answer+1")] == [(None, "eof"), (200, "open")]
    assert post("reset") == (None, "reset")
    assert post("nobody") == (422, "open")
    with simulator.control() as control:
        assert len(control.messages(to="lost-answer+1@magic.test")) == 2
        assert control.messages(to="nobody@magic.test") == []


def test_over_smtp(simulator: Running) -> None:
    def deliver(*names: str) -> object:
        recipients = [f"{name}@magic.test" for name in names]
        try:
            with smtplib.SMTP(*simulator.smtp) as smtp:
                refused = smtp.sendmail("shop@example.org", recipients, "Subject: x\r\n\r\nx\r\n")
        except smtplib.SMTPRecipientsRefused as problem:
            refused = problem.recipients
        except smtplib.SMTPServerDisconnected:
            return "disconnected"
        return {to.partition("@")[0]: code for to, (code, _) in refused.items()}

    assert deliver("451") == {"451": 451}
    assert deliver("nobody", "delivered", "full") == {"nobody": 550, "full": 452}
    assert [deliver("greylist"), deliver("greylist")] == [{"greylist": 451}, {}]
    assert [deliver("lost-answer"), deliver("lost-answer")] == ["disconnected", {}]
    assert deliver("typo") == {"typo": 550}
