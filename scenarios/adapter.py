"""Somebody's sender as a black box at work: workers in process groups of their own, mails handed over, states asked.

Workers are killed with SIGKILL to the group; mails are handed over by command, HTTP or JSON lines. Nothing here
knows what is right or wrong about the mails.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from scenarios.clock import monotonic_s, wait_until
from scenarios.process_groups import RUN, kill_marked
from scenarios.running import Output, Running
from scenarios.sender_file import Door, Hooks, SenderError, SenderFile, fill

#: How long an enqueue or a status may take. Generous: it says "hangs", never "slow".
ANSWER_WITHIN_S = 30.0
#: How shells and interpreters say that they do not find a file or a module.
_NOT_FOUND = re.compile(
    r"no such file|not found|cannot find|can't open|can't find|cannot open|no module", re.I
)


def free_port() -> int:
    """Return a port of this machine that nobody listens on just now."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """How a worker reacted to the stop signal."""

    in_time: bool
    code: int | None


@dataclass(slots=True, kw_only=True)
class Sender:
    """A sender at work in one scenario. Use as a context manager: on leaving nothing of it is alive."""

    file: SenderFile
    places: Mapping[str, str]
    workdir: Path
    workers: list[Running] = field(default_factory=list)
    _talker: Running | None = None
    _ear: Running | None = None
    _started: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def reset(self) -> None:
        """Make it new: run the reset command, if there is one."""
        if self.file.reset:
            self._run("reset", self.file.reset, None)

    def start(self, count: int = 1) -> None:
        """Start workers and return when they are ready. Raises `SenderError` if one does not come up."""
        fresh = [self._spawn("worker", self.file.start, lives_on=True) for _ in range(count)]
        self.workers += fresh
        deadline = monotonic_s() + self.file.timing.start_s
        for worker in fresh:
            self._await_ready(worker, deadline)

    def start_hearing(self) -> None:
        """Start the process that takes webhooks in, if there is one besides the workers."""
        hooks = self.file.webhooks
        if hooks is not None and hooks.command and self._ear is None:
            self._ear = self._spawn("webhooks", hooks.command, lives_on=True)
            self._await_ready(self._ear, monotonic_s() + self.file.timing.start_s, hooks)

    def kill_hearing(self) -> None:
        """kill -9 for whoever takes webhooks in."""
        hooks = self.file.webhooks
        if self._ear is not None:
            self._ear.kill()
            self._ear = None
        elif hooks is not None and not hooks.command:
            self.kill()

    def _await_ready(self, worker: Running, deadline: float, hooks: Hooks | None = None) -> None:
        command, wanted, table = self.file.start, self.file.ready_line, "start"
        if hooks is not None:
            command, wanted, table = hooks.command, hooks.ready_line, "webhooks"
        up = wait_until(
            lambda: (
                True
                if wanted is not None and (worker.out.said_it or worker.err.said_it)
                else False
                if worker.process.poll() is not None
                else None
            ),
            # Without a ready line only a worker that ends at once can be told from a good one.
            timeout_s=max(0.0, deadline - monotonic_s()) if wanted is not None else 0.2,
        )
        if up is False and wanted is not None:
            # What it said last may still be in the pipe: one that goes to the background says it and ends.
            worker.out.end()
            worker.err.end()
            up = worker.out.said_it or worker.err.said_it
        if up or (wanted is None and up is None):
            return
        words = " ".join(command)
        what = "the worker" if table == "start" else "the process"
        if up is False:
            code = worker.process.returncode
            last = worker.last_words()
            last += self._not_found(last, command)
            sentence = f"{what} {words!r} ended at once with exit code {code}"
        else:
            last = worker.last_words()
            sentence = f"{what} {words!r} did not say {wanted!r} within {self.file.timing.start_s:g} s"
        self.kill()
        raise SenderError(f"{self.file.path}: [{table}] {sentence}{last}")

    def kill(self) -> None:
        """kill -9 for every worker and everything they started."""
        for worker in self.workers:
            worker.kill()
        self.workers.clear()

    def kill_talker(self) -> None:
        """kill -9 for the process that enqueues, if it is one that lives on."""
        if self._talker is not None:
            self._talker.kill()
            self._talker = None

    def signal_stop(self) -> None:
        """Ask the workers to stop; do not wait for them."""
        for worker in self.workers:
            try:
                worker.process.send_signal(self.file.stop_signal)
            except ProcessLookupError:
                pass  # It went by itself.

    def await_stop(self) -> list[Stopped]:
        """Wait for workers that were asked to stop; kill those that do not come to an end in time."""
        deadline = monotonic_s() + self.file.stop_timeout_s
        stopped = []
        for worker in self.workers:
            try:
                code = worker.process.wait(timeout=max(0.0, deadline - monotonic_s()))
                stopped.append(Stopped(in_time=True, code=code))
            except subprocess.TimeoutExpired:
                stopped.append(Stopped(in_time=False, code=None))
        self.kill()
        return stopped

    def enqueue(self, mail: Mapping[str, Any]) -> dict[str, Any]:
        """Hand over one mail; return the sender's word that its business transaction is over."""
        answer = self._ask("enqueue", self.file.enqueue, {"op": "enqueue", **mail})
        if answer.get("ok") is not True:
            error = answer.get("error", "no reason given")
            raise SenderError(f"{self.file.path}: [enqueue] refused mail {mail['key']!r}: {error}")
        return answer

    def status(self) -> list[dict[str, Any]] | None:
        """Return the sender's rows; None if it cannot be asked."""
        if self.file.status is None:
            return None
        answer = self._ask("status", self.file.status, {"op": "status"})
        mails = answer.get("mails")
        if not isinstance(mails, list) or not all(isinstance(each, dict) for each in mails):
            raise SenderError(
                f"{self.file.path}: [status] answered without a list 'mails': {json.dumps(answer)[:200]}"
            )
        return mails

    def close(self) -> None:
        """End everything that was started here."""
        self.kill()
        self.kill_hearing()
        self.kill_talker()
        kill_marked(RUN, str(self.workdir), below=True)

    # --- inside -------------------------------------------------------------------------------------

    def _ask(self, table: str, door: Door, question: Mapping[str, Any]) -> dict[str, Any]:
        line = json.dumps(question, ensure_ascii=False)
        if door.process:
            text = self._ask_process(table, door.process, line)
        elif door.http is not None:
            text = self._ask_http(table, fill(door.http, self.places), line)
        else:
            text = self._run(table, door.command, line)
        if table == "enqueue" and not door.process and not text.strip():
            # It said by its exit code (or its 2xx) that the mail is committed; there may be nothing to add.
            return {"ok": True}
        try:
            answer = json.loads(text)
        except ValueError as error:
            given = text.strip()[:200]
            said = f"answered {given!r}, which is no JSON" if given else "answered nothing"
            extra = self._talker.last_words() if self._talker is not None and door.process else ""
            raise SenderError(
                f'{self.file.path}: [{table}] {said}; right would be one line like {{"ok": true}}{extra}'
            ) from error
        if not isinstance(answer, dict):
            raise SenderError(
                f"{self.file.path}: [{table}] answered {text.strip()[:200]!r}; right would be a JSON object"
            )
        return answer

    def _ask_process(self, table: str, command: tuple[str, ...], line: str) -> str:
        if self._talker is None:
            self._talker = self._spawn(table, command, talks=True, lives_on=True)
        talker = self._talker
        assert talker.process.stdin is not None
        asked_s = monotonic_s()
        # Who is gone by now may have said something all the same.
        with contextlib.suppress(OSError):
            talker.process.stdin.write(line.encode() + b"\n")
            talker.process.stdin.flush()
        answer = talker.out.next_line(ANSWER_WITHIN_S)
        if answer is not None:
            return answer
        if monotonic_s() - asked_s < ANSWER_WITHIN_S:
            # Its output ended or its input broke, so it is about to be gone; that may be known a moment later.
            with contextlib.suppress(subprocess.TimeoutExpired):
                talker.process.wait(timeout=1.0)
        code = talker.process.poll()
        happened = (
            f"ended with exit code {code}" if code is not None else f"was silent for {ANSWER_WITHIN_S:g} s"
        )
        last = talker.last_words()
        last += self._not_found(last, command)
        self.kill_talker()
        raise SenderError(
            f"{self.file.path}: [{table}] process {' '.join(command)!r} {happened} instead of answering{last}"
        )

    def _ask_http(self, table: str, url: str, line: str) -> str:
        try:
            reply = httpx.post(
                url, content=line, headers={"Content-Type": "application/json"}, timeout=ANSWER_WITHIN_S
            )
        except httpx.HTTPError as error:
            raise SenderError(f"{self.file.path}: [{table}] http {url!r} cannot be asked: {error}") from error
        if reply.is_error:
            raise SenderError(
                f"{self.file.path}: [{table}] http {url!r} answered {reply.status_code}: {reply.text[:200]}"
            )
        return reply.text

    def _run(self, table: str, command: tuple[str, ...], line: str | None) -> str:
        running = self._spawn(table, command, talks=line is not None)
        process = running.process
        try:
            if line is not None:
                assert process.stdin is not None
                try:
                    process.stdin.write(line.encode() + b"\n")
                    process.stdin.close()
                except BrokenPipeError:
                    pass  # It ended without reading; its exit code says more.
            code = process.wait(timeout=ANSWER_WITHIN_S)
        except subprocess.TimeoutExpired as error:
            raise SenderError(
                f"{self.file.path}: [{table}] {' '.join(command)!r} did not end within {ANSWER_WITHIN_S:g} s"
                f"{running.last_words()}"
            ) from error
        finally:
            running.kill()
        if code != 0:
            last = running.last_words()
            raise SenderError(
                f"{self.file.path}: [{table}] {' '.join(command)!r} ended with exit code {code}"
                f"{last}{self._not_found(last, command)}"
            )
        last = ""
        while (said := running.out.next_line(0.0)) is not None:
            last = said if said.strip() else last
        return last

    def _spawn(
        self, what: str, command: tuple[str, ...], *, talks: bool = False, lives_on: bool = False
    ) -> Running:
        self._started += 1
        words = [fill(word, self.places) for word in command]
        env = dict(os.environ)
        # Commands that were installed beside this interpreter are found without an activated environment.
        env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])
        env |= {name: fill(value, self.places) for name, value in self.file.env}
        name = f"{what}-{self._started}"
        env[RUN] = f"{self.workdir}/{name}"
        awaited = self.file.ready_line if what == "worker" else None
        if what == "webhooks" and self.file.webhooks is not None:
            awaited = self.file.webhooks.ready_line
        try:
            process = subprocess.Popen(
                words,
                cwd=self.workdir,
                env=env,
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            table = "start" if what == "worker" else what
            raise SenderError(
                f"{self.file.path}: [{table}] cannot start {' '.join(words)!r}: {error.strerror or error}"
                f"{self._not_found(error.strerror or '', command)}"
            ) from error
        assert process.stdout is not None
        assert process.stderr is not None
        return Running(
            what=what,
            process=process,
            out=Output(process.stdout, self.workdir / f"{name}.out", awaited=awaited, answers=talks),
            err=Output(process.stderr, self.workdir / f"{name}.err", awaited=awaited),
            mark=env[RUN] if lives_on else "",
        )

    def _not_found(self, said: str, command: tuple[str, ...]) -> str:
        """Return what to write if a command was meant to be looked for beside the sender file, and was not there."""
        if not _NOT_FOUND.search(said):
            return ""
        here = self.file.path.resolve().parent
        for before, word in pairwise(("", *command)):
            if before == "-m":
                module = word.split(".")[0]
                if any((here / name).exists() for name in (f"{module}.py", module)):
                    return f"; commands run in a folder of their own: for {word!r} write PYTHONPATH = '{{here}}' in [env]"
            elif word and not word.startswith(("-", "/", "{")) and (here / word).is_file():
                return f"; commands run in a folder of their own: for {word!r} write '{{here}}/{word.removeprefix('./')}'"
        return ""
