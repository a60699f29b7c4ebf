"""Where the server is decides how the line to it is protected, where nobody has said so."""

from __future__ import annotations

import pytest

from reference_sender.transports.smtp_options import SmtpOptions, Tls


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [
        ("localhost", 1025, Tls.OFF),
        ("127.0.0.1", 587, Tls.OFF),
        ("::1", 25, Tls.OFF),
        ("mail.example.com", 587, Tls.STARTTLS),
        ("mail.example.com", 465, Tls.IMPLICIT),
        ("192.0.2.1", 25, Tls.STARTTLS),
    ],
)
def test_without_a_word_only_this_machine_is_spoken_to_in_the_clear(
    host: str, port: int, expected: Tls
) -> None:
    assert SmtpOptions(host=host, port=port).tls_now is expected
    assert SmtpOptions(host=host, port=port, tls=Tls.OFF).tls_now is Tls.OFF
