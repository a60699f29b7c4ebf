"""The control API: how tests, harnesses and people set the plan, read the ledger and ask for the verdict.

It reads and commands the provider, decides nothing of its own, and lets only those in who may command:
without an admin token that is this machine, and no web page that a browser on this machine happens to show.
"""

from __future__ import annotations

from simulator.servers.control.app import ControlApi
from simulator.servers.control.endpoint import PREFIX
from simulator.servers.control.guard import is_loopback
from simulator.servers.control.moves import Moves

__all__ = ["PREFIX", "ControlApi", "Moves", "is_loopback"]
