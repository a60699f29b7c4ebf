"""Alive, ready, and how much has been done."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from simulator import __version__
from simulator.metrics import METRICS
from simulator.servers.options import Address
from simulator.store import StoreError
from tests.simulator.receiver import Answer, receiving
from tests.simulator.running import PATIENCE_S, Running, Sender, ask, mail, request, running


def scraped(simulator: Running, **headers: str) -> dict[str, float]:
    """Return the samples by name and labels, as they are written."""
    answer = httpx.get(f"{simulator.service.ready['http']}/metrics", headers=headers, trust_env=False)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        sample.name + "".join(f" {value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_a_service_is_alive_and_ready() -> None:
    """Before anybody has a token: an orchestrator has none."""
    with running(admin_token="s3cret", http=Address(host="0.0.0.0", port=0)) as simulator:
        url = f"http://127.0.0.1:{simulator.service.http_port}"
        for path, says in (("healthz", "alive\n"), ("readyz", "ready\n")):
            answer = httpx.get(f"{url}/{path}", headers={"Host": "pod-7"}, trust_env=False)
            assert (answer.status_code, answer.text) == (200, says)
        assert httpx.get(f"{url}/metrics", trust_env=False).status_code == 401


def test_a_service_that_cannot_write_its_ledger_is_not_ready() -> None:
    """It takes no mail, so none should be sent to it; it is alive all the same."""
    with running() as simulator:
        url = simulator.service.ready["http"]
        simulator.service.committer.trouble = "the disk is full"
        answer = httpx.get(f"{url}/readyz", trust_env=False)
        assert (answer.status_code, answer.json()["detail"]) == (503, "not ready: the disk is full")
        assert httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
        simulator.service.committer.trouble = None


def test_a_service_that_stops_is_not_ready() -> None:
    """From the moment the stop begins."""
    with running() as simulator:
        url = simulator.service.ready["http"]
        asyncio.run_coroutine_threadsafe(_begin_to_stop(simulator), simulator.loop).result(10)
        assert (
            httpx.get(f"{url}/readyz", trust_env=False).json()["detail"] == "not ready: starting or stopping"
        )


async def _begin_to_stop(simulator: Running) -> None:
    simulator.service._end_of_waiting()


def test_metrics_tell_what_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them counts what its row says, of a service that was just started."""
    plan = {
        "rules": [{"name": "metered", "fault": "reply", "code": 503, "times": 1, "dialect": "native"}],
        "idempotency": {"required": True},
        "limits": {"rate_per_s": 0.001, "burst": 2},
        "webhooks": {"events": ["email.accepted"], "schedule_s": [3600]},
    }
    with (
        receiving(Answer(), Answer(status=500)) as receiver,
        running(plan, webhook_url=receiver.url) as simulator,
        simulator.control() as control,
        httpx.stream("GET", f"{simulator.service.ready['control']}/stream", trust_env=False),
        socket.create_connection(simulator.smtp, timeout=PATIENCE_S) as smtp,
    ):
        smtp.recv(256)
        ask(simulator, request(mail(), key="struck"))
        ask(simulator, request(mail(to=["ada@example.com", "bob@example.com"]), key="k1"))
        control.wait_for_deliveries(state="delivered")
        ask(simulator, request(mail(to=["cyd@example.com"]), key="k2"))
        ask(simulator, request(mail(), key="k3"))
        ask(simulator, request(mail()))
        control.wait_for_attempts(state="closed", count=5)
        control.wait_for_deliveries(tries="1", state="waiting", count=2)
        control.add_rules({"fault": "hold", "dialect": "native"})
        with Sender(simulator.http) as sender:
            sender.say(request(mail(), key="held"))
            control.wait_for_attempts(state="held")
            found = scraped(simulator)
            size_bytes = sum(each["size_bytes"] for each in control.messages())
            control.release()
            sender.see()

        store = simulator.service.store
        append = store.append

        def fail(records: object) -> None:
            raise StoreError("disk full")

        control.set_plan({})
        monkeypatch.setattr(store, "append", fail)
        # Put off, or not answered at all: it is the first that finds out, or the second.
        assert ask(simulator, request(mail())).data.partition(b"\r")[0] in (
            b"",
            b"HTTP/1.1 503 Service Unavailable",
        )
        failing = scraped(simulator)
        monkeypatch.setattr(store, "append", append)

    expected = {
        "simulator_attempts_total native accepted complete": 2,
        "simulator_attempts_total native refused complete": 3,
        "simulator_attempt_seconds_count native": 5,
        "simulator_mails_accepted_total native": 2,
        "simulator_recipients_accepted_total native": 3,
        "simulator_accepted_bytes_total native": size_bytes,
        "simulator_refusals_total native rate_limited": 1,
        "simulator_refusals_total native key_required": 1,
        "simulator_faults_total metered accept": 1,
        "simulator_connections smtp": 1,
        "simulator_connections_total smtp": 1,
        "simulator_deliveries_total webhook delivered": 1,
        "simulator_delivery_attempts_total webhook": 3,
        "simulator_deliveries_waiting webhook": 2,
        "simulator_held_answers": 1,
        "simulator_accounts": 1,
        "simulator_ledger_mails": 2,
        "simulator_ledger_waiting_records": 0,
        "simulator_ledger_failing": 0,
        "simulator_stream_readers": 1,
        f"simulator_info {__version__}": 1,
    }
    assert {name: found.get(name) for name in expected} == expected
    assert found["simulator_connections http"] >= 3
    assert found["simulator_connections_total http"] > found["simulator_connections http"]
    assert failing["simulator_ledger_failing"] == 1
    assert failing["simulator_ledger_waiting_records"] > 0
    named = {name.partition(" ")[0].removesuffix("_count") for name in expected}
    assert named == {row.name for row in METRICS}, "a metric that is new is counted here, too"


def test_every_metric_is_there_from_the_first_moment(simulator: Running) -> None:
    """With its kind and its meaning, even before there is anything to count."""
    text = httpx.get(f"{simulator.service.ready['http']}/metrics", trust_env=False).text

    for row in METRICS:
        assert f"# HELP {row.name} {row.says}\n# TYPE {row.name} {row.kind}\n" in text


def test_metrics_speak_of_no_account(simulator: Running, web: httpx.Client) -> None:
    """The parameter would promise what it does not keep."""
    answer = httpx.get(f"{simulator.service.ready['http']}/metrics?account=a", trust_env=False)

    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "there is no parameter 'account' here; it takes none",
    )
