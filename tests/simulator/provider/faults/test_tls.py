"""The faults of TLS: what each says with other parameters."""

from __future__ import annotations

import pytest

from simulator.provider.answer import Alert, CertificateFlaw, Reset, ShowCertificate, TlsAlert, WhenHeard
from simulator.provider.faults.endings import End
from simulator.provider.faults.tls import BadCertificate, BreakTheHandshake, RefuseTheHandshake


@pytest.mark.parametrize("alert", TlsAlert)
def test_a_handshake_is_refused_once_it_has_begun(alert: TlsAlert) -> None:
    assert RefuseTheHandshake(alert=alert).answer() == WhenHeard(size_bytes=1, then=Alert(alert=alert))


def test_a_handshake_ends_once_it_has_begun() -> None:
    assert BreakTheHandshake(end=End.RESET).answer() == WhenHeard(size_bytes=1, then=Reset())


@pytest.mark.parametrize("flaw", CertificateFlaw)
def test_a_certificate_has_the_flaw_that_is_asked_for(flaw: CertificateFlaw) -> None:
    assert BadCertificate(problem=flaw).answer() == ShowCertificate(flaw=flaw)
