"""docs/events.md tells every fate, every type of event and every key, and none that does not exist."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from simulator.config import read_plan
from simulator.config.place import Place
from simulator.config.returns import RETURN_KEYS, read_returns, returns_as_json
from simulator.config.webhooks import WEBHOOK_KEYS, read_webhooks, webhooks_as_json
from simulator.provider.events import event_as_json, events_of
from simulator.provider.fate import SCRIPTS, Fate, Happening
from simulator.provider.returns import ReturnRules
from simulator.provider.webhooks import WebhookRules
from tests.simulator.provider.mails import acceptance

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "events.md").read_text(encoding="utf-8")


def rows(heading: str) -> dict[str, str]:
    """Return the table rows under a heading, by the name in their first cell."""
    part = PAGE.split(f"# {heading}\n")[1].split("\n#")[0]
    return {found[1]: found[0] for found in re.finditer(r"^\| `([a-z_.]+)` \|.*$", part, re.MULTILINE)}


def test_every_fate_has_its_timeline() -> None:
    """The seconds of the page are those of the code."""
    told = rows("Fates")

    assert set(told) == {fate.value for fate in Fate}
    for fate, script in SCRIPTS.items():
        assert re.findall(r"\(([\d.]+)\)", told[fate.value]) == [f"{after_s:g}" for _, after_s in script]


def test_every_type_of_event_is_explained() -> None:
    assert set(rows("Events")) == {happening.value for happening in Happening}


def test_the_example_has_the_shape_of_an_event() -> None:
    example = re.search(r"## Events.*?```json\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    shown = json.loads(example[1])
    event = event_as_json(next(iter(events_of(acceptance()))))

    assert list(shown) == list(event)
    assert list(shown["data"]) == list(event["data"])


def test_every_setting_of_webhooks_is_shown_with_its_usual_value() -> None:
    """The example is a plan; where it says nothing else, it shows what is usual."""
    example = re.search(r"```toml\n(\[webhooks\]\n.*?)```", PAGE, re.DOTALL)
    assert example is not None
    shown = tomllib.loads(example[1])["webhooks"]
    usual = webhooks_as_json(WebhookRules())

    assert list(shown) == list(WEBHOOK_KEYS)
    read_webhooks(shown, Place("docs"))
    chosen = ("url", "secret", "headers", "batch", "disable_after_s")
    assert {key: value for key, value in shown.items() if key not in chosen} == {
        key: value for key, value in usual.items() if key not in chosen
    }


def test_the_rules_of_the_page_are_good_rules() -> None:
    for example in re.findall(r"```toml\n(\[\[rule\]\]\n.*?)```", PAGE, re.DOTALL):
        assert read_plan(tomllib.loads(example), "docs").plan.rules


def test_every_setting_of_returns_is_shown_with_its_usual_value() -> None:
    example = re.search(r"```toml\n(\[returns\]\n.*?)```", PAGE, re.DOTALL)
    assert example is not None
    shown = tomllib.loads(example[1])["returns"]
    usual = returns_as_json(ReturnRules())

    assert list(shown) == list(RETURN_KEYS)
    read_returns(shown, Place("docs"))
    assert {key: shown[key] for key in shown if key not in ("smtp", "complaints_to")} == {
        key: usual[key] for key in usual if key not in ("smtp", "complaints_to")
    }
