"""The OpenAPI document: complete, well-formed, and true of what the running API does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from simulator import shapes
from simulator.client import ControlClient
from simulator.servers.control.app import ENDPOINTS
from simulator.servers.control.openapi import document
from tests.simulator.running import Running, ask, mail, request, running

#: Which answers are right, schemathesis finds out for itself. These are what it cannot know.
CONFIG = """
seed = 7
phases.coverage.unexpected-methods = ["PATCH"]

# A plan that is JSON of the right shape may still be no plan: its language is checked by tests of its own.
[[operations]]
include-path-regex = "/plan(/check)?$"
checks.positive_data_acceptance.enabled = false

# A wait has the filters of its list, and the lists of messages and events have every kind of filter there is.
[[operations]]
include-path-regex = "/(wait|attempts|decisions|deliveries)$"
phases.coverage.enabled = false

# Nor is every text a URL that events may be told to, or a secret.
[[operations]]
include-path = "/_simulator/v1/webhook"
checks.positive_data_acceptance.enabled = false

# Nor is every text an address.
[[operations]]
include-path = "/_simulator/v1/obligations"
checks.positive_data_acceptance.enabled = false

# Clocks go forward only.
[[operations]]
include-path = "/_simulator/v1/clock"
checks.positive_data_acceptance.enabled = false
"""


def test_every_row_is_in_the_document_and_nothing_else() -> None:
    """With its parameters, and the account among them."""
    paths: dict[str, dict[str, Any]] = document(ENDPOINTS)["paths"]

    assert {(method.upper(), path) for path, methods in paths.items() for method in methods} == {
        (row.method, row.whole_path) for row in ENDPOINTS
    }
    for row in ENDPOINTS:
        operation = paths[row.whole_path][row.method.lower()]
        names = [each["name"] for each in operation["parameters"] if each["in"] == "query"]
        assert names == [*(["account"] if row.of_account else []), *(each.name for each in row.parameters)]
        assert ("requestBody" in operation) == (row.takes is not None)


def test_operations_have_names_of_their_own() -> None:
    """Generated clients make methods of them."""
    names = [row.does.__name__ for row in ENDPOINTS]

    assert sorted(set(names)) == sorted(names)


def test_what_is_taken_is_closed_and_what_is_given_may_grow() -> None:
    """A misspelt key of ours is refused; a client must not choke on a key that is new."""
    schemas = document(ENDPOINTS)["components"]["schemas"]

    assert schemas["Obligation"]["additionalProperties"] is False
    assert "additionalProperties" not in schemas["Message"]


def test_what_is_shown_has_exactly_the_fields_of_its_shape(
    simulator: Running, control: ControlClient
) -> None:
    """Neither more than is documented nor less."""
    control.owe([{"ref": "r", "recipient": "ada@example.com", "copies": 2}])
    ask(simulator, request(mail()))

    verdict = control.verdict()
    assert set(control.messages()[0]) == set(shapes.Message.__annotations__)
    assert set(control.attempts()[0]) == set(shapes.Attempt.__annotations__)
    assert set(control.obligations()[0]) == set(shapes.ObligationShown.__annotations__)
    assert set(verdict) == set(shapes.Verdict.__annotations__)
    assert set(verdict["open"][0]) == set(shapes.Finding.__annotations__)
    assert set(control.plan()) == set(shapes.PlanShown.__annotations__)
    assert set(control.health()) == set(shapes.Health.__annotations__)


def test_schemathesis_finds_no_answer_that_is_not_documented(tmp_path: Path) -> None:
    """No 5xx, every status, content type and body as documented; bad requests are refused, good ones taken."""
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG, encoding="utf-8")
    with running() as simulator:
        for number in range(3):
            ask(simulator, request(mail(to=[f"{number}@example.com"]), key=f"k{number}"))
        # Whoever waits or listens is answered at once with what there is, as when the service stops.
        simulator.service.moves.end()
        simulator.service.feed.end()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"),
                f"{simulator.service.ready['control']}/openapi.json",
                *(
                    "--phases",
                    "coverage,fuzzing",
                    "--max-examples",
                    "4",
                    "--warnings",
                    "off",
                    "--request-timeout",
                    "20",
                ),
            ],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": ""},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    assert done.returncode == 0, done.stdout + done.stderr
    (cases,) = re.findall(r"(\d+) generated", done.stdout)
    assert int(cases) > 15 * len(ENDPOINTS), "it has not looked at much"
