"""`simulator serve` as people run it: signals, kill -9, a second one on the same ledger."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import smtplib
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Self

import pytest

from simulator.client import ControlClient, ControlError
from simulator.servers.options import Options, ServeError
from simulator.servers.serve import serve
from simulator.store.sqlite import SqliteStore
from tests.simulator.running import ANY_PORT, PATIENCE_S, Sender, mail, request


class Process:
    """`simulator serve` as people run it."""

    def __init__(self, tmp_path: Path, *options: str) -> None:
        self.ready_file = tmp_path / "ready.json"
        self.ready_file.unlink(missing_ok=True)
        self._command = [
            *(sys.executable, "-c", "from simulator.cli import main; main()", "serve"),
            *("--http", "127.0.0.1:0", "--smtp", "127.0.0.1:0", "--seed", "7"),
            *("--ledger", str(tmp_path / "ledger.db"), "--ready-file", str(self.ready_file), *options),
        ]

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + PATIENCE_S
        while not self.ready_file.exists():
            assert self.process.poll() is None, self.process.communicate()[1]
            assert time.monotonic() < deadline, "the simulator did not get ready"
            time.sleep(0.005)
        self.ready = json.loads(self.ready_file.read_text())
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGKILL)

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal; return exit code and what was said on stderr."""
        self.process.send_signal(number)
        said = self.process.communicate(timeout=PATIENCE_S)[1] if not self._is_over() else ""
        return self.process.returncode, said

    def _is_over(self) -> bool:
        return self.process.stderr is None or self.process.stderr.closed

    @property
    def http(self) -> tuple[str, int]:
        return "127.0.0.1", int(self.ready["http"].rpartition(":")[2])

    @property
    def smtp(self) -> tuple[str, int]:
        return "127.0.0.1", int(self.ready["smtp"].rpartition(":")[2])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    """Exit code 0, no traceback, the ready file and SQLite's side files are gone, the mail is there."""
    with Process(tmp_path) as simulator:
        with Sender(simulator.http) as sender:
            assert sender.say(request(mail())).see().status == 200
        code, said = simulator.end(number)

    assert (code, "Traceback" in said) == (0, False), said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.db"]
    store = SqliteStore(tmp_path / "ledger.db")
    assert len(store.messages("default").found) == 1
    store.close()


