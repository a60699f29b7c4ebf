"""The few words of TLS that a plan can say: alerts before there are any keys (RFC 8446, sections 5.1 and 6)."""

from __future__ import annotations

from simulator.provider.answer import TlsAlert

_ALERT = 21
_FATAL = 2
#: For all versions: RFC 8446, section 5.1.
_LEGACY_VERSION = b"\x03\x03"

#: RFC 8446, section 6.
CODES: dict[TlsAlert, int] = {
    TlsAlert.HANDSHAKE_FAILURE: 40,
    TlsAlert.ACCESS_DENIED: 49,
    TlsAlert.PROTOCOL_VERSION: 70,
    TlsAlert.INTERNAL_ERROR: 80,
    TlsAlert.UNRECOGNIZED_NAME: 112,
}


def alert(which: TlsAlert) -> bytes:
    """Return the record of a fatal alert."""
    content = bytes((_FATAL, CODES[which]))
    return bytes((_ALERT,)) + _LEGACY_VERSION + len(content).to_bytes(2, "big") + content
