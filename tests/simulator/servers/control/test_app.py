"""The control API put together: documented, and every mistake is answered with one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from simulator.servers.control import PREFIX, endpoint
from simulator.servers.control.app import ENDPOINTS
from simulator.servers.control.endpoint import Endpoint

DOCS = Path(__file__).parents[4] / "docs" / "control-api.md"


def sections() -> dict[tuple[str, str], str]:
    """Return what the page says of each (method, path)."""
    found = {}
    for section in re.split(r"^### ", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        for method, path in re.findall(r"`(\w+) ([^`]+)`", heading):
            found[method, path if path.startswith("/") else f"{PREFIX}/{path}"] = text.partition("\n## ")[0]
    return found


def test_every_endpoint_is_documented_and_no_other() -> None:
    """docs/control-api.md has a heading for each."""
    assert sorted(sections()) == sorted((row.method, row.whole_path) for row in ENDPOINTS)


@pytest.mark.parametrize("row", ENDPOINTS, ids=lambda row: f"{row.method} {row.path}")
def test_an_endpoint_is_documented_with_its_parameters_and_an_example(row: Endpoint) -> None:
    """Each parameter is named; where the page has a table of them, it says what the code says."""
    text = sections()[row.method, row.whole_path]
    says = {each.name: each.says for each in row.parameters}

    assert "```" in text, "there is no example"
    assert [name for name in says if f"`{name}`" not in text] == []
    (table,) = re.findall(r"\| parameter \|.*\n\|---\|---\|\n((?:\|.*\n)*)", text) or [""]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", table, flags=re.MULTILINE)
    assert rows == [(name, says[name]) for name, _ in rows]


MISTAKES = {
    "unknown path": ("GET", "nothing", {}, 404),
    "unknown message": ("GET", "messages/msg_none", {}, 404),
    "unknown raw": ("GET", "messages/msg_none/raw", {}, 404),
    "wrong method": ("POST", "health", {}, 405),
    "unknown parameter": ("GET", "messages", {"recipient": "a@x"}, 400),
    "empty account": ("GET", "messages", {"account": ""}, 400),
    "endless account": ("GET", "messages", {"account": "x" * 201}, 400),
    "unprintable account": ("GET", "messages", {"account": "a\nb"}, 400),
    "bad count": ("GET", "messages/wait", {"count": "-1"}, 400),
    "bad timeout": ("GET", "messages/wait", {"timeout_s": "soon"}, 400),
    "endless timeout": ("GET", "messages/wait", {"timeout_s": "inf"}, 400),
    "unknown state": ("GET", "attempts", {"state": "gone"}, 400),
    "bad flag": ("GET", "verdict", {"final": "maybe"}, 400),
    "no JSON": ("PUT", "plan", {}, 400),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered_with_one_sentence(web: httpx.Client, name: str) -> None:
    """As problem+json."""
    method, path, parameters, status = MISTAKES[name]

    answer = web.request(method, path, params=parameters, content=b"{" if method == "PUT" else None)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert answer.json()["detail"]


def test_a_body_that_is_too_large_is_refused_while_it_comes(
    web: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody fills the memory of the simulator with promises."""
    monkeypatch.setattr(endpoint, "MAX_BODY_BYTES", 1000)

    answer = web.post("obligations", content=b"[" + b" " * 2000)

    assert (answer.status_code, answer.json()["detail"]) == (413, "the body may have 1000 bytes at most")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "the body is not JSON"),
        (b"[" * 100_000, "the body is not JSON"),
        (b"[NaN]", "NaN is no number of JSON"),
        (b"[1e999]", ""),
        (b"[" + b"9" * 5000 + b"]", "the body is not JSON"),
        (b'["\\ud800"]', "half of a surrogate pair"),
        (b"\xff\xfe", "the body is not JSON"),
        (b'{"obligations": [], "obligations": []}', 'the member "obligations" stands there twice'),
        (
            b'[{"ref": "a", "ref": "b", "recipient": "ada@example.com"}]',
            'the member "ref" stands there twice',
        ),
    ],
)
def test_a_body_that_is_hardly_json_is_refused_in_one_sentence(
    web: httpx.Client, body: bytes, says: str
) -> None:
    """Never a trace, never half of it taken."""
    answer = web.post("obligations", content=body)

    assert answer.status_code in (400, 422)
    assert says in answer.json()["detail"]
    assert len(answer.json()["detail"]) < 300


def test_a_parameter_that_comes_twice_is_refused(web: httpx.Client) -> None:
    """One of the two would be ignored, and the wrong account reset."""
    answer = web.post("reset?account=shop&account=default")

    assert (answer.status_code, answer.json()["detail"]) == (400, "there is 'account' twice; give it once")


def test_a_wrong_method_names_the_right_ones(web: httpx.Client) -> None:
    """RFC 9110, section 15.5.6: 405 carries Allow."""
    assert web.patch("plan").headers["allow"] == "GET, PUT, POST, DELETE"
