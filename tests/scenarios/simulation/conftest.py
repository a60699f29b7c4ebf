"""Fixtures for the world: a certificate made once for all tests."""

from __future__ import annotations

import ssl

import pytest


@pytest.fixture(scope="session")
def tls() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return contexts for server and client that know each other."""
    import trustme

    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("provider.example").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client
