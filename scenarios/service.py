"""The simulator as the stage uses it: a process of its own, and its control API.

A stage gets a fresh account state by `reset`; the process is kept for the next scenario, because starting
it costs more than most scenarios. Nothing here judges.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from scenarios.clock import wait_until
from scenarios.running import Output, Running
from simulator.client import ControlClient

START_WITHIN_S = 60.0


class ServiceError(Exception):
    """The simulator itself does not do its work; nothing can be said about any sender. One sentence."""


class Service:
    """One simulator process and a client for its control API. Use as a context manager."""

    def __init__(self, workdir: Path, *, seed: int = 0) -> None:
        self._workdir = workdir
        self._seed = seed
        self._running: Running | None = None
        self._client: ControlClient | None = None
        self.http_url = ""
        self.smtp_host = ""
        self.smtp_port = ""
        self.version = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the simulator on free ports and wait until every listener is up."""
        ready_file = self._workdir / "ready.json"
        ready_file.unlink(missing_ok=True)
        command = [
            *(sys.executable, "-c", "from simulator.cli import main; main()", "serve"),
            *("--http", "127.0.0.1:0", "--smtp", "127.0.0.1:0"),
            *("--ledger", str(self._workdir / "ledger.db")),
            *("--seed", str(self._seed), "--ready-file", str(ready_file)),
        ]
        process = subprocess.Popen(
            command,
            cwd=self._workdir,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=dict(os.environ),
        )
        assert process.stdout is not None
        assert process.stderr is not None
        self._running = Running(
            what="simulator",
            process=process,
            out=Output(process.stdout, self._workdir / "simulator.out"),
            err=Output(process.stderr, self._workdir / "simulator.err"),
        )
        facts = wait_until(lambda: self._read_ready(ready_file), timeout_s=START_WITHIN_S)
        if not facts:
            running = self._running
            last = running.last_words()
            self.stop()
            raise ServiceError(f"the simulator did not start{last}")
        self.http_url = str(facts["http"])
        self.smtp_host, _, self.smtp_port = str(facts["smtp"]).rpartition(":")
        self.version = str(facts.get("version", ""))
        self._client = ControlClient(str(facts["control"]), timeout_s=60.0)

    def _read_ready(self, ready_file: Path) -> dict[str, Any] | None:
        assert self._running is not None
        try:
            facts = json.loads(ready_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            # Not there yet, or half written; an empty dict says that it never will be.
            return {} if self._running.process.poll() is not None else None
        return facts if isinstance(facts, dict) else None

    def stop(self) -> None:
        """Kill it: it promises to lose nothing by that."""
        if self._client is not None:
            self._client.close()
            self._client = None
        self.kill()
        self._running = None

    def kill(self) -> None:
        """kill -9 for the simulator."""
        if self._running is not None:
            self._running.kill()

    # --- the control API ----------------------------------------------------------------------------

    @property
    def control(self) -> ControlClient:
        """The client of the control API."""
        assert self._client is not None, "start() comes first"
        return self._client

    def fresh(self, timeout_s: float = 3.0) -> None:
        """Make it as if nothing had ever been; if an old attempt does not end, begin with a new process.

        A late acceptance of a former scenario would be a phantom in the next one.
        """
        if self._running is None or self._running.process.poll() is not None:
            # One scenario in which the simulator died must not take the others with it.
            self.stop()
            self.start()
        self.control.heal(all=True)
        self.control.release()
        if not wait_until(lambda: None if self.under_way() else True, timeout_s=timeout_s):
            self.stop()
            self.start()
        self.control.reset()

    def under_way(self) -> int:
        """Return how many attempts go on; a kept-alive connection without a mail is nobody's attempt."""
        return sum(
            each.get("state") != "closed" and bool(each.get("recipients")) for each in self.control.attempts()
        )

    def fired(self) -> dict[str, int]:
        """Return how often each rule of the plan struck."""
        return {str(rule["name"]): int(rule["fired"]) for rule in self.control.plan()["rules"]}
