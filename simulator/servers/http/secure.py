"""One HTTP connection under TLS: what goes wrong before the handshake, the handshake, and then a visitor like any other."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl

from simulator.provider.answer import CertificateFlaw
from simulator.servers.encryption import Encryption
from simulator.servers.http.connection import Visitor
from simulator.servers.http.line import HttpLine
from simulator.servers.tls import Tls

_log = logging.getLogger(__name__)

#: How long a TLS handshake may take, in seconds.
HANDSHAKE_S = 30.0
#: The first words of a handshake are some hundred bytes; whoever says much more before he is answered is made to wait.
_EARLY_BYTES = 65_536


class SecureVisitor(Visitor):
    """A visitor who is one only after the handshake; before it there is a raw line, on which the door may misbehave."""

    def __init__(self, *, tls: Tls, **more: Any) -> None:
        super().__init__(**more)
        self._tls = tls
        self._raw: asyncio.Transport | None = None
        self._early = bytearray()
        self._heard = asyncio.Event()
        self._encryption: Encryption | None = None
        self._is_in = False
        """The handshake is done."""
        self._deadline: asyncio.TimerHandle | None = None

    # --- before the handshake -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._raw = self.transport = transport
        self.flow = FlowControl(transport)
        self.line = HttpLine(self)
        if self._door.guards_handshakes():
            reception = self.loop.create_task(self._door.shake_hands(self))
            reception.add_done_callback(self.tasks.discard)
            self.tasks.add(reception)
        else:
            self.shake_hands(None)

    async def heard(self) -> bool:
        """Return when the sender has said its first word. False: it never does, or not in time."""
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                await self._heard.wait()
        except TimeoutError:
            return False
        return bool(self._early)

    def shake_hands(self, flaw: CertificateFlaw | None) -> None:
        """Do our part of the handshake; with a flaw, the certificate has it."""
        assert self._raw is not None
        if self.line.is_gone():
            return
        self._deadline = self.loop.call_later(HANDSHAKE_S, self._raw.abort)
        self._encryption = Encryption(self._raw, self._tls.context(flaw), self._read, self._leave)
        self._encryption.shaken.add_done_callback(self._shaken)
        self._raw.resume_reading()
        early, self._early = bytes(self._early), bytearray()
        if early:
            self._encryption.feed(early)

    def _shaken(self, shaken: asyncio.Future[None]) -> None:
        assert self._raw is not None
        if shaken.cancelled() or (problem := shaken.exception()) is None:
            self._come_in()
            return
        _log.info("TLS handshake with %s failed: %s", self.line.peer, problem)
        # With our own alert, if there is one, in front of the end.
        self._raw.close()

    def _come_in(self) -> None:
        if self._is_in or self._encryption is None or self.line.is_gone():
            return
        self._is_in = True
        self._call_off()
        early = self.line
        super().connection_made(self._encryption)
        self.line.attempt, self.line.name = early.attempt, early.name

    def _read(self, data: bytes) -> None:
        # The first request may come in the same piece as the end of the handshake.
        self._come_in()
        self.hear(data)

    def _leave(self) -> None:
        """The sender has said that it says no more: as when it half-closes the line."""
        if self._encryption is not None:
            self._encryption.close()

    def _call_off(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # --- the raw line -------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._encryption is not None:
            self._encryption.feed(data)
        elif not self._deaf:
            self._early += data
            self._heard.set()
            if len(self._early) > _EARLY_BYTES and self._raw is not None:
                self._raw.pause_reading()

    def eof_received(self) -> None:
        self._heard.set()
        if self._encryption is not None:
            self._encryption.ended()

    def connection_lost(self, exc: Exception | None) -> None:
        self._call_off()
        self._heard.set()
        if self._encryption is not None:
            self._encryption.ended()
        super().connection_lost(exc)

    def turn_deaf(self) -> None:
        self._early.clear()
        super().turn_deaf()
