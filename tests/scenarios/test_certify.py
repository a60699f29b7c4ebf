"""The command: exit codes, one sentence for what cannot work, files, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scenarios.certify import exit_code
from scenarios.clock import wait_until
from scenarios.report import is_untouched
from tests.scenarios.running import SENDERS, by_status, certificate_in, certify

#: Each of these runs a certification of its own, several scenarios at once: one after the other is enough.
pytestmark = pytest.mark.xdist_group("certifications")

TINY = SENDERS / "tiny.toml"


def test_a_selection_is_run_and_written_down(tmp_path: Path) -> None:
    """Three files; a line per promise without colours; incomplete, because the rest was left out."""
    done = certify(
        "--sender", TINY, "--select", "business.rollback,refused.400", "--report", tmp_path / "out"
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    for wanted in ("http.business.rollback", "smtp.business.rollback", "http.refused.400"):
        assert any(line.startswith(f"✓ {wanted} ") for line in lines)
    assert "tiny-sender: incomplete" in done.stdout
    certificate = certificate_in(tmp_path / "out")
    assert is_untouched(certificate)
    assert by_status(certificate, "pass") == {
        "http.business.rollback",
        "smtp.business.rollback",
        "http.refused.400",
    }
    assert (tmp_path / "out" / "report.html").is_file()
    assert (tmp_path / "out" / "junit.xml").is_file()


def test_what_is_not_declared_is_skipped_visibly(tmp_path: Path) -> None:
    """With the missing ability, on the screen and in the certificate."""
    file = tmp_path / "sender.toml"
    text = TINY.read_text(encoding="utf-8")
    file.write_text(text.replace("rollback = true", "rollback = false"), encoding="utf-8")

    done = certify("--sender", file, "--select", "http.business.*", "--jobs", "1", "--report", tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "http.business.rollback: the sender does not declare the ability 'rollback'" in done.stdout
    assert by_status(certificate_in(tmp_path), "skip") == {"http.business.rollback"}


def test_the_list_names_every_promise() -> None:
    """And runs nothing."""
    done = certify("--sender", TINY, "--profile", "smtp", "--list")

    assert done.returncode == 0
    assert "smtp.lost-answer.timeout" in done.stdout
    assert "http." not in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[timing]", "[timings]", "unknown table [timings]"),
        ('"{python}", "-m", "scenarios.senders.tiny", "work"', '"/no/such/sender"', "cannot start '/no/such/sender'"),
        ('"scenarios.senders.tiny", "work"', '"scenarios.senders.tiny", "werk"', "ended at once with exit code 2"),
        ('"scenarios.senders.tiny", "talk"', '"this"', "which is no JSON"),
        ("process = true", 'command = ["false"]', "[status] 'false' ended with exit code 1"),
    ],
)  # fmt: skip
def test_a_sender_that_cannot_be_judged_is_one_sentence(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    """Said once, on standard error, with exit code 2."""
    file = tmp_path / "sender.toml"
    text = TINY.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")

    done = certify("--sender", file, "--report", tmp_path / "out")

    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--select", "nonsense"], "means no promise"),
        (["--profile", "fax"], "simulator: Invalid value for '--profile': 'fax' is not one of"),
        (["--profile", "fax"], "(see: simulator certify --help)"),
        (["--no-such-option"], "simulator: No such option"),
        (
            ["--report", "/dev/null/report"],
            "certify: --report '/dev/null/report' cannot be written: Not a directory",
        ),
        (["--report", __file__], "simulator: Invalid value for '--report'"),
        (["--sender", "no-such.toml"], "cannot read the sender file"),
        (["--database", "shop"], "--database is no address of a database; right would be postgresql://"),
        (["--database", "mysql://u:secret@127.0.0.1:1/"], "mysql://u:***@127.0.0.1:1/: MySQL says"),
        (
            ["--sender", str(SENDERS / "tiny.toml"), "--database", "mysql://u@127.0.0.1/"],
            "no command and no [env] names {database_url}",
        ),
        (["--sender", str(SENDERS / "tiny_without_keys.toml"), "--profile", "smtp"], "does not name 'smtp'"),
    ],
)
def test_wrong_options_are_one_sentence(arguments: list[str], says: str) -> None:
    """With exit code 2."""
    done = certify(*arguments)

    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_who_is_only_skipped_is_not_started(tmp_path: Path) -> None:
    """No reset, no worker: nothing of the sender is needed to say that it does not claim to be able."""
    file = tmp_path / "sender.toml"
    text = TINY.read_text(encoding="utf-8").replace("rollback = true", "rollback = false")
    text = text.replace('"{python}", "-m", "scenarios.senders.tiny", "work"', '"/no/such/sender"')
    file.write_text(text + '\n[reset]\ncommand = ["/no/such/reset"]\n', encoding="utf-8")

    done = certify(
        "--sender", file, "--select", "http.business.rollback", "--jobs", "1", "--report", tmp_path / "out"
    )

    assert done.stderr == ""
    assert by_status(certificate_in(tmp_path / "out"), "skip") == {"http.business.rollback"}
    assert "1 promise, " in done.stdout


def test_who_cannot_be_asked_is_judged_by_what_can_be_seen(tmp_path: Path) -> None:
    """Refused for good, or parked where nobody sees it, is not lost; what was not judged is said, and how to mend it."""
    file = tmp_path / "sender.toml"
    text = (SENDERS / "tiny_without_keys.toml").read_text(encoding="utf-8")
    for old, new in (
        ("[status]\nprocess = true\n", ""),
        ("\nstatus = true", ""),
        ("lease_s = 5.0", "lease_s = 2.0"),
        ('TINY_LEASE_S = "5"', 'TINY_LEASE_S = "2"'),
    ):
        assert old in text
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")

    done = certify(
        *("--sender", file, "--report", tmp_path / "out"),
        *("--select", "crash.after-claim,refused.400,recipients.one-refused"),
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "no [status]: what the sender reports cannot be judged" in done.stdout
    certificate = certificate_in(tmp_path / "out")
    reasons = {entry["id"]: (entry["status"], entry["reason"]) for entry in certificate["promises"]}
    half = ("pass", "whether it is reported as failed was not judged: no [status]")
    assert reasons == {
        "http.crash.after-claim": ("skip", "the sender cannot be asked: no [status]"),
        "http.refused.400": half,
        "http.recipients.one-refused": half,
    }
    assert certificate["sender"]["hints"] != []
    assert "no [status]" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_no_process(tmp_path: Path, how: signal.Signals) -> None:
    """Ctrl-C in the middle of the storm: simulators, workers and their children are gone."""
    running = subprocess.Popen(
        [sys.executable, "-m", "scenarios", "certify", "--sender", str(TINY), "--report", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        | {"TMPDIR": str(tmp_path)},
    )
    assert running.stdout is not None
    # What is skipped comes first and starts nothing.
    assert any("✓" in line for line in (running.stdout.readline() for _ in range(40)))

    running.send_signal(how)
    _, said = running.communicate(timeout=60)

    assert running.returncode == 130, said
    assert "nothing is left running" in said
    assert wait_until(lambda: None if mentioning(str(tmp_path)) else True, timeout_s=10), mentioning(
        str(tmp_path)
    )


def mentioning(text: str) -> list[str]:
    """Return the command lines and environments of our processes that mention a text, except our own."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            facts = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if text.encode() in facts:
            found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def test_nobody_has_to_listen_to_the_end() -> None:
    """With the pipe closed at once, as `| head` does sooner or later, there is no complaint and no other exit code."""
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "scenarios", "certify", "--list"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()

        assert (process.wait(), said) == (0, "")


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["pass"], 0),
        (["pass", "skip"], 0),
        (["pass", "fail", "error"], 1),
        (["pass", "error"], 2),
        (["skip"], 2),
    ],
)
def test_the_exit_code_follows_from_the_must_promises(statuses: list[str], expected: int) -> None:
    """A broken one is 1, also beside one that could not be judged."""
    entries = [{"status": status, "level": "MUST"} for status in statuses]

    assert exit_code({"promises": [*entries, {"status": "fail", "level": "SHOULD"}]}) == expected
