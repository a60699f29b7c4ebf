"""Certificates: of a CA of our own that is kept in a folder, or one that somebody brings; and bad ones on purpose.

A sender under test has to trust somebody: it is given `ca.pem`, which stays the same from start to start. Server
certificates are made anew at each start and never written down.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.provider.answer import CertificateFlaw

if TYPE_CHECKING:
    from trustme import CA, LeafCert

#: How long a server certificate is good, and how far a bad one is off.
LIFETIME = timedelta(days=365)
OFF_BY = timedelta(days=30)
#: Names that every server certificate has: a simulator is spoken to from its own machine.
USUAL_NAMES = ("localhost", "127.0.0.1", "::1")
#: The name in a certificate that was made for somebody else (RFC 2606: it is nobody's).
OTHER_NAME = "somebody-else.invalid"


class TlsError(Exception):
    """There can be no TLS. The message is one sentence that says what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """What `simulator serve` was asked for."""

    starttls: bool = False
    """Offer STARTTLS where SMTP begins in the clear."""
    folder: Path = Path("simulator-tls")
    """Where our own CA is kept."""
    names: tuple[str, ...] = ()
    """Names and addresses that the server certificate has, too."""
    certificate: Path | None = None
    """Somebody's own certificate with its chain (PEM); our CA is not asked then."""
    key: Path | None = None


class Tls:
    """The server's side of TLS. Raises `TlsError` if there can be none."""

    def __init__(self, options: TlsOptions, *, names: tuple[str, ...], now: datetime) -> None:
        """`names` are those this server is known to be reached by; `now` is when certificates begin."""
        if (options.certificate is None) is not (options.key is None):
            given, missing = ("--tls-cert", "--tls-key")[:: 1 if options.key is None else -1]
            raise TlsError(f"{given} is given without {missing}; a certificate and its key come together")
        self._options = options
        self._names = tuple(dict.fromkeys((*USUAL_NAMES, *names, *options.names)))
        self._now = now
        self._contexts: dict[CertificateFlaw | None, ssl.SSLContext] = {}
        self.ca_file = None if options.certificate is not None else options.folder / "ca.pem"
        """What a sender must trust; None: whoever signed the certificate that was brought."""
        try:
            self.context()
        except ValueError as problem:  # of idna, about a name
            raise TlsError(
                f"no certificate can be made for {', '.join(self._names[len(USUAL_NAMES) :])}: {problem};"
                " give host names and addresses by --tls-name"
            ) from problem

    def context(self, flaw: CertificateFlaw | None = None) -> ssl.SSLContext:
        """Return what a handshake needs; with a flaw, the certificate has it."""
        context = self._contexts.get(flaw)
        if context is None:
            context = self._contexts[flaw] = self._make(flaw)
        return context

    def _make(self, flaw: CertificateFlaw | None) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        if flaw is None and self._options.certificate is not None:
            assert self._options.key is not None
            try:
                context.load_cert_chain(self._options.certificate, self._options.key)
            except (OSError, ssl.SSLError) as problem:
                why = problem.strerror or str(problem)
                raise TlsError(
                    f"--tls-cert {self._options.certificate} and --tls-key {self._options.key} cannot be used:"
                    f" {why}; both must be PEM and belong together"
                ) from problem
            return context
        self._leaf(flaw).configure_cert(context)
        return context

    def _leaf(self, flaw: CertificateFlaw | None) -> LeafCert:
        from trustme import CA

        begin, end = self._now - timedelta(days=1), self._now + LIFETIME
        match flaw:
            case None:
                return self._ca.issue_cert(*self._names, not_before=begin, not_after=end)
            case CertificateFlaw.EXPIRED:
                return self._ca.issue_cert(
                    *self._names, not_before=begin - 2 * OFF_BY, not_after=self._now - OFF_BY
                )
            case CertificateFlaw.NOT_YET_VALID:
                return self._ca.issue_cert(*self._names, not_before=self._now + OFF_BY, not_after=end)
            case CertificateFlaw.WRONG_HOST:
                return self._ca.issue_cert(OTHER_NAME, not_before=begin, not_after=end)
            case CertificateFlaw.UNTRUSTED:
                return CA(organization_name="nobody you trust").issue_cert(
                    *self._names, not_before=begin, not_after=end
                )

    @cached_property
    def _ca(self) -> CA:
        """Our own CA: the one in the folder, or a new one that is kept there. A bad certificate needs one, too."""
        from trustme import CA

        if self._options.certificate is not None:
            return CA(organization_name="mailproof simulator")
        folder = self._options.folder
        certificate, key = folder / "ca.pem", folder / "ca-key.pem"
        try:
            if certificate.exists() and key.exists():
                return CA.from_pem(certificate.read_bytes(), key.read_bytes())
            if certificate.exists() or key.exists():
                there, missing = (certificate, key) if certificate.exists() else (key, certificate)
                raise TlsError(f"{there} is there without {missing.name}; put it back, or take both away")
            ca = CA(organization_name="mailproof simulator")
            folder.mkdir(parents=True, exist_ok=True)
            # The key goes first, and nobody else may read it, not even for a moment.
            fd = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(ca.private_key_pem.bytes())
            certificate.write_bytes(ca.cert_pem.bytes())
        except OSError as problem:
            raise TlsError(
                f"the CA in {folder} cannot be read or kept: {problem.strerror}; name another folder by --tls-dir"
            ) from problem
        except ValueError as problem:
            raise TlsError(
                f"the CA in {folder} is damaged: {problem}; take ca.pem and ca-key.pem away, and senders get a new one"
            ) from problem
        return ca
