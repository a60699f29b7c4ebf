"""The simulator as a process of the stage."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from scenarios.service import Service, ServiceError


def test_a_service_is_up_when_it_is_there_and_gone_when_it_is_left(tmp_path: Path) -> None:
    """Ports are free ones; nothing listens afterwards."""
    with Service(tmp_path) as service:
        assert service.control.health()["status"] == "ok"
        assert int(service.smtp_port) > 0
        url = service.http_url

    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)


def test_fresh_forgets_plan_and_counts(tmp_path: Path) -> None:
    """The next scenario meets nothing of this one."""
    with Service(tmp_path) as service:
        service.control.set_plan({"seed": 1, "rules": [{"name": "no", "fault": "reply", "code": 503}]})
        httpx.post(
            f"{service.http_url}/v1/emails",
            json={"from": "a@example.org", "to": ["b@example.com"], "subject": "s", "text": "t"},
            headers={"Authorization": "Bearer k"},
            trust_env=False,
        )
        assert service.fired() == {"no": 1}
        assert len(service.control.attempts()) == 1

        service.fresh()

        assert service.fired() == {}
        assert service.control.attempts() == []
        assert service.under_way() == 0


def test_a_simulator_that_does_not_start_is_one_sentence(tmp_path: Path) -> None:
    """Here its ledger cannot be a file."""
    (tmp_path / "ledger.db").mkdir()

    with pytest.raises(ServiceError, match="the simulator did not start; its last lines: ") as caught:
        Service(tmp_path).start()

    assert "\n" not in str(caught.value)


def test_a_simulator_that_died_is_started_again(tmp_path: Path) -> None:
    """One scenario may lose it; the next one must not."""
    with Service(tmp_path) as service:
        before = service.control.health()
        service.kill()

        service.fresh()

        assert service.control.health() == before
