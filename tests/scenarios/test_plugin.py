"""The suite under plain pytest: the same scenarios, with and without pytest-xdist."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scenarios.plugin import ReportError, check_report, promises, put_aside
from tests.house.places import ROOT
from tests.scenarios.running import SENDERS, by_status, certificate_in

TINY = str(SENDERS / "tiny.toml")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "scenarios", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
    )


@pytest.mark.parametrize("parallel", [[], ["-n", "2"]], ids=["one process", "xdist"])
def test_pytest_writes_the_same_certificate(tmp_path: Path, parallel: list[str]) -> None:
    """A pass on one wire each, and the results of xdist's processes come together."""
    done = run("--sender", TINY, "--select", "*.business.rollback", "--report", str(tmp_path), *parallel)

    assert done.returncode == 0, done.stdout
    certificate = certificate_in(tmp_path)
    assert by_status(certificate, "pass") == {"http.business.rollback", "smtp.business.rollback"}
    assert certificate["promises"][0]["evidence"]["mails"] != []
    assert f"--sender {TINY}" in certificate["replay"]


def test_a_broken_promise_is_a_failed_test_that_says_what_broke(tmp_path: Path) -> None:
    """No traceback of ours: the finding."""
    done = run(
        *("--sender", str(SENDERS / "known_bad" / "retries_5yz.toml")),
        *("--select", "refused.content", "--report", str(tmp_path)),
    )

    assert done.returncode == 1
    assert "tried again" in done.stdout or "misreported" in done.stdout
    assert by_status(certificate_in(tmp_path), "fail") == {"smtp.refused.content"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--sender", "no-such.toml"], "cannot read the sender file"),
        (["--report", "/dev/null/report"], "--report '/dev/null/report' cannot be written"),
        (
            ["--sender", str(SENDERS / "known_bad" / "retries_5yz.toml"), "--profile", "http"],
            "does not name 'http'",
        ),
    ],
)
def test_a_wrong_option_is_a_usage_error(arguments: list[str], says: str) -> None:
    """Before anything is started."""
    done = run(*arguments)

    assert done.returncode != 0
    assert says in done.stdout + done.stderr


def test_a_report_that_cannot_be_written_is_told_before_anything_runs(tmp_path: Path) -> None:
    """And trying it leaves nothing: neither the folder nor those above it."""
    check_report(tmp_path / "a" / "b")
    check_report(tmp_path)
    assert list(tmp_path.iterdir()) == []

    (tmp_path / "report.html").mkdir()
    with pytest.raises(ReportError, match="cannot be written: Is a directory"):
        check_report(tmp_path)


def test_a_report_that_is_there_is_put_aside(tmp_path: Path) -> None:
    """The newest is where it always is; those before are numbered, also beside what else lies there."""
    put_aside(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "notes.txt").write_text("mine")
    for run_ in ("first", "second"):
        for name in ("certificate.json", "report.html", "junit.xml"):
            (tmp_path / name).write_text(run_)
        put_aside(tmp_path)
        (tmp_path / "earlier" / "notes").mkdir(exist_ok=True)

    kept = {file.relative_to(tmp_path).as_posix(): file.read_text() for file in tmp_path.rglob("*.*")}
    assert kept == {"notes.txt": "mine"} | {
        f"earlier/{number}/{name}": run_
        for number, run_ in ((1, "first"), (2, "second"))
        for name in ("certificate.json", "report.html", "junit.xml")
    }


def test_a_second_run_keeps_the_first_ones_report(tmp_path: Path) -> None:
    arguments = ("--sender", TINY, "--select", "http.business.rollback", "--report", str(tmp_path))
    for seed in ("1", "2"):
        assert run(*arguments, "--seed", seed).returncode == 0

    assert certificate_in(tmp_path)["seed"] == 2
    assert certificate_in(tmp_path / "earlier" / "1")["seed"] == 1
    assert not (tmp_path / "earlier" / "2").exists()


def test_a_promise_nobody_made_cannot_be_tested() -> None:
    """A typing error in a mark is found when the scenario is read."""
    with pytest.raises(AssertionError, match=r"no promise is called 'crash\.never'"):
        promises("crash.never")
