"""A running simulator and its clients, for every test of the control API."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from simulator.client import ControlClient
from tests.simulator.running import Running, running


@pytest.fixture(scope="module")
def simulator() -> Iterator[Running]:
    with running() as service:
        yield service


@pytest.fixture
def control(simulator: Running) -> Iterator[ControlClient]:
    with simulator.control() as control:
        control.release()
        control.reset()
        yield control
        control.release()


@pytest.fixture
def web(simulator: Running) -> Iterator[httpx.Client]:
    """A plain client, for what the typed one would never ask."""
    with httpx.Client(base_url=simulator.service.ready["control"], trust_env=False) as client:
        yield client
