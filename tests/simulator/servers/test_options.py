"""What `simulator serve` is asked for: addresses are read, or refused in a sentence that names the option."""

from __future__ import annotations

import pytest

from simulator.servers.options import Address, ServeError, read_address


@pytest.mark.parametrize(
    ("text", "host", "port", "again"),
    [
        ("127.0.0.1:8025", "127.0.0.1", 8025, "127.0.0.1:8025"),
        ("localhost:0", "127.0.0.1", 0, "127.0.0.1:0"),
        ("[::1]:25", "::1", 25, "[::1]:25"),
        (":25", "127.0.0.1", 25, "127.0.0.1:25"),
        ("25", "127.0.0.1", 25, "127.0.0.1:25"),
    ],
)
def test_an_address_is_read(text: str, host: str, port: int, again: str) -> None:
    """A port alone means this machine."""
    address = read_address(text, "--http")

    assert address == Address(host=host, port=port)
    assert str(address) == again


@pytest.mark.parametrize(
    "text", ["", "host", "host:", "host:http", "host:65536", "::1:25", "host:-1", "host:٣"]
)
def test_a_bad_address_is_one_sentence(text: str) -> None:
    """It names the option and what would be right."""
    with pytest.raises(ServeError, match=r"^--smtp is '.*'; (it must be HOST:PORT|an IPv6 address needs)"):
        read_address(text, "--smtp")


@pytest.mark.parametrize(
    "text", ["http://127.0.0.1:8025", "http://localhost", "smtp://[::1]:25", "http://:25/"]
)
def test_a_url_is_no_address(text: str) -> None:
    """Whoever gives one hears what is too much."""
    with pytest.raises(ServeError, match=r"^--http is '.*'; it must be HOST:PORT without a scheme, like "):
        read_address(text, "--http")
