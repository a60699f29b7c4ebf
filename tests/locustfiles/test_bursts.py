"""The bursts, as whoever runs them does: a process of their own, for a moment, against a provider of this one.

Never imported here: gevent would patch the sockets of every other test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.simulator.running import Running, running

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "locustfiles"


def burst(
    simulator: Running, tmp_path: Path, *options: str, more: Mapping[str, str] | None = None
) -> tuple[int, str, dict[str, int]]:
    """Run a burst; return its exit code, what it said, and how often each request that it timed failed."""
    host, port = simulator.smtp
    done = subprocess.run(
        [
            *(sys.executable, "-m", "locust", "--headless", "--host", simulator.service.ready["http"]),
            *("--json-file", str(tmp_path / "timed"), "--only-summary", "--run-time", "60s", *options),
            *(("--smtp", f"{host}:{port}") if "smtp_burst" in options[1] else ()),
        ],
        env={name: value for name, value in os.environ.items() if not name.startswith("LOCUST")}
        | dict(more or {}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    stats = json.loads((tmp_path / "timed.json").read_text(encoding="utf-8"))
    timed = {each["name"]: each["num_failures"] for each in stats}
    return done.returncode, done.stdout + done.stderr, timed


def test_an_http_burst_keeps_its_promises_whatever_goes_wrong(tmp_path: Path) -> None:
    """One answer in five is lost: tried again with the same key, so exit code 0."""
    with running() as simulator:
        code, said, timed = burst(
            simulator,
            tmp_path,
            *(
                "-f",
                str(FOLDER / "http_burst.py"),
                "-u",
                "4",
                "-r",
                "4",
                "--mails",
                "60",
                "--plan",
                "lose answers 20%",
            ),
        )

    assert code == 0, said
    assert "accepted exactly once" in said
    assert "POST /v1/emails" in timed


def test_a_duplicate_fails_the_run(tmp_path: Path) -> None:
    """A provider that honours no keys and loses answers makes one of every retry; the run says which."""
    with running({"idempotency": {"honoured": False}}) as simulator:
        code, said, _ = burst(
            simulator,
            tmp_path,
            *("-f", str(FOLDER / "http_burst.py"), "-u", "2", "-r", "2", "--mails", "20"),
            *("--plan", "lose 2 answers", "--account", "another"),
        )

    assert code == 1, said
    assert "duplicated: w0-u" in said
    assert "2 of 1 copies" in said


def test_an_smtp_burst_times_every_step(tmp_path: Path) -> None:
    """From the greeting to QUIT, in the shape that was asked for; in doubt it stops and says so, so exit code 0."""
    shape = ("--shape", "herd", "--shape-users", "4", "--shape-seconds", "2")
    with running() as simulator:
        code, said, timed = burst(
            simulator,
            tmp_path,
            *("-f", f"{FOLDER / 'smtp_burst.py'},{FOLDER / 'shapes.py'}", *shape, "--plan", "lose 2 answers"),
        )

    assert code == 0, said
    assert set(timed) == {"connect", "EHLO", "AUTH", "MAIL", "RCPT", "DATA", "message", "QUIT"}
    assert timed["message"] == 2


def test_a_loss_fails_the_run(tmp_path: Path) -> None:
    """A yes that the ledger does not know."""
    lie = {"fault": "reply", "code": 250, "stage": "message", "dialect": "smtp", "times": 1}
    with running({"rules": [lie]}) as simulator:
        code, said, _ = burst(
            simulator, tmp_path, "-f", str(FOLDER / "smtp_burst.py"), "-u", "1", "-r", "1", "--mails", "3"
        )

    assert code == 1, said
    assert "lost: w0-u1-1@burst.test, 0 of 1 copies" in said


def test_nobody_to_ask_fails_the_run(tmp_path: Path) -> None:
    """No verdict is no success."""
    with running() as simulator:
        simulator.stop()
        code, said, _ = burst(
            simulator, tmp_path, "-f", str(FOLDER / "http_burst.py"), "-u", "1", "-r", "1", "--mails", "3"
        )

    assert code == 1
    assert "the run cannot begin, and nothing is sent" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("wire", ["http", "smtp"])
def test_a_plan_that_there_is_not_fails_the_run(tmp_path: Path, wire: str) -> None:
    """Without its faults a run proves nothing, and a mistyped name must not make it green."""
    with running() as simulator:
        code, said, timed = burst(
            simulator,
            tmp_path,
            *(
                "-f",
                str(FOLDER / f"{wire}_burst.py"),
                "-u",
                "2",
                "-r",
                "2",
                "--mails",
                "5",
                "--plan",
                "nopee",
            ),
        )

    assert code == 1, said
    assert "the run cannot begin, and nothing is sent" in said
    assert "nopee" in said
    assert "accepted exactly once" not in said
    assert "Traceback" not in said
    assert not timed


def test_an_outbox_gets_a_burst_through_and_comes_back_when_it_was_told_to(tmp_path: Path) -> None:
    """One worker, three applications, a provider that throttles; timed is how long mail took to be accepted."""
    outbox = {
        "OUTBOX_DATABASE_URL": f"sqlite:///{tmp_path / 'outbox.db'}",
        "PROVIDER_API_KEY": "burst",
        "OUTBOX_RATE_PER_S": "200",
        # The worker is to meet the plan while there are still mails to come: behind the last one it is lifted.
        "OUTBOX_POLL_S": "0.02",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    with running() as simulator:
        environment = os.environ | outbox | {"PROVIDER_URL": simulator.service.ready["http"]}
        subprocess.run(["reference-sender", "init"], env=environment, check=True, stdout=subprocess.DEVNULL)
        with subprocess.Popen(["reference-sender", "work"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as worker:  # fmt: skip
            try:
                assert worker.stdout is not None
                assert worker.stdout.readline() == b"ready\n"
                code, said, timed = burst(
                    simulator,
                    tmp_path,
                    *("-f", str(FOLDER / "outbox_burst.py"), "-u", "3", "-r", "3", "--mails", "200"),
                    *("--plan", "429 retry-after 1 first 2"),
                    more=outbox,
                )
            finally:
                worker.terminate()

    assert code == 0, said
    assert "came back too early 0 times" in said, said
    assert set(timed) == {"commit", "commit to acceptance"}


def test_an_outbox_that_nobody_empties_fails_the_run(tmp_path: Path) -> None:
    """What was committed and never sent is lost, and the run says so."""
    talks = "import sys\nfor line in sys.stdin: print('{\"ok\": true}', flush=True)"
    (tmp_path / "talk.py").write_text(talks, encoding="utf-8")
    with running() as simulator:
        code, said, _ = burst(
            simulator,
            tmp_path,
            *("-f", str(FOLDER / "outbox_burst.py"), "-u", "1", "-r", "1", "--mails", "3", "--drain-s", "1"),
            *("--enqueue", f"{sys.executable} {tmp_path / 'talk.py'}"),
        )

    assert code == 1, said
    assert "lost: w0-u1-1@burst.test, 0 of 1 copies" in said


def test_whoever_came_back_too_early_fails_only_where_it_is_asked() -> None:
    """A sender is held to it; users of a burst that play a sender are not."""
    ends = in_locust(
        """
        import json, promises
        verdict = {name: [] for name in (*promises.WRONG, "parked", "unsent")} | {"obligations": 1, "accepted_once": 1}
        told = {"told": 2, "too_early_count": 1, "pressed_count": 0, "obeyed": False}
        print(json.dumps([
            promises.judge(verdict | {"obedience": told | more}, must_obey=must)
            for more, must in (({}, False), ({}, True), ({"obeyed": True}, True), ({"told": 0, "obeyed": None}, True))
        ]))
        """
    )
    assert [code for code, _ in ends] == [0, 1, 0, 0]
    assert ends[1][1][-1].startswith("told to wait 2 times: came back too early 1 times")


def in_locust(program: str) -> Any:
    """Run a program where the locustfiles can be imported; return the JSON it prints."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys\nsys.argv = ['locust']\n" + textwrap.dedent(program)],
        env=os.environ | {"PYTHONPATH": str(FOLDER)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def curves() -> Mapping[str, list[int | None]]:
    curves: Mapping[str, list[int | None]] = in_locust(
        """
        import json, shapes
        print(json.dumps({s: [shapes.users_at(s, 100, 60.0, float(t)) for t in range(62)] for s in shapes.SHAPES}))
        """
    )
    return curves


@pytest.mark.parametrize("shape", ["steps", "spike", "waves", "herd"])
def test_a_shape_stays_within_its_bounds_and_ends(curves: Mapping[str, list[int | None]], shape: str) -> None:
    """At least one user, at most the peak, which is reached; then it is over."""
    curve = curves[shape]
    there = [users for users in curve if users is not None]

    assert curve[60:] == [None, None]
    assert len(there) == 60
    assert min(there) >= 1
    assert max(there) == 100


def test_shapes_are_what_they_are_called(curves: Mapping[str, list[int | None]]) -> None:
    """Steps go up, a spike is short, a herd comes and goes."""
    assert curves["steps"][::12] == [20, 40, 60, 80, 100, None]
    assert curves["spike"].count(100) == 12
    assert curves["herd"][::10] == [100, 5, 100, 5, 100, 5, None]
