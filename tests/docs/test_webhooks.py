"""docs/webhooks.md says what is: kinds, weights, options."""

from __future__ import annotations

import re
from pathlib import Path

from reference_sender.events.kinds import MEANING
from reference_sender.intake_options import INTAKE_OPTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text(encoding="utf-8")


def test_the_table_of_kinds_is_the_one_of_the_code() -> None:
    written = re.findall(r"^\| `(\w+)`[^|]*\| (\d+) \| (yes)? ?\|$", PAGE, re.MULTILINE)
    assert written == [
        (kind.value, str(meaning.weight), "yes" if meaning.suppresses else "")
        for kind, meaning in MEANING.items()
    ]


def test_every_option_is_named_with_its_default() -> None:
    for option in INTAKE_OPTIONS[1:]:
        (row,) = re.findall(rf"^\| `--{option.name.replace('_', '-')}` \|.*$", PAGE, re.MULTILINE)
        assert f"`{option.envvar}`" in row
        if option.default is not None:
            default = option.default if isinstance(option.default, str) else f"{option.default:.0f}"
            assert default in row
