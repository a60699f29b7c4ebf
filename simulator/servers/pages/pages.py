"""The page at `/`: what a person sees of one account, rendered here whole or in parts; a small script keeps it alive.

Everything a sender handed in is text to the templates, which escape it. The page may load nothing but its own script
and style, may be framed by nobody, and shows HTML of mails only in a sandbox (`control.parts`).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from simulator import shapes
from simulator.config import plan_as_json, shipped_plans
from simulator.provider.events import event_as_json
from simulator.provider.provider import DEFAULT_ACCOUNT, Account
from simulator.provider.search import AttemptSearch, Search
from simulator.servers import anatomy
from simulator.servers.control import attempts, parts
from simulator.servers.control.context import Context
from simulator.servers.control.endpoint import ACCOUNT
from simulator.servers.control.messages import all_shown
from simulator.servers.control.problems import Refusal
from simulator.servers.pages import view

if TYPE_CHECKING:
    from jinja2 import Environment, Template

#: So many entries of a list are shown.
SHOWN = 100

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " frame-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
ASSETS: Mapping[str, str] = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


class Pages:
    """The page of one service. `addresses` says where senders are to send: `http` and `smtp`."""

    def __init__(self, context: Context, addresses: Callable[[], Mapping[str, str]]) -> None:
        self._context = context
        self._addresses = addresses
        self._parts: Mapping[str, Callable[[_Asked], Awaitable[str]]] = {
            "list": self._list,
            "detail": self._detail,
            "verdict": self._verdict,
            "clock": self._clock,
            "held": self._held,
            "rules": self._rules,
        }

    # --- what is asked for --------------------------------------------------------------------------

    async def show_page(self, request: Request) -> Response:
        """Give the whole page; where there is no such account, one that says so, and which there are."""
        try:
            asked = self._asked(request)
        except Refusal as refusal:
            return self._refused(refusal)
        rendered = {
            **asked.everywhere,
            **await self._list_data(asked),
            **await self._detail_data(asked),
            **await self._verdict_data(asked),
            "clock": self._clock_data(asked),
            "held": self._context.holds.held(asked.account.name),
            "accounts": sorted(self._context.provider.accounts)[:1000],
        }
        return self._said(self._template("page.html").render(rendered))

    async def show_part(self, request: Request) -> Response:
        """Give one part of it, as it is now."""
        asked = self._asked(request)
        part = self._parts.get(request.path_params["part"])
        if part is None:
            raise Refusal(404, f"the page has no part {request.path_params['part'][:40]!r}")
        response = self._said(await part(asked))
        response.headers["x-mails"] = view.thousands(asked.account.booked)
        return response

    async def show_asset(self, request: Request) -> Response:
        """Give script, style or icon."""
        name = request.path_params["name"]
        if name not in ASSETS:
            raise Refusal(404, f"the page has no {name[:40]!r}")
        content = _asset(name)
        # Asked for each time, but sent only once: after an update nobody may run half of the former page.
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        headers = {"etag": tag, "cache-control": "no-cache", "x-content-type-options": "nosniff"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=ASSETS[name], headers=headers)

    # --- parts --------------------------------------------------------------------------------------

    async def _list(self, asked: _Asked) -> str:
        data = await self._list_data(asked)
        return self._macro(f"{asked.tab}_part", asked, data, data[asked.tab], data["more"])

    async def _detail(self, asked: _Asked) -> str:
        data = await self._detail_data(asked)
        if data.get("mail"):
            return self._macro(
                "mail_part",
                asked,
                data,
                data["mail"],
                data["anatomy"],
                data["mail_attempts"],
                data["mail_events"],
            )
        if data.get("attempt"):
            return self._macro("attempt_part", asked, data, data["attempt"])
        return self._macro("home_part", asked, data, data["plan"], data["plans"], data["addresses"])

    async def _verdict(self, asked: _Asked) -> str:
        data = await self._verdict_data(asked)
        return self._macro("verdict_part", asked, data, data["banner"], data["findings"], data["obedience"])

    async def _clock(self, asked: _Asked) -> str:
        return self._macro("clock_part", asked, {}, self._clock_data(asked))

    async def _held(self, asked: _Asked) -> str:
        return self._macro("held_part", asked, {}, self._context.holds.held(asked.account.name))

    async def _rules(self, asked: _Asked) -> str:
        return self._macro("rules_part", asked, {}, self._plan(asked))

    # --- facts --------------------------------------------------------------------------------------

    async def _list_data(self, asked: _Asked) -> dict[str, Any]:
        account, archive = asked.account, self._context.archive
        if asked.tab == "attempts":
            wanted = AttemptSearch(to=asked.q) if asked.q else AttemptSearch()
            tried = await archive.attempts(account, wanted, limit=SHOWN, newest_first=True)
            shown = [attempts.shown(each) for each in tried.found]
            return {
                "attempts": shown,
                "more": tried.cursor is not None,
                "mails_count": view.thousands(account.booked),
            }
        page = await archive.messages(
            account.name, Search(q=asked.q) if asked.q else Search(), limit=SHOWN, newest_first=True
        )
        mails = await all_shown(self._context, account, page.found)
        return {
            "mails": mails,
            "copies": view.copies_note(mails),
            "more": page.cursor is not None,
            "mails_count": view.thousands(account.booked),
        }

    async def _detail_data(self, asked: _Asked) -> dict[str, Any]:
        if asked.mail:
            found = await self._mail_data(asked)
            if found is not None:
                return found
        if asked.attempt:
            page = await self._context.archive.attempts(
                asked.account, AttemptSearch(), limit=1, after=_before(asked.attempt)
            )
            if page.found and page.found[0].id == asked.attempt:
                return {"attempt": attempts.shown(page.found[0])}
        return {"plan": self._plan(asked), "plans": shipped_plans(), "addresses": self._addresses()}

    async def _mail_data(self, asked: _Asked) -> dict[str, Any] | None:
        acceptance = asked.account.ledger.get(asked.mail)
        if acceptance is None:
            return None
        raw = await self._context.archive.raw(acceptance)
        (mail,) = await all_shown(self._context, asked.account, [acceptance])
        tried = await self._context.archive.attempts(
            asked.account,
            AttemptSearch(to=acceptance.recipients[0]) if acceptance.recipients else AttemptSearch(),
            limit=SHOWN,
            newest_first=True,
        )
        return {
            "mail": mail,
            "mail_events": self._events(asked, acceptance.id),
            "anatomy": parts.shown(await asyncio.to_thread(anatomy.take_apart, raw or b"")),
            "mail_attempts": [
                attempts.shown(each)
                for each in reversed(tried.found)
                if each.id == acceptance.attempt or each.message_id == acceptance.message_id
            ],
        }

    async def _verdict_data(self, asked: _Asked) -> dict[str, Any]:
        now, name = self._context.now(), asked.account.name
        judgement = await self._context.archive.judge(name, now)
        obedience = await self._context.archive.judge_obedience(name, now)
        verdict: shapes.Verdict = judgement.as_json() | {"obedience": obedience.as_json()}  # type: ignore[assignment] # built in the pure part
        return {
            "banner": view.banner(verdict, asked.account.booked),
            "findings": view.findings(verdict),
            "obedience": verdict["obedience"],
        }

    def _events(self, asked: _Asked, mail: str) -> list[dict[str, Any]]:
        """Return what has become of a mail by now."""
        events = asked.account.aftermath.events
        events.advance(asked.account.clock.now(self._context.now()))
        return [event_as_json(event) for _, event in events.since(0) if event.email_id == mail]

    def _clock_data(self, asked: _Asked) -> dict[str, Any]:
        clock = asked.account.clock
        return {"now": clock.now(self._context.now()).isoformat(), "ahead_s": clock.ahead.total_seconds()}

    def _plan(self, asked: _Asked) -> dict[str, Any]:
        context, account = self._context, asked.account
        return plan_as_json(account, context.now(), context.webhooks.rules(account))

    # --- inside -------------------------------------------------------------------------------------

    def _refused(self, refusal: Refusal) -> Response:
        """Word a refusal for a person, who has typed the name of an account or followed a link."""
        accounts = sorted(self._context.provider.accounts)[:SHOWN]
        html = self._template("refused.html").render(detail=refusal.detail, accounts=accounts)
        response = self._said(html)
        response.status_code = refusal.status
        return response

    def _asked(self, request: Request) -> _Asked:
        given = request.query_params
        name = ACCOUNT.read("account", given.get("account") or DEFAULT_ACCOUNT)
        return _Asked(self._context.known(name), given)

    @cached_property
    def _environment(self) -> Environment:
        # Loaded with the first page: whoever never looks at one does not pay for it.
        from jinja2 import Environment, FunctionLoader, StrictUndefined

        environment = Environment(
            loader=FunctionLoader(lambda name: _asset(name).decode()),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
        )
        environment.globals["view"] = view
        return environment

    def _template(self, name: str) -> Template:
        return self._environment.get_template(name)

    def _macro(self, name: str, asked: _Asked, data: Mapping[str, Any], *values: Any) -> str:
        module = self._template("macros.html").make_module({**asked.everywhere, **data})
        rendered: str = getattr(module, name)(*values)
        return rendered

    def _said(self, html: str) -> Response:
        # What a sender wrote may hold halves of characters; a page must not fail on them.
        content = html.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
        return Response(content, media_type="text/html; charset=utf-8", headers=HEADERS)


class _Asked:
    """Where a person is on the page."""

    def __init__(self, account: Account, given: Mapping[str, str]) -> None:
        self.account = account
        self.tab = "attempts" if given.get("tab") == "attempts" else "mails"
        self.q = given.get("q", "").strip()[:200]
        self.mail = given.get("mail", "")
        self.attempt = given.get("attempt", "")
        self.everywhere: dict[str, Any] = {
            "account": account.name,
            "tab": self.tab,
            "q": self.q,
            "mail": None,
            "attempt": None,
            "copies": {},
            "shown": given.get("view", ""),
        }


def _before(attempt: str) -> int:
    """Return the number after which the attempt of this name comes."""
    number = attempt.removeprefix("att_")
    return int(number) - 1 if number.isascii() and number.isdecimal() and len(number) < 16 else -1


def _asset(name: str) -> bytes:
    return resources.files("simulator.servers.pages").joinpath(name).read_bytes()
