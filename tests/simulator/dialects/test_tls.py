"""The few words of TLS that a plan can say."""

from __future__ import annotations

import ssl

import pytest

from simulator.dialects.tls import CODES, alert
from simulator.provider.answer import TlsAlert

#: What OpenSSL makes of them.
HEARD = {
    TlsAlert.HANDSHAKE_FAILURE: "HANDSHAKE_FAILURE",
    TlsAlert.ACCESS_DENIED: "ACCESS_DENIED",
    TlsAlert.PROTOCOL_VERSION: "PROTOCOL_VERSION",
    TlsAlert.INTERNAL_ERROR: "INTERNAL_ERROR",
    TlsAlert.UNRECOGNIZED_NAME: "UNRECOGNIZED_NAME",
}


@pytest.mark.parametrize("which", TlsAlert)
def test_an_alert_is_understood_as_what_it_is(which: TlsAlert) -> None:
    heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(heard, said, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    heard.write(alert(which))

    with pytest.raises(ssl.SSLError) as caught:
        client.do_handshake()
    assert HEARD[which] in str(caught.value.reason)


def test_every_alert_has_a_code_of_its_own() -> None:
    assert set(CODES) == set(TlsAlert)
    assert len(set(CODES.values())) == len(CODES)
