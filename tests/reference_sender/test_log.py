"""The log: one JSON object a line."""

from __future__ import annotations

import io
import json

from reference_sender.log import JsonLog, quiet
from tests.reference_sender.samples import NOW, ManualClock


def test_an_event_is_one_json_line_with_its_facts() -> None:
    stream = io.StringIO()
    JsonLog(stream, ManualClock())("decided", id=1, state="accepted", code=None)
    (line,) = stream.getvalue().splitlines()
    assert {"at": NOW.isoformat(), "event": "decided", "id": 1, "state": "accepted"} == json.loads(line)


def test_the_quiet_log_says_nothing() -> None:
    quiet("decided", id=1)
