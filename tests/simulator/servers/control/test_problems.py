"""Problem documents."""

from __future__ import annotations

import json

from simulator.servers.control.problems import PROBLEM, problem


def test_a_problem_has_the_members_of_rfc_9457() -> None:
    """With the status repeated in the body, and the headers it was given."""
    said = problem(405, "PATCH is not possible here; GET is", {"allow": "GET"})

    assert (said.status_code, said.headers["content-type"], said.headers["allow"]) == (405, PROBLEM, "GET")
    assert json.loads(bytes(said.body)) == {
        "type": "about:blank",
        "title": "Method Not Allowed",
        "status": 405,
        "detail": "PATCH is not possible here; GET is",
    }
