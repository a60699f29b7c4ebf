"""The broker that tests use: the RabbitMQ that MAILPROOF_AMQP_URL names, else the one of this machine.

With CI=true a missing broker is a failure, elsewhere a printed skip.
"""

from __future__ import annotations

import os

import pika
import pytest
from pika.exceptions import AMQPError

AMQP_URL = os.environ.get("MAILPROOF_AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/%2F?socket_timeout=3")


def broker() -> str:
    """The URL of a broker that answers; without one the test ends here."""
    try:
        pika.BlockingConnection(pika.URLParameters(AMQP_URL)).close()
    except (AMQPError, OSError) as error:
        place = AMQP_URL.rpartition("@")[2]
        reason = f"no RabbitMQ answers at {place}: {type(error).__name__}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return AMQP_URL
