"""Whom the control API lets in."""

from __future__ import annotations

import httpx
import pytest

from simulator.servers.control import PREFIX, is_loopback
from simulator.servers.options import Address
from tests.simulator.running import Running, running


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "10.0.0.1"])
def test_a_rebound_host_name_is_kept_out(web: httpx.Client, host: str) -> None:
    """A page whose name resolves to this machine still says its own name."""
    answer = web.get("health", headers={"Host": host})

    assert answer.status_code == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1:99", "[::1]:99", "127.9.9.9"])
def test_the_machines_own_names_are_let_in(web: httpx.Client, host: str) -> None:
    """Whatever the port."""
    assert web.get("health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:3000"])
def test_another_sites_page_is_kept_out(simulator: Running, web: httpx.Client, origin: str) -> None:
    """Browsers send Origin with what could change something."""
    assert web.post("reset", headers={"Origin": origin}).status_code == 403
    assert web.post("reset", headers={"Origin": simulator.service.ready["http"]}).status_code == 200


def test_an_admin_token_is_asked_of_everybody() -> None:
    """With a token the host name does not matter any more, without it nobody gets in."""
    with running(admin_token="s3cret", http=Address(host="0.0.0.0", port=0)) as service:
        url = f"http://127.0.0.1:{service.service.http_port}{PREFIX}"
        with httpx.Client(base_url=url, trust_env=False) as web:
            assert web.get("health").status_code == 401
            assert web.get("health", headers={"Authorization": "Bearer wrong"}).status_code == 401
            assert web.get("health", headers={b"Authorization": b"Bearer gr\xfc\xdfe"}).status_code == 401
            known = {"Authorization": "Bearer s3cret", "Host": "simulator:8025"}
            assert web.get("health", headers=known).status_code == 200
            assert web.get("health", headers={**known, "Origin": "https://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("0.0.0.0", False),
        ("", False),
        ("localhost.evil.example", False),
        ("10.0.0.1", False),
    ],
)
def test_loopback_is_recognised(host: str, expected: bool) -> None:
    """By name or by address, and nothing that only looks like it."""
    assert is_loopback(host) is expected
