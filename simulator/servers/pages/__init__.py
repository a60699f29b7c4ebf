"""The web page: what a person sees of a running simulator, and does to it. Rendered here, kept alive by `page.js`."""

from __future__ import annotations

from simulator.servers.pages.pages import Pages

__all__ = ["Pages"]
