"""Which addresses stand in something that somebody told, and the name under which each can be found again.

What is told comes in the words of others: as JSON, as a mail, as anything. So every text in it is gone through, and what
looks like an address counts as one; to find too many is right, because an erasure must not miss one.
Must not hold: what an event means, tables.
"""

from __future__ import annotations

import email
import email.message
import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from reference_sender.message import in_ascii

# What an address is told apart by from what stands before it, and what is behind its @. From each @ it is looked back:
# a search from the front would try every letter of a mail of 30 MB, for minutes.
_APART = re.compile(r"[\s<>()\[\],;:\"\\@]")
_DOMAIN = re.compile(r"[\w.-]{0,254}\w")
_LONGEST_LOCAL = 320
# Behind one of these an address may begin that is part of something longer: `to=ann@…`, `/ann@…`, `'ann@…`.
_GLUE = re.compile(r"[^\w.+-]")


def addresses_in(raw: bytes) -> frozenset[str]:
    """Every address that stands in these bytes, as `spelled` has it."""
    found: set[str] = set()
    for text in _texts(raw):
        for local, domain in _found_in(text):
            # The longest one, and what is left of it behind each sign that may not belong to it.
            begins = [0, *(each.end() for each in _GLUE.finditer(local))]
            found |= {spelled(f"{local[begin:]}@{domain}") for begin in begins if local[begin:]}
    return frozenset(found)


def _found_in(text: str) -> Iterator[tuple[str, str]]:
    """What stands before an @ and after it, for each that has something on both sides."""
    at = text.find("@")
    while at >= 0:
        if (domain := _DOMAIN.match(text, at + 1)) is not None:
            local = _APART.split(text[max(at - _LONGEST_LOCAL, 0) : at])[-1]
            if local:
                yield local, domain[0]
        at = text.find("@", at + 1)


def spelled(address: str) -> str:
    """An address as it is compared: in small letters, its domain as the DNS has it."""
    local, _, domain = address.strip().lower().rpartition("@")
    if not domain.isascii():
        try:
            domain = in_ascii(domain)
        except UnicodeError:
            pass  # no domain name, but somebody may have written it like that everywhere
    return f"{local}@{domain}"


def digest_of(address: str) -> str:
    """What is kept of an address to find it by: the hex SHA-256 of its spelling.

    No secret. Whoever guesses the address can check the guess; it keeps readers of a table from reading addresses.
    """
    return hashlib.sha256(spelled(address).encode("utf-8", "surrogatepass")).hexdigest()


def _texts(raw: bytes) -> Iterator[str]:
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError):
        yield raw.decode("utf-8", "replace")
        yield from _texts_of_mail(raw)
        return
    # Not by recursion: what is deep enough to be told is deep enough to be read here.
    left: list[Any] = [told]
    while left:
        match left.pop():
            case str(text):
                yield text
            case list(items):
                left += items
            case dict(facts):
                left += [*facts, *facts.values()]
            case _:
                pass


def _texts_of_mail(raw: bytes) -> Iterator[str]:
    """The parts of a mail, decoded: an address may stand in base64 or with =40 for its @."""
    try:
        message = email.message_from_bytes(raw)
        for part in message.walk():
            content = part.get_payload(decode=True)
            if isinstance(content, bytes) and part.get("Content-Transfer-Encoding"):
                yield content.decode("utf-8", "replace")
    except Exception:
        # The standard library's parser has raised all kinds of things; the bytes as they are were gone through already.
        return
