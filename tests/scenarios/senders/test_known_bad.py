"""The suite is tested by bad senders: each is caught, by exactly the promises that its sin breaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.promises import PROMISES, of_id
from scenarios.sender_file import read_sender
from tests.scenarios.running import SENDERS, by_status, certificate_in, certify

#: Each of these runs a certification of its own, several scenarios at once: one after the other is enough.
pytestmark = pytest.mark.xdist_group("certifications")

KNOWN_BAD = sorted((SENDERS / "known_bad").glob("*.toml"))


@pytest.mark.parametrize("file", KNOWN_BAD, ids=lambda file: file.stem)
def test_a_bad_sender_is_caught_by_everything_that_it_breaks(tmp_path: Path, file: Path) -> None:
    """Its sin is seen wherever it shows."""
    broken = read_sender(file).broken
    done = certify("--sender", file, "--select", ",".join(broken), "--jobs", "1", "--report", tmp_path)

    certificate = certificate_in(tmp_path)
    assert by_status(certificate, "fail") == set(broken), done.stdout
    assert by_status(certificate, "error") == by_status(certificate, "pass") == set(), done.stdout
    assert done.returncode == 1


@pytest.mark.long
@pytest.mark.parametrize("file", KNOWN_BAD, ids=lambda file: file.stem)
def test_a_bad_sender_is_caught_by_exactly_what_it_breaks(tmp_path: Path, file: Path) -> None:
    """No promise too few: the suite sees the sin. None too many: it sees nothing else."""
    done = certify("--sender", file, "--report", tmp_path)

    certificate = certificate_in(tmp_path)
    assert by_status(certificate, "error") == set(), done.stdout
    assert by_status(certificate, "fail") == set(read_sender(file).broken), done.stdout
    assert done.returncode == 1
    assert certificate["result"] == "not certified"


@pytest.mark.parametrize("file", KNOWN_BAD, ids=lambda file: file.stem)
def test_a_bad_sender_says_its_sin(file: Path) -> None:
    """In the module beside its file, and the promises it breaks are real ones of its wires."""
    sender = read_sender(file)

    assert '"""Sin: ' in file.with_suffix(".py").read_text(encoding="utf-8")
    assert sender.broken
    assert {of_id(each)[1] for each in sender.broken} <= set(sender.profiles)


def test_there_are_at_least_six_and_one_for_each_promise_of_the_gate() -> None:
    """One sin each."""
    assert len(KNOWN_BAD) >= 6
    broken = [each for file in KNOWN_BAD for each in read_sender(file).broken if ".gate." in each]
    assert sorted(of_id(each)[0].name for each in broken) == sorted(
        promise.name for promise in PROMISES if promise.family == "gate"
    )
