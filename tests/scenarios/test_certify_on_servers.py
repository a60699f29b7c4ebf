"""The reference sender is certified on the databases that people run it on: every promise of the black box, both wires.

A server that does not answer is a skip that says so, and a failure with CI=true (`databases.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.promises import BY_NAME
from tests.reference_sender.outbox.databases import ADDRESSES, database
from tests.scenarios.running import by_status, certificate_in, certify

#: Each of these runs a certification of its own: one after the other is enough.
pytestmark = [pytest.mark.xdist_group("certifications"), pytest.mark.long]

#: The simulated world has a database of its own; all others are asked of real processes.
PROMISES = tuple(name for name in BY_NAME if not name.startswith("exhaustive."))


@pytest.mark.timeout(1260)
@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_the_spine_is_kept_on_a_server(tmp_path: Path, kind: str) -> None:
    """Every promise on the wires that it is about, several scenarios at once."""
    with database(kind, tmp_path):  # or it is skipped, because no server answers
        done = certify(
            *("--database", ADDRESSES[kind], "--select", ",".join(PROMISES), "--report", tmp_path),
            within_s=1200.0,
        )

    assert done.returncode == 0, done.stdout + done.stderr
    certificate = certificate_in(tmp_path)
    wanted = {BY_NAME[name].id_on(wire) for name in PROMISES for wire in BY_NAME[name].profiles}
    assert by_status(certificate, "pass") == wanted, done.stdout
    assert certificate["sender"]["database"].split()[0] in {"PostgreSQL", "MariaDB", "MySQL"}
