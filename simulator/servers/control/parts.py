"""The endpoints of a mail taken apart: what it consists of, its attachments, its HTML.

What senders send must not run as a page of ours: attachments are downloads, HTML comes in a sandbox.
"""

from __future__ import annotations

import asyncio
from urllib.parse import quote

from starlette.responses import Response

from simulator import shapes
from simulator.servers import anatomy
from simulator.servers.anatomy import Anatomy
from simulator.servers.control.context import Context
from simulator.servers.control.endpoint import Answer, Asked, Endpoint
from simulator.servers.control.messages import raw_of
from simulator.servers.control.problems import Refusal
from simulator.servers.control.said import Said

#: No scripts, no forms, no plugins, nothing fetched from anywhere, no origin: a picture of a page.
SANDBOX = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:; frame-ancestors 'self'"


async def show_parts(context: Context, asked: Asked) -> Response:
    return Said(shown(await taken_apart(context, asked)))


async def show_part(context: Context, asked: Asked) -> Response:
    raw, number = await raw_of(context, asked), asked.path("number")
    found = None
    if number.isascii() and number.isdecimal() and len(number) < 6:
        found = await asyncio.to_thread(anatomy.content_of, raw, int(number))
    if found is None:
        raise Refusal(404, f"{asked.path('id')} has no part {number[:20]!r}")
    part, content = found
    headers = {
        "content-disposition": _download(part.name),
        "x-content-type-options": "nosniff",
        "content-security-policy": SANDBOX,
    }
    return Response(content, media_type="application/octet-stream", headers=headers)


async def show_html(context: Context, asked: Asked) -> Response:
    raw = await raw_of(context, asked)
    found = await asyncio.to_thread(_html, raw)
    if found is None:
        raise Refusal(404, f"{asked.path('id')} has no HTML")
    headers = {
        "content-security-policy": SANDBOX,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
    }
    return Response(found, media_type="text/html; charset=utf-8", headers=headers)


def _html(raw: bytes) -> str | None:
    html = anatomy.take_apart(raw).html
    return None if html is None else anatomy.with_images(html, raw)


async def taken_apart(context: Context, asked: Asked) -> Anatomy:
    """Return what the mail that is asked for consists of. Raises `Refusal`."""
    return await asyncio.to_thread(anatomy.take_apart, await raw_of(context, asked))


def shown(found: Anatomy) -> shapes.Anatomy:
    return shapes.Anatomy(
        headers=[shapes.Field(name=name, value=value) for name, value in found.headers],
        text=found.text,
        html=found.html,
        parts=[
            shapes.Part(
                number=part.number,
                media_type=part.media_type,
                name=part.name,
                size_bytes=part.size_bytes,
                content_id=part.content_id,
                is_attachment=part.is_attachment,
            )
            for part in found.parts
        ],
        trouble=found.trouble,
    )


def _download(name: str) -> str:
    """Word Content-Disposition (RFC 6266, with the ASCII name for those who know nothing else)."""
    ascii_name = "".join(letter if letter.isascii() else "_" for letter in name)
    return f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(name, safe='')}"


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/messages/{id}/parts",
        says="Take a mail apart: headers, text, HTML, attachments.",
        does=show_parts,
        gives=Answer(shape=shapes.Anatomy),
    ),
    Endpoint(
        method="GET",
        path="/messages/{id}/parts/{number}",
        says="Give the bytes of one part, decoded, as a download.",
        does=show_part,
        gives=Answer(media_type="application/octet-stream", says="The bytes."),
    ),
    Endpoint(
        method="GET",
        path="/messages/{id}/html",
        says="Show the HTML of a mail, in a sandbox, with its own images only.",
        does=show_html,
        gives=Answer(
            media_type="text/html", says="A page without scripts, forms, or anything from elsewhere."
        ),
    ),
)
