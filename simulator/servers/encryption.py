"""TLS between a raw transport and whoever talks over it, so that everything that happens to a line happens under TLS too.

The loop's own `start_tls` hides the raw line: no half of it can be closed, no handshake can be broken off in the
middle, and what came in before it began is lost on some loops. So the bytes go through `ssl.SSLObject` here.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

_PIECE_BYTES = 65_536


class Encryption(asyncio.Transport):
    """The server's side of TLS on a raw transport. Bytes that come in are handed to `feed`, in the clear to `deliver`.

    `over` is called when the other side has said that it says no more (close_notify), once; its FIN need not follow.
    """

    def __init__(
        self,
        raw: asyncio.Transport,
        context: ssl.SSLContext,
        deliver: Callable[[bytes], None],
        over: Callable[[], None],
    ) -> None:
        super().__init__()
        self._raw = raw
        self._deliver = deliver
        self._over = over
        self._is_over = False
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self.shaken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the handshake is; fails with an `OSError`."""

    # --- what comes in ------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take bytes from the wire."""
        self._in.write(data)
        if not self.shaken.done():
            self._shake()
        if self.shaken.done() and not self.shaken.cancelled() and self.shaken.exception() is None:
            self._read()

    def ended(self) -> None:
        """The other side says no more."""
        self._fail(ConnectionResetError("the line was closed during the TLS handshake"))

    def _shake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as problem:
            # With its alert, which tells the sender what was wrong.
            self._flush()
            self._fail(problem)
        else:
            self._flush()
            self.shaken.set_result(None)

    def _fail(self, problem: OSError) -> None:
        if not self.shaken.done():
            self.shaken.set_exception(problem)
            # Nobody may be waiting (a hang, a reset): that is no news for the loop then.
            self.shaken.exception()

    def _read(self) -> None:
        try:
            while data := self._tls.read(_PIECE_BYTES):
                self._deliver(data)
            self._say_over()
        except ssl.SSLWantReadError:
            pass  # All there is has been read.
        except ssl.SSLZeroReturnError:
            self._say_over()
        except ssl.SSLError:
            # Not TLS any more: there is nothing left that could be said or understood.
            self._raw.abort()
        self._flush()

    def _say_over(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._over()

    def _flush(self) -> None:
        if self._out.pending and not self._raw.is_closing():
            self._raw.write(self._out.read())

    # --- the transport ------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self._tls.write(data)
        self._flush()

    def write_eof(self) -> None:
        self._say_goodbye()
        self._raw.write_eof()

    def can_write_eof(self) -> bool:
        return self._raw.can_write_eof()

    def close(self) -> None:
        if not self._raw.is_closing():
            self._say_goodbye()
        self._raw.close()

    def _say_goodbye(self) -> None:
        """RFC 8446, section 6.1: close_notify, so that the end cannot be somebody else's doing."""
        try:
            self._tls.unwrap()
        except (ssl.SSLError, ValueError):
            pass  # The other side has not said it yet, or there never was a session.
        self._flush()

    def abort(self) -> None:
        self._raw.abort()

    def is_closing(self) -> bool:
        return self._raw.is_closing()

    def pause_reading(self) -> None:
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._raw.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        match name:
            case "ssl_object":
                return self._tls
            case "sslcontext":
                return self._tls.context
            case _:
                return self._raw.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()
