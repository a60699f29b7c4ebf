"""The reference sender is certified on the databases that people run it on: the spine of the promises, both wires.

A server that does not answer is a skip that says so, and a failure with CI=true (`databases.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.store import Store
from tests.reference_sender.outbox.databases import database
from tests.scenarios.running import SENDERS, by_status, certificate_in, certify

#: Each of these runs a certification of its own: one after the other is enough.
pytestmark = [pytest.mark.xdist_group("certifications"), pytest.mark.long]

#: What leans most on the database: an end that was never written, a claim that outlives its worker, a rollback.
PROMISES = ("crash.after-acceptance", "crash.after-claim", "business.rollback")


def on(url: str, folder: Path) -> Path:
    """The file of the reference sender, with this database in place of SQLite, emptied before each scenario."""
    told = (SENDERS / "reference.toml").read_text(encoding="utf-8")
    for old, new in (
        ('OUTBOX_DATABASE_URL = "{database_url}"', f'OUTBOX_DATABASE_URL = "{url}"'),
        ('command = ["reference-sender", "init"]', 'command = ["reference-sender", "init", "--recreate"]'),
    ):
        assert told.count(old) == 1, old
        told = told.replace(old, new)
    file = folder / "sender.toml"
    file.write_text(told, encoding="utf-8")
    return file


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_the_spine_is_kept_on_a_server(tmp_path: Path, kind: str) -> None:
    """Every chosen promise on both wires; one scenario at a time, because they share the place."""
    with database(kind, tmp_path) as url:
        done = certify(
            *("--sender", on(url, tmp_path), "--select", ",".join(PROMISES)),
            *("--quick", "--jobs", "1", "--report", tmp_path),
        )
        store = Store(open_engine(url))
        left = sum(tally.count for tally in store.tallies())
        store.engine.dispose()

    assert done.returncode == 0, done.stdout + done.stderr
    certificate = certificate_in(tmp_path)
    wanted = {f"{wire}.{promise}" for wire in ("http", "smtp") for promise in PROMISES}
    assert by_status(certificate, "pass") == wanted, done.stdout
    assert left > 0, "what the last scenario sent is in this place: it was not played elsewhere"
