"""How the values of keys are written: numbers, texts, patterns, reply codes, `Retry-After`; each form in one place."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from typing import Any

from simulator.config.place import Place, did_you_mean, shown
from simulator.provider.answer import CertificateFlaw, Piece, RetryAfter, RetryAfterKind, TlsAlert
from simulator.provider.dress import Chunks, Flaw, Listing, Shape
from simulator.provider.fate import CATEGORIES, Fate, Happening
from simulator.provider.faults.endings import End
from simulator.provider.faults.smtp import Style
from simulator.provider.notices import Damage, Forgery
from simulator.provider.rule import Pattern

#: Seconds are added to instants, and the sum must be an instant that Python has.
MOST = 3_155_760_000


def read_whole(place: Place, key: str, value: object, *, least: int | None = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        bound = "" if least is None else f" of {least} or more"
        raise place.wrong(f'"{key}" is {shown(value)}; it must be a whole number{bound}')
    return value


def read_number(place: Place, key: str, value: object, *, above_zero: bool = False) -> float:
    number = math.nan
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            pass  # A whole number of hundreds of digits: as unfit as infinity, and said in the same sentence.
    if not 0 <= number <= MOST or (above_zero and number == 0):
        bound = "above 0" if above_zero else "of 0 or more"
        if number > MOST:
            bound = f"of {MOST} at most, which is a hundred years"
        raise place.wrong(f'"{key}" is {shown(value)}; it must be a number {bound}')
    return number


def read_flag(place: Place, key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise place.wrong(f'"{key}" is {shown(value)}; it must be true or false')
    return value


def read_text(place: Place, key: str, value: object) -> str:
    if not isinstance(value, str):
        raise place.wrong(f'"{key}" is {shown(value)}; it must be a text')
    return value


def read_choice(place: Place, key: str, value: object, known: Collection[str]) -> str:
    if not isinstance(value, str) or value not in known:
        raise place.wrong(f'"{key}" is {shown(value)}; {did_you_mean(value, known)}')
    return value


def read_header_name(place: Place, key: str, value: object) -> str:
    """Read the name of an HTTP header (RFC 9110, section 5.1); the empty text means none of its own."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{0,100}", value):
        raise place.wrong(f'"{key}" is {shown(value)}; it must be the name of a header, like "X-Request-Key"')
    return value


def read_pattern(place: Place, key: str, value: object) -> Pattern:
    text = read_text(place, key, value)
    if not text and key != "sender":
        raise place.wrong(
            f'"{key}" is empty; give an exact text, a wildcard like "*@example.org" or a "/regex/"'
        )
    pattern = Pattern(text)
    try:
        pattern.matches("")
    except re.error as problem:
        raise place.wrong(f'"{key}" is {shown(text)}, which is no regular expression: {problem}') from problem
    return pattern


def read_code(place: Place, key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 200 <= value <= 599:
        raise place.wrong(f'"{key}" is {shown(value)}; it must be a reply code from 200 to 599')
    return value


def read_interim(place: Place, key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 100 <= value <= 199 or value == 101:
        # 101 would be the end of HTTP on this connection.
        raise place.wrong(f'"{key}" is {shown(value)}; it must be an interim status from 100 to 199, not 101')
    return value


def read_location(place: Place, key: str, value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[!-~]{1,2000}", value):
        raise place.wrong(f'"{key}" is {shown(value)}; it must be a URL or a path, like "/v1/emails"')
    return value


def read_content_type(place: Place, key: str, value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[ -~]{0,200}", value):
        raise place.wrong(
            f'"{key}" is {shown(value)}; it must be a media type, like "text/plain", or empty for no such header'
        )
    return value


def read_enhanced(place: Place, key: str, value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[245]\.[0-9]{1,3}\.[0-9]{1,3}", value):
        raise place.wrong(
            f'"{key}" is {shown(value)}; it must be an enhanced code like "4.3.0" (class 2, 4 or 5)'
        )
    return value


def read_retry_after(place: Place, key: str, value: object) -> RetryAfter:
    match value:
        case bool():
            pass
        case int() | float() if math.isfinite(value) and value >= 0:
            return RetryAfter(kind=RetryAfterKind.SECONDS, seconds=float(value))
        case "zero":
            return RetryAfter(kind=RetryAfterKind.ZERO)
        case "garbage":
            return RetryAfter(kind=RetryAfterKind.GARBAGE)
        case str() if date := re.fullmatch(r"date:([0-9]{1,9}(?:\.[0-9]{1,9})?)", value):
            return RetryAfter(kind=RetryAfterKind.DATE, seconds=float(date[1]))
    raise place.wrong(
        f'"{key}" is {shown(value)}; it must be a number of seconds, "date:30" (an HTTP-date 30 s ahead), '
        f'"zero" or "garbage"'
    )


#: How each parameter of a fault is read; a test holds that every field of every fault stands here.
PARAMETERS: dict[str, Callable[[Place, str, object], Any]] = {
    "code": read_code,
    "enhanced": read_enhanced,
    "text": read_text,
    "retry_after": read_retry_after,
    "body": read_text,
    "delay_s": read_number,
    "fate": lambda place, key, value: Fate(read_choice(place, key, value, [*Fate])),
    "after_s": read_number,
    "category": lambda place, key, value: read_choice(place, key, value, CATEGORIES),
    "suppresses": read_flag,
    "within_s": read_number,
    "copies": lambda place, key, value: read_whole(place, key, value, least=2),
    "tries": lambda place, key, value: read_whole(place, key, value, least=1),
    "age_s": read_number,
    "size_bytes": lambda place, key, value: read_whole(place, key, value, least=1),
    "status": read_interim,
    "location": read_location,
    "content_type": read_content_type,
    "flaw": lambda place, key, value: Flaw(read_choice(place, key, value, [*Flaw])),
    "chunks": lambda place, key, value: Chunks(read_choice(place, key, value, [*Chunks])),
    "listing": lambda place, key, value: Listing(read_choice(place, key, value, [*Listing])),
    "shape": lambda place, key, value: Shape(read_choice(place, key, value, [*Shape])),
    "forgery": lambda place, key, value: Forgery(read_choice(place, key, value, [*Forgery])),
    "damage": lambda place, key, value: Damage(read_choice(place, key, value, [*Damage])),
    "after_bytes": lambda place, key, value: read_whole(place, key, value, least=1),
    "end": lambda place, key, value: End(read_choice(place, key, value, [*End])),
    "alert": lambda place, key, value: TlsAlert(read_choice(place, key, value, [*TlsAlert])),
    "problem": lambda place, key, value: CertificateFlaw(read_choice(place, key, value, [*CertificateFlaw])),
    "each": lambda place, key, value: Piece(read_choice(place, key, value, [*Piece])),
    "style": lambda place, key, value: Style(read_choice(place, key, value, [*Style])),
    "says": lambda place, key, value: Happening(read_choice(place, key, value, [*Happening])),
}
