"""The fixture `mail_provider` in pytest runs of their own, as somebody's project would have them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

from simulator import pytest_plugin
from tests.simulator.running import running

ROOT = Path(__file__).parents[2]

PROJECT = """
import httpx, pytest

def send(provider, to="ada@example.com"):
    mail = {"from": "shop@example.org", "to": [to], "subject": "Hello", "text": "x"}
    try:
        return httpx.post(f"{provider.url}/v1/emails", json=mail, headers=provider.headers, trust_env=False)
    except httpx.TransportError:
        return None

@pytest.mark.parametrize("again", ["first", "second", "a name / with: signs"])
def test_each_test_has_an_account_of_its_own(mail_provider, again):
    mail_provider.assert_nothing_sent()
    assert send(mail_provider).status_code == 200
    mail_provider.assert_exactly_once("ada@example.com")

@pytest.mark.mail_provider(plan=["503 once"])
def test_a_marker_says_what_goes_wrong(mail_provider):
    assert [send(mail_provider).status_code for _ in range(2)] == [503, 200]

@pytest.mark.mail_provider(plan=None)
def test_who_does_not_ask_for_it_is_left_alone():
    pass

def test_what_one_test_broke_is_whole_in_the_next(mail_provider):
    assert mail_provider.control.plan()["rules"] == []
"""

FAILING = """
def test_fails(mail_provider):
    send(mail_provider)
    assert False, "on purpose"
"""


def pytest_run(folder: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with every warning an error, in a project that knows nothing of ours."""
    (folder / "test_project.py").write_text(source, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "simulator.pytest_plugin"),
            *("--strict-markers", "-q", *options),
        ],
        cwd=folder,
        # Installed, pytest finds the plugin by itself; here it is named, and no other one is in the way.
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_entry_point_names_the_plugin() -> None:
    """So that pytest finds it wherever the distribution is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["entry-points"]["pytest11"] == {"mailproof": pytest_plugin.__name__}


def test_the_plugin_loads_nothing_before_it_is_used() -> None:
    """Every pytest run of everybody who has the distribution installed loads it."""
    program = """
        import sys, pytest
        before = set(sys.modules)
        import simulator.pytest_plugin
        print(*sorted(set(sys.modules) - before))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["simulator", "simulator.pytest_plugin"]


def test_a_project_uses_the_fixture(tmp_path: Path) -> None:
    """Fresh accounts, a marker for the plan, one simulator for the run, and a failure that says what was seen."""
    done = pytest_run(tmp_path, PROJECT + FAILING)

    assert "6 passed" in done.stdout, done.stdout + done.stderr
    assert "1 failed" in done.stdout
    shown = done.stdout.partition("mail provider")[2]
    assert "to ada@example.com, over native, subject 'Hello'" in shown
    assert "said 200 (complete), booked for ada@example.com" in shown


def test_workers_may_share_a_simulator_that_runs_already(tmp_path: Path) -> None:
    """Each test of each worker is an account of its own, in which nothing goes wrong, emptied at its end."""
    with running({"rules": ["503", "450 at rcpt"]}, admin_token="s3cret") as simulator:
        done = pytest_run(
            tmp_path,
            PROJECT,
            *("-p", "xdist", "-n", "2", "--mail-provider-url", simulator.service.ready["http"]),
            *("--mail-provider-token", "s3cret"),
        )
        accounts = set(simulator.service.provider.accounts) - {"default"}
        left = [simulator.service.provider.accounts[name].booked for name in accounts]

    assert "6 passed" in done.stdout, done.stdout + done.stderr
    assert (len(accounts), sum(left)) == (5, 0)
    assert all(name.startswith("test_") and name.isascii() for name in accounts)
