"""The reference sender is certified on the databases that people run it on: the spine of the promises, both wires.

A server that does not answer is a skip that says so, and a failure with CI=true (`databases.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference_sender.outbox.databases import ADDRESSES, database
from tests.scenarios.running import by_status, certificate_in, certify

#: Each of these runs a certification of its own: one after the other is enough.
pytestmark = [pytest.mark.xdist_group("certifications"), pytest.mark.long]

#: What leans most on the database: an end that was never written, a claim that outlives its worker, a rollback.
PROMISES = ("crash.after-acceptance", "crash.after-claim", "business.rollback")


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_the_spine_is_kept_on_a_server(tmp_path: Path, kind: str) -> None:
    """Every chosen promise on both wires, several scenarios at once."""
    with database(kind, tmp_path):  # or it is skipped, because no server answers
        done = certify(
            *("--database", ADDRESSES[kind], "--select", ",".join(PROMISES)),
            *("--quick", "--report", tmp_path),
        )

    assert done.returncode == 0, done.stdout + done.stderr
    certificate = certificate_in(tmp_path)
    wanted = {f"{wire}.{promise}" for wire in ("http", "smtp") for promise in PROMISES}
    assert by_status(certificate, "pass") == wanted, done.stdout
    assert certificate["sender"]["database"].split()[0] in {"PostgreSQL", "MariaDB", "MySQL"}
