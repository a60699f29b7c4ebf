"""Clients that people really use, against the HTTP side: what is allowed they cope with, what is broken they notice."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests

from simulator.servers.tls import TlsOptions
from tests.simulator.running import ANY_PORT, Running, mail, running

#: What one call of a client came to: status and JSON of the answer, or the client's own word for what went wrong.
Outcome = tuple[int | None, Any]


@dataclass(frozen=True, slots=True)
class Client:
    """A client, and how a mail is posted with it."""

    name: str
    post: Callable[[str, dict[str, Any] | list[Any], str], Outcome]
    """URL, body, idempotency key."""


TIMEOUT_S = 5.0


def _of(status: int, body: bytes) -> Outcome:
    try:
        return status, json.loads(body)
    except ValueError:
        return status, None


def with_httpx(url: str, body: Any, key: str) -> Outcome:
    with httpx.Client(trust_env=False, timeout=TIMEOUT_S, verify=False) as client:
        try:
            answer = client.post(url, json=body, headers={"Idempotency-Key": key})
        except httpx.HTTPError as problem:
            return None, type(problem).__name__
        return _of(answer.status_code, answer.content)


def with_requests(url: str, body: Any, key: str) -> Outcome:
    with requests.Session() as session:
        session.trust_env = False
        try:
            answer = session.post(
                url, json=body, headers={"Idempotency-Key": key}, timeout=TIMEOUT_S, allow_redirects=False
            )
            return _of(answer.status_code, answer.content)
        except requests.RequestException as problem:
            return None, type(problem).__name__


def with_curl(url: str, body: Any, key: str, *more: str) -> Outcome:
    command = [
        "curl",
        "-sS",
        "--noproxy",
        "*",
        "--max-time",
        str(TIMEOUT_S),
        "--compressed",
        "-w",
        "\n%{http_code}",
    ]
    command += ["-H", f"Idempotency-Key: {key}", "--data-binary", "@-", *more, url]
    done = subprocess.run(command, input=json.dumps(body).encode(), capture_output=True, check=False)
    if done.returncode != 0:
        return None, f"curl: ({done.returncode})"
    content, _, status = done.stdout.rpartition(b"\n")
    return _of(int(status), content)


class Fetch:
    """A node that stays: starting one for each mail would cost more than all mails."""

    def __init__(self) -> None:
        self._node: subprocess.Popen[str] | None = None

    def __call__(self, url: str, body: Any, key: str) -> Outcome:
        if self._node is None:
            command = ["node", "--no-warnings", str(Path(__file__).with_name("fetch.mjs"))]
            self._node = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.write(json.dumps([url, key, json.dumps(body)]) + "\n")
        self._node.stdin.flush()
        status, content = json.loads(self._node.stdout.readline())
        return (None, content) if status is None else _of(status, content.encode())

    def end(self) -> None:
        if self._node is not None:
            with self._node:
                self._node.terminate()
            self._node = None


with_fetch = Fetch()


CLIENTS = [
    pytest.param(Client("httpx", with_httpx), id="httpx"),
    pytest.param(Client("requests", with_requests), id="requests"),
    pytest.param(
        Client("curl", with_curl),
        id="curl",
        marks=pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine"),
    ),
    pytest.param(
        Client("fetch", with_fetch),
        id="fetch",
        marks=pytest.mark.skipif(shutil.which("node") is None, reason="there is no node on this machine"),
    ),
]
each_client = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture(scope="module")
def simulator() -> Iterator[Running]:
    with running() as service:
        yield service
    with_fetch.end()


@pytest.fixture(autouse=True)
def _clean(simulator: Running) -> None:
    with simulator.control() as control:
        control.reset()


def post(
    client: Client, simulator: Running, body: Any = None, *, key: str = "k", path: str = "/v1/emails"
) -> Outcome:
    host, port = simulator.http
    return client.post(f"http://{host}:{port}{path}", mail() if body is None else body, key)


def plan(simulator: Running, **rule: Any) -> None:
    with simulator.control() as control:
        control.set_plan({"rules": [rule]})


def accepted(simulator: Running) -> int:
    with simulator.control() as control:
        return len(control.messages())


@each_client
def test_a_mail_is_taken_and_replayed(client: Client, simulator: Running) -> None:
    first, second = post(client, simulator), post(client, simulator)

    assert first[0] == 200
    assert first[1]["status"] == "accepted"
    assert second == first
    assert accepted(simulator) == 1


@each_client
def test_a_batch_is_taken(client: Client, simulator: Running) -> None:
    status, document = post(client, simulator, [mail(), mail(to=["nobody"])], path="/v1/emails/batch")

    assert status == 200
    assert [each["http_status"] for each in document["data"]] == [200, 422]


@each_client
def test_a_refusal_is_a_problem_document(client: Client, simulator: Running) -> None:
    status, document = post(client, simulator, mail(to=["nobody"]))

    assert (status, document["code"]) == (422, "invalid_recipient")


#: What a client must cope with: RFC 9110 and 9112 allow all of it.
ALLOWED: dict[str, dict[str, Any]] = {
    "compressed": {"fault": "gzip"},
    "in chunks": {"fault": "chunked"},
    "in chunks with a trailer": {"fault": "chunked", "chunks": "trailer"},
    "dripped": {"fault": "drip", "stage": "reply", "delay_s": 0.001, "size_bytes": 11},
    "with 103 before it": {"fault": "interim"},
    "late": {"fault": "slow", "stage": "reply", "delay_s": 0.2},
}


#: Who does not cope, as of now, and what it takes the answer for: Python's http.client, on which requests stands,
#: skips 100 and no other interim answer.
STUMBLES = {("requests", "with 103 before it"): 103}


@pytest.mark.parametrize("form", ALLOWED)
@each_client
def test_an_answer_in_an_odd_but_sound_form_is_understood(
    client: Client, simulator: Running, form: str
) -> None:
    plan(simulator, dialect="http", **ALLOWED[form])

    status, document = post(client, simulator)

    if (client.name, form) in STUMBLES and status == STUMBLES[client.name, form]:
        return
    assert (status, document and document["status"]) == (200, "accepted")


#: What a client must not take for a yes; the mail has been taken all the same.
BROKEN: dict[str, dict[str, Any]] = {
    "nothing at all": {"fault": "accept_then_hang_up"},
    "a reset": {"fault": "accept_then_reset"},
    "half of the body": {"fault": "accept_then_truncate"},
    "no last chunk": {"fault": "chunked", "chunks": "unfinished"},
    "a chunk without a size": {"fault": "chunked", "chunks": "bad_size"},
    "gzip that is none": {"fault": "gzip", "flaw": "junk"},
    "junk": {"fault": "accept_then_garble"},
}


@pytest.mark.parametrize("form", BROKEN)
@each_client
def test_an_answer_that_is_broken_is_no_yes(client: Client, simulator: Running, form: str) -> None:
    """The client says so, or hands on what is no JSON; and it does not send the mail a second time by itself."""
    plan(simulator, dialect="http", **BROKEN[form])

    status, document = post(client, simulator)

    assert status is None or document is None
    assert accepted(simulator) == 1
    with simulator.control() as control:
        assert len(control.wait_for_attempts(state="closed")) == 1


@each_client
def test_a_retry_with_the_key_finds_out(client: Client, simulator: Running) -> None:
    plan(simulator, fault="accept_then_reset", dialect="http", times=1)

    lost, again = post(client, simulator), post(client, simulator)

    assert lost[0] is None
    assert again[0] == 200
    assert accepted(simulator) == 1


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ({}, 200),
        ({"fault": "no_continue"}, 200),
        ({"fault": "reply", "stage": "upload", "code": 417}, 417),
        ({"fault": "reply", "stage": "upload", "code": 413}, 413),
    ],
    ids=["100", "silence", "417", "413"],
)
def test_curl_waits_for_100_as_long_as_it_likes(
    simulator: Running, rule: dict[str, Any], outcome: int
) -> None:
    if rule:
        plan(simulator, **rule)
    host, port = simulator.http
    more = ("-H", "Expect: 100-continue", "--expect100-timeout", "0.2")

    status, _ = with_curl(f"http://{host}:{port}/v1/emails", mail(), "k", *more)

    # curl repeats without the expectation by itself when it is refused with 417, as RFC 9110 wants it.
    assert status == outcome
    assert accepted(simulator) == (1 if outcome == 200 else 0)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
@pytest.mark.parametrize(("code", "posts"), [(301, 1), (302, 1), (303, 1), (307, 51), (308, 51)])
def test_curl_follows_redirects_as_post_or_as_get(simulator: Running, code: int, posts: int) -> None:
    """301, 302 and 303 make a GET of it: no mail. 307 and 308 keep POST, here in a circle until curl gives up."""
    plan(simulator, fault="redirect", stage="request", code=code)
    host, port = simulator.http

    with_curl(f"http://{host}:{port}/v1/emails", mail(), "k", "--location", "--max-redirs", "50")

    with simulator.control() as control:
        control.wait_for_attempts(count=posts, state="closed")
        assert len(control.attempts()) == posts
    assert accepted(simulator) == 0


@pytest.mark.parametrize(
    "rule", ["expired certificate", "wrong host certificate", "refuse handshake", "break handshake"]
)
@pytest.mark.parametrize("name", ["requests", "curl"])
def test_no_mail_goes_over_a_line_that_cannot_be_trusted(name: str, rule: str, tmp_path: Path) -> None:
    """What httpx makes of each of these is in `servers/http/test_secure.py`."""
    if shutil.which(name) is None and name == "curl":
        pytest.skip("there is no curl on this machine")
    with running({"rules": [f"{rule} once"]}, https=ANY_PORT, tls=TlsOptions(folder=tmp_path)) as simulator:
        url, ca = f"{simulator.service.ready['https']}/v1/emails", simulator.service.ready["ca"]

        def post() -> Outcome:
            if name == "curl":
                return with_curl(url, mail(), "k", "--cacert", ca)
            with requests.Session() as session:
                session.trust_env, session.verify = False, ca
                try:
                    answer = session.post(url, json=mail(), timeout=TIMEOUT_S)
                except requests.exceptions.ConnectionError as problem:
                    return None, type(problem).__name__
                return _of(answer.status_code, answer.content)

        assert post()[0] is None
        assert accepted(simulator) == 0
        assert post()[0] == 200
