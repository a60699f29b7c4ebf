"""A CA for all tests of this folder."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from simulator.servers.tls import Tls, TlsOptions


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """Certificates that are good, and bad ones on demand."""
    return Tls(TlsOptions(folder=tmp_path_factory.mktemp("tls")), names=(), now=datetime.now(UTC))
