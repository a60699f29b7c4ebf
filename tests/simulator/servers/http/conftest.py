"""One simulator for all tests of the HTTP server: each begins with it healthy and empty."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.simulator.running import Running, running


@pytest.fixture(scope="package")
def simulator() -> Iterator[Running]:
    with running() as service:
        yield service


@pytest.fixture(autouse=True)
def _clean(simulator: Running, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Each test begins with a healthy, empty provider, and none makes the server complain."""
    with simulator.control() as control:
        control.release()
        control.reset()
        yield
        control.release()
        control.heal()
    complaints = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert complaints == []
