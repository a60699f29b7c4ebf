"""The listener: starts on any port, stops within its grace, and cuts what is left."""

from __future__ import annotations

from tests.simulator.running import Sender, ask, running
from tests.simulator.servers.http.provider import SEND


def test_a_stopped_server_ends_idle_and_held_connections() -> None:
    """Nobody is left on an open line with nobody behind."""
    hold = {"rules": [{"fault": "hold", "stage": "request"}]}
    with running(hold) as service, Sender(service.http) as idle, Sender(service.http) as held:
        with service.control() as control:
            held.say(SEND)
            control.wait_for_attempts(state="held")
        service.stop()

        assert idle.end() in ("eof", "reset")
        assert held.end() in ("eof", "reset")


def test_two_servers_do_not_share_anything() -> None:
    with running() as one, running() as two:
        told = ask(one, SEND).json["id"]
        with one.control() as control, two.control() as other:
            assert [each["id"] for each in control.messages()] == [told]
            assert other.messages() == []
