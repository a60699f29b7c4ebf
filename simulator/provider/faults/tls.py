"""The faults of TLS: over SMTP after STARTTLS or at a port where TLS comes first, over HTTP where HTTPS is served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from simulator.provider.answer import Alert, Answer, CertificateFlaw, ShowCertificate, TlsAlert, WhenHeard
from simulator.provider.faults.endings import End, ending
from simulator.provider.faults.stages import Stages

_BEFORE_THE_HANDSHAKE: Stages = {"smtp": ("starttls",), "http": ("tls",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseTheHandshake:
    """Answer the sender's first word of TLS with an alert: no version, no cipher, no name in common, it says."""

    name: ClassVar[str] = "refuse_handshake"
    stages: ClassVar[Stages] = _BEFORE_THE_HANDSHAKE
    alert: TlsAlert = TlsAlert.HANDSHAKE_FAILURE

    def answer(self) -> Answer:
        return WhenHeard(size_bytes=1, then=Alert(alert=self.alert))


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakTheHandshake:
    """Let the sender begin its TLS handshake, and end the line then."""

    name: ClassVar[str] = "break_handshake"
    stages: ClassVar[Stages] = _BEFORE_THE_HANDSHAKE
    end: End = End.HANG_UP

    def answer(self) -> Answer:
        return WhenHeard(size_bytes=1, then=ending(self.end))


@dataclass(frozen=True, slots=True, kw_only=True)
class BadCertificate:
    """Shake hands with a certificate that no sender should take. One that takes it goes on as usual."""

    name: ClassVar[str] = "bad_certificate"
    stages: ClassVar[Stages] = _BEFORE_THE_HANDSHAKE
    problem: CertificateFlaw = CertificateFlaw.EXPIRED

    def answer(self) -> Answer:
        return ShowCertificate(flaw=self.problem)
