"""Links between our own pages lead somewhere: to a file that is there, and to a heading that is in it."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.house.places import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: `[text](target)` and `![text](target "title")`; what is in code is no link.
_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'][^)]*)?\)")
_REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)", re.MULTILINE)
_CODE = re.compile(r"^ {0,3}(```|~~~).*?^ {0,3}\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)


def broken(page: Path) -> list[str]:
    """Return the relative links of a page that lead nowhere."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    found = []
    for target in (*_LINK.findall(text), *_REFERENCE.findall(text)):
        if _OUTSIDE.match(target):
            continue
        name, _, anchor = unquote(target).partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            found.append(target)
    return found


def anchors(page: Path) -> set[str]:
    """Return what the headings of a page are called in a link."""
    text = re.sub(r"^ {0,3}(```|~~~).*?^ {0,3}\1", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#{1,6}\s+(.*?)\s*#*$", text, re.MULTILINE)
    slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    return {f"{slug}-{n}" if n else slug for k, slug in enumerate(slugs) for n in [slugs[:k].count(slug)]}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_links_only_to_what_is_there(page: Path) -> None:
    """A reader who clicks gets what was promised."""
    assert broken(page) == []


def test_the_check_sees_each_way_to_lead_nowhere(tmp_path: Path) -> None:
    """A check that finds nothing would pass for ever."""
    (tmp_path / "there.md").write_text("# What is here?\n\n```\n# no heading\n```\n\n## Twice\n## Twice\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Top\n[a](there.md) [b](there.md#what-is-here) [c](#top) [d](https://example.org/no) [e](there.md#twice-1)\n"
        "`[code](no.md)`\n```\n[code](no.md)\n```\n"
        '[f](gone.md) ![g](gone.png "title") [h](there.md#no-heading) [i](#bottom)\n\n[j]: gone/too.md\n'
    )

    assert broken(page) == ["gone.md", "gone.png", "there.md#no-heading", "#bottom", "gone/too.md"]
