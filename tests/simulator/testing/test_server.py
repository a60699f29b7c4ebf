"""A simulator in a process of its own."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import smtplib
import ssl
import subprocess
import sys
import textwrap
from pathlib import Path

import httpx
import pytest

import simulator
from simulator.testing import Server, StartError, start
from tests.simulator.running import mail


def test_one_line_starts_a_provider_and_the_block_ends_it() -> None:
    """With its plan in force from the first mail on."""
    with simulator.start(plan=["503 once"]) as provider:
        url = provider.url
        for _ in range(2):
            last = httpx.post(f"{url}/v1/emails", json=mail(), trust_env=False)
        assert last.status_code == 200
        provider.assert_exactly_once("ada@example.com")
        pid = provider.control.health()["version"] and provider._server.facts["pid"]  # type: ignore[attr-defined]

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)


def test_what_cannot_start_says_why() -> None:
    """In the words of the simulator, and nothing is left behind."""
    with pytest.raises(StartError, match=r'the simulator did not start: .*"explode"'):
        start(plan=[{"fault": "explode"}])
    with pytest.raises(StartError, match="No such option"):
        start(options=["--nonsense"])


def test_a_server_is_stopped_once_or_twice() -> None:
    """Neither is a mistake, and an account of it is a provider."""
    with Server(seed=11) as server, server.account("shop") as provider:
        assert provider.control.health()["seed"] == 11
        assert provider.account == "shop"
        server.stop()
    server.stop()


def test_senders_are_served_under_tls_where_that_is_asked_for() -> None:
    """Over both wires, by a CA of its own that is gone afterwards; and TLS goes wrong as it was told to."""
    with simulator.start(tls=True, plan=["expired certificate first 2"]) as provider:
        assert provider.https is not None
        assert provider.smtps is not None
        assert provider.ca is not None
        trusting = ssl.create_default_context(cafile=provider.ca)
        statuses: list[int | str] = []
        with httpx.Client(verify=trusting, trust_env=False) as client:
            for _ in range(2):
                try:
                    statuses.append(client.post(f"{provider.https}/v1/emails", json=mail()).status_code)
                except httpx.ConnectError as problem:
                    statuses.append("expired" if "has expired" in str(problem) else str(problem))
                with contextlib.suppress(ssl.SSLCertVerificationError):
                    smtplib.SMTP_SSL(*provider.smtps, context=trusting).quit()
        assert statuses == ["expired", 200]
        with provider.sibling("shop") as shop:
            assert (shop.https, shop.smtps, shop.ca) == (provider.https, provider.smtps, provider.ca)
    assert not Path(provider.ca).exists()


def test_it_dies_with_the_test_run() -> None:
    """Even if that is killed and cannot say goodbye: nobody wants to find a provider on the machine next week."""
    program = """
        import os, signal, simulator
        provider = simulator.start()
        print(provider._server.facts["pid"], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    try:
        gone = os.pidfd_open(int(done.stdout))
    except ProcessLookupError:
        return  # Faster than we could look.
    try:
        poll = select.poll()
        poll.register(gone, select.POLLIN)
        assert poll.poll(30_000), "it is still there"
    finally:
        os.close(gone)
