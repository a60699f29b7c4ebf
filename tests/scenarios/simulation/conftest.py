"""Fixtures for the world: a certificate made once for all tests, and a quiet end for the dead."""

from __future__ import annotations

import gc
import ssl
import warnings
from collections.abc import Iterator

import pytest
import trustme


@pytest.fixture(scope="session")
def tls() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return contexts for server and client that know each other."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("provider.example").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


@pytest.fixture(autouse=True)
def _the_dead_are_buried() -> Iterator[None]:
    """Sessions and connectors of killed processes complain that nobody closed them: that is what a kill is."""
    # What earlier tests left behind is theirs, and may complain. What they keep is looked through once, not for each test.
    gc.collect()
    gc.freeze()
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
