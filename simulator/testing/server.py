"""A simulator in a process of its own, for as long as a test needs it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from simulator.testing.mail_provider import DEFAULT_ACCOUNT, MailProvider, Plan, as_plan

#: How long a simulator may take to start, in seconds: a busy machine of a CI is slow.
START_WITHIN_S = 60.0
STOP_WITHIN_S = 10.0

#: What of the environment is meant for the test run and not for the simulator.
_NOT_FOR_IT = (
    "PYTHONWARNINGS",
    "COVERAGE_PROCESS_START",
    "COV_CORE_SOURCE",
    "COV_CORE_CONFIG",
    "PYTHONDEVMODE",
)


class StartError(Exception):
    """The simulator did not start. The message says why, in its own words."""


class Server:
    """One simulator process. Use it as a context manager, or `start` and `stop` it."""

    def __init__(
        self,
        *,
        plan: Plan = None,
        ledger: str = "memory",
        seed: int = 0,
        tls: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        """`plan` is what every account begins with, `options` are further ones of `simulator serve`.

        `tls`: senders are served under TLS, too (HTTPS, SMTPS, STARTTLS), by a CA that is made for it.
        """
        self._tls = tls
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._plan = plan
        self._ledger = ledger
        self._seed = seed
        self._options = tuple(options)
        self._process: subprocess.Popen[bytes] | None = None
        self._last_words: deque[bytes] = deque(maxlen=20)
        self.facts: dict[str, Any] = {}
        """What `simulator serve --ready-file` says: addresses, pid, version."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and wait until every listener is up. Raises `StartError`."""
        plan = as_plan(self._plan)
        with tempfile.TemporaryDirectory(prefix="simulator-") as folder:
            options = [*self._options, *self._for_tls()]
            if plan is not None:
                written = Path(folder, "plan.json")
                written.write_text(json.dumps(plan), encoding="utf-8")
                options += ["--plan", str(written)]
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-c", "from simulator.cli import main; main()", "serve"),
                    *("--http", "127.0.0.1:0", "--smtp", "127.0.0.1:0", "--ledger", self._ledger),
                    *("--seed", str(self._seed), "--ready-file", "-", "--until-eof", *options),
                ],
                stdin=subprocess.PIPE,  # Whatever becomes of us, it ends: the simulator stops when it is closed.
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={name: value for name, value in os.environ.items() if name not in _NOT_FOR_IT},
                start_new_session=True,  # Ctrl-C is for the test run, which then stops it.
            )
            self._listener = _listen(self._process, self._last_words)
            line = _first_line(self._process)
        try:
            self.facts = json.loads(line)
        except ValueError as problem:
            self.stop()
            said = b"".join(self._last_words).decode(errors="replace").strip().rpartition("\n")[2]
            raise StartError(f"the simulator did not start: {said or 'it said nothing'}") from problem

    def _for_tls(self) -> list[str]:
        if not self._tls:
            return []
        self._folder = tempfile.TemporaryDirectory(prefix="simulator-tls-")
        anywhere = "127.0.0.1:0"
        return ["--https", anywhere, "--smtps", anywhere, "--starttls", "--tls-dir", self._folder.name]

    def stop(self) -> None:
        """Stop it; once more is no mistake."""
        self._stop()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with process:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
            self._listener.join(STOP_WITHIN_S)

    @property
    def under_tls(self) -> dict[str, str | None]:
        """Where it serves under TLS, and the file of its CA: arguments of `MailProvider`."""
        return {name: self.facts.get(name) for name in ("smtps", "https", "ca")}

    def account(self, name: str = "default") -> MailProvider:
        """Return the provider as one account of it sees it."""
        return MailProvider(str(self.facts["http"]), str(self.facts["smtp"]), name, **self.under_tls)


class _Started(MailProvider):
    """The default account of a simulator that ends with it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        super().__init__(
            str(server.facts["http"]), str(server.facts["smtp"]), DEFAULT_ACCOUNT, **server.under_tls
        )

    def close(self) -> None:
        super().close()
        self._server.stop()


def start(
    *,
    plan: Plan = None,
    ledger: str = "memory",
    seed: int = 0,
    tls: bool = False,
    options: Sequence[str] | Mapping[str, str] = (),
) -> MailProvider:
    """Start a simulator on free ports of this machine; it stops at the end of the `with` block.

    `plan`: the name of one that comes along (`"greylist"`), a list of rules (`["503 first 2"]`), a whole plan as a
    dictionary, or the path of a file. `ledger`: `memory` or the path of a SQLite file. `tls`: serve under TLS, too (`https`,
    `smtps`, STARTTLS; trust `ca`). `options`: further options of `simulator serve`. Raises `StartError`.
    """
    given = [part for pair in options.items() for part in pair] if isinstance(options, Mapping) else options
    server = Server(plan=plan, ledger=ledger, seed=seed, tls=tls, options=given)
    server.start()
    try:
        return _Started(server)
    except BaseException:
        server.stop()
        raise


def _listen(process: subprocess.Popen[bytes], last_words: deque[bytes]) -> threading.Thread:
    """Let somebody read what it says, so that it never waits for a reader, and keep the end of it."""
    assert process.stderr is not None
    listener = threading.Thread(
        target=lambda out: last_words.extend(out), args=(process.stderr,), daemon=True
    )
    listener.start()
    return listener


def _first_line(process: subprocess.Popen[bytes]) -> bytes:
    """Return what it says when it is up; empty if it ends before or takes too long."""
    assert process.stdout is not None
    lines: queue.Queue[bytes] = queue.Queue()
    # A thread, because a pipe cannot be waited for in the same way on every system.
    threading.Thread(
        target=lambda out: lines.put(out.readline()), args=(process.stdout,), daemon=True
    ).start()
    try:
        return lines.get(timeout=START_WITHIN_S)
    except queue.Empty:
        process.kill()
        return b""
