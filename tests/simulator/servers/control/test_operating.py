"""Alive, ready, and how much has been done."""

from __future__ import annotations

import asyncio

import httpx
from prometheus_client.parser import text_string_to_metric_families

from simulator.client import ControlClient
from simulator.metrics import METRICS
from simulator.servers.options import Address
from tests.simulator.running import Running, Sender, ask, mail, request, running


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


def test_metrics_tell_what_happened(simulator: Running, control: ControlClient) -> None:
    """Each of them is there, and counts what its row says."""
    before = scraped(simulator)
    control.set_plan(
        {
            "rules": [{"name": "metered", "fault": "reply", "code": 503, "times": 1}],
            "idempotency": {"required": True},
        }
    )
    ask(simulator, request(mail(), key="k1"))
    ask(simulator, request(mail(to=["ada@example.com", "bob@example.com"]), key="k2"))
    ask(simulator, request(mail()))
    control.wait_for_attempts(state="closed", count=3)
    control.add_rules({"fault": "hold"})
    with Sender(simulator.http) as sender:
        sender.say(request(mail(), key="k3"))
        control.wait_for_attempts(state="held")
        after = scraped(simulator)
        control.release()

    def grown(name: str) -> float:
        return after.get(name, 0.0) - before.get(name, 0.0)

    assert grown("simulator_attempts_total native accepted complete") == 1
    assert grown("simulator_attempts_total native refused complete") == 2
    assert grown("simulator_recipients_accepted_total native") == 2
    assert grown("simulator_faults_total metered accept") == 1
    assert grown("simulator_refusals_total native key_required") == 1
    assert after["simulator_held_answers"] == 1
    assert after["simulator_connections http"] >= 2
    assert after["simulator_ledger_failing"] == 0
    assert after["simulator_accounts"] >= 1


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
