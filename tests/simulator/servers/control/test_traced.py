"""Request ids, in answers and in the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from unittest.mock import patch

import httpx
import pytest

from simulator.client import ControlClient
from simulator.logs import pseudonym
from simulator.provider.tenancy import Tenancy, Unknown
from simulator.servers.archive import Archive
from tests.simulator.running import Running, ask, mail, request, running


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, "simulator"):
        yield caplog


def facts(logged: pytest.LogCaptureFixture) -> list[tuple[str, str, int]]:
    """Return message, request id and status of each line about the control API."""
    return [
        (record.getMessage(), record.facts["request"], record.facts["status"])  # type: ignore[attr-defined] # ours
        for record in logged.records
        if record.name == "simulator.control"
    ]


def test_every_answer_has_an_id_that_is_in_the_log(
    web: httpx.Client, logged: pytest.LogCaptureFixture
) -> None:
    """Refusals and pages, too; the query, which names people, is not there."""
    answers = [
        web.get("messages", params={"to": "ada@example.com"}),
        web.get("nothing"),
        web.get("health", headers={"Host": "evil.example"}),
    ]
    ids = [answer.headers["x-request-id"] for answer in answers]

    assert len(set(ids)) == 3
    assert facts(logged) == [
        ("GET /_simulator/v1/messages", ids[0], 200),
        ("GET /_simulator/v1/nothing", ids[1], 404),
        ("GET /_simulator/v1/health", ids[2], 403),
    ]


def test_an_id_that_is_brought_along_is_kept(web: httpx.Client, logged: pytest.LogCaptureFixture) -> None:
    """So that both logs have the same; one that could forge a line is not."""
    for given, kept in (("trace-7/a.b", True), ("a b", False), ("x" * 129, False), ("<script>", False)):
        answer = web.get("health", headers={"X-Request-ID": given})
        assert (answer.headers["x-request-id"] == given) is kept, given


def test_a_bug_is_a_problem_that_names_its_request(logged: pytest.LogCaptureFixture) -> None:
    """The trace is in the log, under the same id, and the process lives."""
    with (
        running() as simulator,
        httpx.Client(base_url=simulator.service.ready["control"], trust_env=False) as web,
    ):
        with patch.object(Archive, "messages", side_effect=RuntimeError("a bug")):
            answer = web.get("messages")
        assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
        assert answer.headers["x-request-id"] in answer.json()["detail"]
        assert web.get("messages").status_code == 200

    assert "RuntimeError: a bug" in logged.text


def test_nothing_private_is_logged(
    simulator: Running, control: ControlClient, logged: pytest.LogCaptureFixture
) -> None:
    """Neither what a mail says nor who shows which key."""
    body = mail(to=["ada@example.com"], subject="TheSubject", text="TheBody")
    ask(simulator, request(body, key="TheKey", headers={"Authorization": "Bearer TheCredential"}))
    control.wait_for_attempts(state="closed")
    control.owe([{"ref": "r", "recipient": "ada@example.com"}])

    attempts = [record for record in logged.records if record.name == "simulator.attempts"]
    assert len(attempts) == 1
    everything = "".join(f"{record.getMessage()}{vars(record).get('facts')}" for record in logged.records)
    for secret in ("TheSubject", "TheBody", "TheKey", "TheCredential", "ada@"):
        assert secret not in everything, secret


def test_an_account_that_a_credential_made_is_logged_by_a_pseudonym(logged: pytest.LogCaptureFixture) -> None:
    """A real key, sent here by mistake, must not end in a log."""
    with running(tenancy=Tenancy(unknown=Unknown.NEW)) as simulator:
        ask(simulator, request(mail(), headers={"Authorization": "Bearer re_live_secret"}))
        with simulator.control("re_live_secret") as control:
            control.wait_for_attempts(state="closed")

    accounts = [
        vars(record)["facts"]["account"] for record in logged.records if record.name == "simulator.attempts"
    ]
    assert accounts == [pseudonym("re_live_secret")]
