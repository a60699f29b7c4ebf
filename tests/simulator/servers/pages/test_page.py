"""The script of the page, in a browser: what people write and click there is what the control API then says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from simulator.client import ControlClient
from tests.simulator.clients.chromium import CHROMIUM, Page, a_page
from tests.simulator.running import Running, ask, mail, request, running

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]

RULES = "document.querySelector('#rules').innerText"
EXPLAINED = "document.querySelector('#explained').innerText"
LINES = "document.querySelector('#lines').value"


def names(control: ControlClient) -> list[str]:
    return [each["name"] for each in control.plan()["rules"]]


def status(simulator: Running, to: str) -> int:
    return ask(simulator, request(mail(to=[to]), headers={"Authorization": "Bearer shop"})).status


async def opened(page: Page, simulator: Running) -> None:
    await page.open(f"{simulator.service.ready['http']}/?account=shop")
    await page.until("document.querySelector('#live.on')")


def test_rules_are_explained_added_changed_and_taken_away_on_the_page(tmp_path: Path) -> None:
    """With mouse and keys. What is wrong changes nothing; limits that were there before stay."""

    async def people(simulator: Running, control: ControlClient) -> None:
        async with a_page(tmp_path) as page:
            await opened(page, simulator)
            assert "No rules strike." in await page.value(RULES)

            await page.write("#lines", "503 to bob@example.com")
            await page.click("[data-do=explain]")
            await page.until(f"{EXPLAINED}.includes('503')")
            assert names(control) == [], "it was only asked what it would do"

            await page.click("#plan [type=submit]")
            await page.until(f"{RULES}.includes('503 to bob@example.com')")
            assert names(control) == ["503 to bob@example.com"]
            assert (status(simulator, "bob@example.com"), status(simulator, "ada@example.com")) == (503, 200)
            await page.until("document.querySelector('#rules .tally')?.innerText.startsWith('1/')")

            await page.write("#lines", "503 too bob@example.com")
            await page.click("#plan [type=submit]")
            await page.until("document.querySelector('#explained.wrong')")
            assert names(control) == ["503 to bob@example.com"], "what is no rule changes nothing"

            await page.write("#lines", "503 to bob@example.com\n# a note\n429 once")
            await page.press("Enter", "Enter", control=True)
            await page.until(f"{RULES}.includes('429 once')")
            assert names(control) == ["503 to bob@example.com", "429 once"]

            await page.write("#lines", "429 once")
            await page.click("#plan [type=submit]")
            await page.until(f"!{RULES}.includes('bob@example.com')")
            assert names(control) == ["429 once"]
            assert [status(simulator, "bob@example.com") for _ in range(2)] == [429, 200]

            await page.click("[data-do=heal]")
            await page.until(f"{RULES}.includes('No rules strike')")
            assert "[limits]: max_recipients = 3." in await page.value(RULES)
            assert names(control) == []
            assert await page.value(LINES) == ""
            assert control.plan()["limits"]["max_recipients"] == 3, "as before"

            # What somebody else has set meanwhile stays, too.
            control.set_plan({"limits": {"max_recipients": 4}})
            await page.until(f"{RULES}.includes('max_recipients = 4')")
            await page.write("#lines", "503")
            await page.click("#plan [type=submit]")
            await page.until(f"{RULES}.includes('503')")
            assert control.plan()["limits"]["max_recipients"] == 4

            await page.click("[data-do=begin]")
            await page.until(f"{LINES} === '451 once'")
            assert (names(control), control.plan()["settings"]) == (["451 once"], [])
            assert page.complaints == []

    with running({"rules": ["451 once"]}) as simulator, simulator.control("shop") as control:
        control.set_plan({"limits": {"max_recipients": 3}})
        asyncio.run(people(simulator, control))


def test_what_others_do_shows_on_an_open_page(tmp_path: Path) -> None:
    """Rules that came over the API, mails as they come, and held answers, which a key lets go."""

    async def look(simulator: Running, control: ControlClient) -> None:
        async with a_page(tmp_path) as page:
            await opened(page, simulator)
            control.add_rules("hold once")
            await page.until(f"{RULES}.includes('hold once')")
            sent = asyncio.create_task(asyncio.to_thread(status, simulator, "ada@example.com"))
            await page.until("document.querySelector('[data-do=release]')")
            assert control.messages() == []

            await page.press("r", "KeyR", text="r")
            assert await sent == 200
            await page.until("document.querySelector('#list .row .who')?.innerText === 'ada@example.com'")
            await page.until("!document.querySelector('[data-do=release]')")
            assert page.complaints == []

    with running() as simulator, simulator.control("shop") as control:
        control.make_account()
        asyncio.run(look(simulator, control))


#: What of the page reaches beyond its right edge, and what of the text of a button is cut off.
CUT = """[...document.querySelectorAll('body *')].filter((it) => it.checkVisibility() && !it.closest('.skip, #toast, .list, option, datalist') && (
  it.getBoundingClientRect().right > innerWidth || (it.matches('button, .button') && it.scrollWidth > it.clientWidth + 1)
)).map((it) => it.outerHTML.slice(0, 80)).concat(document.documentElement.scrollWidth > innerWidth ? ['the page'] : [])"""
IN_VIEW = "(({ top }) => 0 <= top && top < innerHeight)(document.querySelector('%s').getBoundingClientRect())"
#: In how many lines the elements stand that a selector finds.
LINES_OF = """[...document.querySelectorAll('%s')].map((it) => it.getBoundingClientRect()).filter((it) => it.height)
  .sort((a, b) => a.top - b.top).reduce(([count, end], it) => it.top >= end ? [count + 1, it.bottom] : [count, end], [0, -1e9])[0]"""


@pytest.mark.parametrize("width", [1280, 900, 420])
def test_nothing_is_cut_off(tmp_path: Path, width: int) -> None:
    """On a desk, on a tablet and on a phone, with findings, long addresses, held answers and a clock that was moved."""

    async def look(simulator: Running, control: ControlClient) -> None:
        async with a_page(tmp_path) as page:
            await page.resize(width, 900)
            await opened(page, simulator)
            control.add_rules("hold to held@example.com once")
            sent = asyncio.create_task(asyncio.to_thread(status, simulator, "held@example.com"))
            await page.until("document.querySelector('[data-do=release]')")
            await page.value("document.querySelector('#verdict details').open = true")
            assert await page.value(CUT) == []
            assert await page.value(LINES_OF % ".top > *") <= (2 if width < 1000 else 1)
            assert await page.value(LINES_OF % "#plan .bar > *") == 1
            assert await page.value(LINES_OF % ".card > header > *") == 3, "each in one"

            await page.click("#list .row")
            await page.until("document.querySelector('.mail h2')")
            assert await page.value(IN_VIEW % ".mail h2")
            assert await page.value(CUT) == []
            await page.click(".back")
            await page.until("document.querySelector('#plan')")
            assert await page.value(IN_VIEW % "#list .row")
            control.release()
            assert await sent == 200

    with running({"limits": {"per_day": 1000}}) as simulator, simulator.control("shop") as control:
        control.make_account()
        long = f"{'a.very.long.name.' * 3}x@{'department.' * 4}example.com"
        control.owe(
            [{"ref": f"order-{number}", "recipient": f"{number}@example.com"} for number in range(20)]
        )
        for to in (long, *(f"{number}@example.com" for number in range(19)), long):
            status(simulator, to)
        control.advance(93_784)
        asyncio.run(look(simulator, control))


@pytest.mark.parametrize("width", [1280, 420])
def test_who_has_mistyped_an_account_reads_it_well(tmp_path: Path, width: int) -> None:
    """The sentence stands within its pane, in the middle of the page, and the names beside it lead there."""

    async def look(simulator: Running) -> None:
        async with a_page(tmp_path) as page:
            await page.resize(width, 600)
            await page.open(f"{simulator.service.ready['http']}/?account=defualt")
            pane, said = [
                await page.value(f"(({{ left, right }}) => [left, right])({at}.getBoundingClientRect())")
                for at in ("document.querySelector('.pane')", "document.querySelector('.pane p')")
            ]
            assert said[0] - pane[0] >= 12
            assert pane[1] - said[1] >= 12
            assert abs(pane[0] - (width - pane[1])) <= 2
            assert await page.value(CUT) == []

    with running() as simulator:
        asyncio.run(look(simulator))
