"""docs/events.md tells every fate, every type of event and every key, and none that does not exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

from simulator.provider.events import event_as_json, events_of
from simulator.provider.fate import SCRIPTS, Fate, Happening
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
