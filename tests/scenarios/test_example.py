"""The example in docs/certification.md is true: the sender in a shell script is certified as it stands there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.house.places import ROOT
from tests.scenarios.running import by_status, certificate_in, certify

#: Each of these runs a certification of its own, several scenarios at once: one after the other is enough.
pytestmark = pytest.mark.xdist_group("certifications")

NEEDED = ("curl", "jq", "flock", "sha256sum")


@pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason=f"needs {', '.join(NEEDED)}")
def test_the_sender_in_the_documentation_keeps_what_it_is_asked_for(tmp_path: Path) -> None:
    """Copied from the page, run, and nothing is broken."""
    certificate = certificate_of(
        tmp_path, "--select", "business,crash.after-acceptance,lost-answer.fin,refused.400"
    )
    assert certificate["result"] == "incomplete"
    assert len(by_status(certificate, "pass")) >= 5


@pytest.mark.long
@pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason=f"needs {', '.join(NEEDED)}")
def test_the_sender_in_the_documentation_is_certified_as_a_whole(tmp_path: Path) -> None:
    """What it does not declare is skipped."""
    certificate = certificate_of(tmp_path)
    assert certificate["result"] == "certified"
    skipped = by_status(certificate, "skip")
    families = (".exhaustive.", ".webhooks.", ".gate.")
    assert {each for each in skipped if not any(family in each for family in families)} == {
        "http.recipients.one-refused",
        "http.workers.sigterm",
    }


def certificate_of(tmp_path: Path, *options: str) -> dict[str, Any]:
    """Certify the sender of the page; the certificate."""
    page = (ROOT / "docs" / "certification.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    (toml,) = (each for each in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "in-a-shell" in each)
    (tmp_path / "outbox.sh").write_text(script, encoding="utf-8")
    (tmp_path / "sender.toml").write_text(toml, encoding="utf-8")

    done = certify("--sender", tmp_path / "sender.toml", "--report", tmp_path / "out", *options)

    assert done.returncode == 0, done.stdout + done.stderr
    return certificate_in(tmp_path / "out")
