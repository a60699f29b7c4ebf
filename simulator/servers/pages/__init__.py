"""The web page: what a person sees of a running simulator, and does to it. Rendered here, kept alive by `page.js`.

Nothing of it is loaded before somebody looks: most services of a test are never looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

if TYPE_CHECKING:
    from simulator.servers.control.context import Context
    from simulator.servers.pages.pages import Pages

#: Where the parts and the assets of the page are.
BASE = "/_simulator/page"

__all__ = ["BASE", "LazyPages"]


class LazyPages:
    """The routes of `Pages`, which is made by the first request. `addresses` says where senders are to send."""

    def __init__(self, context: Context, addresses: Callable[[], Mapping[str, str]]) -> None:
        self._context = context
        self._addresses = addresses
        self.routes = [
            Route("/", self._show_page),
            Route(f"{BASE}/part/{{part}}", self._show_part),
            Route(f"{BASE}/{{name}}", self._show_asset),
        ]

    @cached_property
    def _pages(self) -> Pages:
        from simulator.servers.pages.pages import Pages

        return Pages(self._context, self._addresses)

    async def _show_page(self, request: Request) -> Response:
        return await self._pages.show_page(request)

    async def _show_part(self, request: Request) -> Response:
        return await self._pages.show_part(request)

    async def _show_asset(self, request: Request) -> Response:
        return await self._pages.show_asset(request)