def test_a_second_serve_on_the_same_ledger_is_refused(tmp_path: Path) -> None:
    """One sentence, exit code 2; the first goes on."""
    (tmp_path / "second").mkdir()
    with Process(tmp_path) as first:
        done = subprocess.run(
            [
                *(sys.executable, "-c", "from simulator.cli import main; main()", "serve", "--http", ":0"),
                *("--smtp", ":0", "--ledger", str(tmp_path / "ledger.db")),
                *("--ready-file", str(tmp_path / "second" / "ready.json")),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 2
        assert done.stderr.startswith("simulator: the ledger ")
        assert done.stderr.count("\n") == 1
        assert "in use by another simulator" in done.stderr
        assert list((tmp_path / "second").iterdir()) == []
        with ControlClient(first.ready["control"]) as control:
            assert control.health()["status"] == "ok"


# --- kill -9 under load -----------------------------------------------------------------------------


class Load:
    """Senders that hand in mail until the line breaks, and remember every yes they heard."""

    def __init__(self, simulator: Process, round_: int) -> None:
        self._simulator = simulator
        self._round = round_
        self.answered: dict[str, str] = {}
        """Recipient -> what was told (HTTP: the id; SMTP: nothing)."""
        self.retry: dict[str, bytes] = {}
        """Recipient -> the HTTP request that got no answer."""
        self.enough = threading.Event()
        """Set when there is something to lose."""

    def heard(self, to: str, told: str) -> None:
        self.answered[to] = told
        if len(self.answered) >= 5:
            self.enough.set()

    def over_http(self, worker: int) -> None:
        with contextlib.suppress(OSError), Sender(self._simulator.http) as sender:
            for number in range(100_000):
                to = f"h{self._round}-{worker}-{number}@example.com"
                data = request(mail(to=[to]), key=to)
                self.retry[to] = data
                seen = sender.say(data).see()
                if seen.end != "open":
                    return
                assert seen.status == 200
                del self.retry[to]
                self.heard(to, seen.json["id"])

    def over_smtp(self, worker: int) -> None:
        with contextlib.suppress(OSError, smtplib.SMTPException):
            client = smtplib.SMTP(*self._simulator.smtp, timeout=PATIENCE_S)
            try:
                for number in range(100_000):
                    to = f"s{self._round}-{worker}-{number}@example.com"
                    client.sendmail("shop@example.org", [to], f"Message-ID: <{to}>\r\n\r\nThank you!\r\n")
                    self.heard(to, "")
            finally:
                client.close()


def test_kill_nine_loses_nothing_that_was_answered_and_books_nothing_twice(tmp_path: Path) -> None:
    """Under load over both wires, killed at seeded moments, several times over the same ledger."""
    dice = random.Random(20_260_102)
    answered: dict[str, str] = {}
    unanswered: dict[str, bytes] = {}
    for round_ in range(5):
        durability = ("--durability", ("process", "power")[round_ % 2])
        with Process(tmp_path, *durability) as simulator:
            # Who got no answer from the last process asks this one with the same key.
            for to, data in unanswered.items():
                with Sender(simulator.http) as sender:
                    seen = sender.say(data).see()
                    assert seen.status == 200
                    answered[to] = seen.json["id"]
            load = Load(simulator, round_)
            workers = [
                threading.Thread(target=work, args=(worker,))
                for work in (load.over_http, load.over_smtp)
                for worker in range(3)
            ]
            for worker in workers:
                worker.start()
            assert load.enough.wait(PATIENCE_S)
            # The moment of death is the test's input, not a signal that is waited for.
            time.sleep(dice.uniform(0.0, 0.3))
            simulator.end(signal.SIGKILL)
            for worker in workers:
                worker.join(PATIENCE_S)
        answered |= load.answered
        unanswered = load.retry

    with Process(tmp_path) as simulator, ControlClient(simulator.ready["control"]) as control:
        messages = control.messages()
        copies = Counter(recipient for each in messages for recipient in each["recipients"])
        ids = {each["recipients"][0]: each["id"] for each in messages}
        missing = [to for to in answered if to not in copies]
        other = [to for to, told in answered.items() if told and ids.get(to) != told]
        for each in dice.sample(messages, 20):
            assert each["message_id"].encode() in control.raw(each["id"])
    assert len(answered) > 50
    assert any(to.startswith("s") for to in answered)
    assert missing == []
    assert other == []
    assert [to for to, count in copies.items() if count > 1] == []


def test_an_answer_held_at_the_moment_of_death_was_booked(tmp_path: Path) -> None:
    """Booked before it is held: the next process knows the mail, and that nobody was told."""
    with Process(tmp_path) as simulator, ControlClient(simulator.ready["control"]) as control:
        control.add_rules({"fault": "accept_then_hold"})
        with Sender(simulator.http) as sender:
            sender.say(request(mail(), key="order-1"))
            control.wait_for_attempts(state="held")
            simulator.end(signal.SIGKILL)
            assert sender.see().end in ("eof", "reset")

    with Process(tmp_path) as simulator, ControlClient(simulator.ready["control"]) as control:
        (attempt,) = control.attempts()
        assert (attempt["accepted"], attempt["sent"], attempt["state"]) == (["ada@example.com"], "unknown", "closed")  # fmt: skip
        assert [rule["fault"] for rule in control.plan()["rules"]] == ["accept_then_hold"]
        control.heal()
        with Sender(simulator.http) as sender:
            assert sender.say(request(mail(), key="order-1")).see().headers["idempotency-replayed"] == "true"
        assert len(control.messages()) == 1


def test_only_as_much_is_kept_as_was_asked_for(tmp_path: Path) -> None:
    """By options of `serve`; and the process says so, and what a yes survives."""
    bounds = ("--keep-count", "2", "--keep-age", "7 days", "--durability", "power")
    with Process(tmp_path, *bounds) as simulator, ControlClient(simulator.ready["control"]) as control:
        with Sender(simulator.http) as sender:
            for number in range(4):
                sender.say(request(mail(subject=str(number)), key=f"k{number}")).see()
        assert [each["subject"] for each in control.messages()] == ["2", "3"]
        code, said = simulator.end(signal.SIGTERM)

    assert code == 0
    assert "survives a power cut; kept: 7 days, 2 mails" in " ".join(said.split())


def test_a_rule_that_was_to_strike_twice_does_not_begin_anew(tmp_path: Path) -> None:
    """Neither one of the plan file nor one that was set over the control API, after kill -9; and the start says so."""
    (tmp_path / "plan.toml").write_text('rules = ["503 first 2"]')

    def statuses(simulator: Process, account: str) -> list[int]:
        data = request(mail(), headers={"Authorization": f"Bearer {account}"})
        with Sender(simulator.http) as sender:
            return [sender.say(data).see().status for _ in range(2)]

    plan = ("--plan", str(tmp_path / "plan.toml"))
    with Process(tmp_path, *plan) as simulator:
        with ControlClient(simulator.ready["control"], "shop") as shop:
            shop.set_plan({"rules": ["502 once per mail", "500 once"]})
        assert statuses(simulator, "default") == [503, 503]
        assert statuses(simulator, "shop") == [502, 500]
        # So that something is written after it: what struck is kept with that. (What only met a rule may wait.)
        assert statuses(simulator, "shop") == [200, 200]
        simulator.end(signal.SIGKILL)

    with Process(tmp_path, *plan) as simulator:
        assert statuses(simulator, "default") == [200, 200]
        assert statuses(simulator, "shop") == [200, 200]
        _, said = simulator.end(signal.SIGTERM)
    assert "1 rule of account default struck before this start and will not again" in said
    assert "account shop goes on with the plan that was set before this start" in said


def test_a_client_of_a_dead_simulator_says_so(tmp_path: Path) -> None:
    """One sentence that says how to start one."""
    with Process(tmp_path) as simulator:
        simulator.end(signal.SIGKILL)
    with (
        ControlClient(simulator.ready["control"]) as control,
        pytest.raises(ControlError, match="start one with: simulator serve"),
    ):
        control.health()


def test_what_never_ends_cannot_be_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--until-eof` on a file is refused in one sentence; the kernel does not wait for files."""
    (tmp_path / "in").touch()
    with (tmp_path / "in").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        with pytest.raises(ServeError, match="--until-eof needs a pipe or a terminal as standard input"):
            serve(Options(http=ANY_PORT, smtp=ANY_PORT, until_eof=True))
