"""A browser that tests command over the DevTools protocol: real clicks, real keys, and waiting without sleeping."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)
#: How long a browser may take to begin or to end, in seconds.
WAIT_S = 60
#: How long a test waits for something that must come, in seconds.
PATIENCE_S = 15
WITHOUT_A_WINDOW = ("--headless=new", "--no-sandbox", "--disable-gpu")

#: Resolves as soon as the condition holds; the document is looked at whenever anything in it changes.
_UNTIL = """new Promise((done) => {
  const look = () => { if (%s) { watch.disconnect(); done(true); } };
  const watch = new MutationObserver(look);
  watch.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  look();
})"""


class Page:
    """One page of a browser, commanded over a WebSocket; see https://chromedevtools.github.io/devtools-protocol/."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = count(1)
        self._session: str | None = None
        self._due: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()
        self.complaints: list[str] = []
        """Exceptions that no script of the page caught, and what its policy forbade."""

    async def attach(self) -> None:
        """Open an empty page and listen to it."""
        target = (await self.does("Target.createTarget", url="about:blank"))["targetId"]
        attached = await self.does("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            await self.does(f"{domain}.enable")

    async def listen(self) -> None:
        """Take in what the browser says until it is gone."""
        async for message in self._socket:
            said = json.loads(message.data)
            if "id" in said:
                self._due.pop(said["id"]).set_result(said)
            elif said["method"] == "Page.loadEventFired":
                self._loaded.set()
            elif said["method"] == "Runtime.exceptionThrown":
                details = said["params"]["exceptionDetails"]
                self.complaints.append(details.get("exception", {}).get("description", details["text"]))
            elif said["method"] == "Log.entryAdded" and said["params"]["entry"]["source"] == "security":
                self.complaints.append(said["params"]["entry"]["text"])

    async def does(self, method: str, **given: Any) -> dict[str, Any]:
        """Command the browser; return what it answers."""
        number = next(self._numbers)
        self._due[number] = asyncio.get_running_loop().create_future()
        session = {} if self._session is None else {"sessionId": self._session}
        await self._socket.send_str(json.dumps({"id": number, "method": method, "params": given} | session))
        async with asyncio.timeout(PATIENCE_S):
            said = await self._due[number]
        assert "error" not in said, f"{method}: {said['error']}"
        result: dict[str, Any] = said["result"]
        return result

    async def open(self, url: str) -> None:
        self._loaded.clear()
        await self.does("Page.navigate", url=url)
        async with asyncio.timeout(PATIENCE_S):
            await self._loaded.wait()

    async def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, or what the promise comes to that it is."""
        said = await self.does(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in said, f"{expression}: {said['exceptionDetails']}"
        return said["result"].get("value")

    async def until(self, condition: str) -> None:
        """Return as soon as a JavaScript condition about the document holds."""
        try:
            await self.value(_UNTIL % condition)
        except TimeoutError:
            shown = await self.value("document.body.innerText")
            raise AssertionError(f"it never came to {condition}; the page shows:\n{shown}") from None

    async def resize(self, width: int, height: int) -> None:
        """Show the page as wide and high as that, in pixels."""
        await self.does(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def click(self, selector: str) -> None:
        """Click with the mouse where the element is."""
        middle = (
            "(() => { const it = document.querySelector(%s); it.scrollIntoView({ block: 'center' });"
            " const { x, y, width, height } = it.getBoundingClientRect(); return [x + width / 2, y + height / 2]; })()"
        )
        x, y = await self.value(middle % json.dumps(selector))
        for kind in ("mousePressed", "mouseReleased"):
            await self.does("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def write(self, selector: str, text: str) -> None:
        """Click into a field, mark what is in it, and type over it."""
        await self.click(selector)
        await self.press("a", "KeyA", control=True, commands=["selectAll"])
        await self.does("Input.insertText", text=text)

    async def press(self, key: str, code: str, *, control: bool = False, **more: Any) -> None:
        for kind in ("keyDown", "keyUp"):
            await self.does(
                "Input.dispatchKeyEvent", type=kind, key=key, code=code, modifiers=2 if control else 0, **more
            )


@asynccontextmanager
async def a_page(folder: Path) -> AsyncIterator[Page]:
    """Start a browser whose profile is in `folder`, with one page, for the time of an `async with` block."""
    browser = await asyncio.create_subprocess_exec(
        str(CHROMIUM),
        *WITHOUT_A_WINDOW,
        "--remote-debugging-port=0",
        f"--user-data-dir={folder}",
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(WAIT_S):
            url = await _address(browser)
    except BaseException:
        browser.terminate()
        raise
    # Whatever else it says is read away, or it would wait for that in the end.
    ended = asyncio.create_task(browser.communicate())
    try:
        # A page may say more at once than the four megabytes that are usual.
        async with aiohttp.ClientSession() as session, session.ws_connect(url, max_msg_size=0) as socket:
            page = Page(socket)
            listening = asyncio.create_task(page.listen())
            await page.attach()
            yield page
            await page.does("Browser.close")
            await listening
    finally:
        if not ended.done():
            browser.terminate()
        await asyncio.wait_for(ended, WAIT_S)


async def _address(browser: asyncio.subprocess.Process) -> str:
    """Return where a browser is commanded: it says so itself, among much else."""
    assert browser.stderr is not None
    said = b""
    async for line in browser.stderr:
        said += line
        if found := re.match(rb"DevTools listening on (ws://\S+)", line):
            return found[1].decode()
    raise AssertionError(f"the browser ended: {said.decode(errors='replace')}")
