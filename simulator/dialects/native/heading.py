"""The header fields of a message, written (RFC 5322, section 2.2; RFC 2047; RFC 6532).

Written here because the standard library's folding breaks addresses, long identifiers and display names that it had
read without complaint. Whatever is given can be written, and says the same when its lines are unfolded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from email.header import Header

Mailbox = tuple[str, str]
"""Display name and address."""

#: RFC 5322, section 2.1.1: a line should have no more than 78 characters, and must have no more than 998.
LINE_CHARS = 78
MOST_CHARS = 998

#: RFC 5322, section 3.2.3: a display name of anything else than atoms and blanks is quoted.
_ATOMS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~ -]*")
#: A blank at which a line may be broken: both sides of it have something to read.
_BREAK = re.compile(r"(?<=[^ ]) (?=[^ ])")


def shown(each: Mailbox) -> str:
    """Return a mailbox as people read it."""
    name, address = each
    if not name:
        return address
    if name.isascii() and ("  " in name or not _ATOMS.fullmatch(name)):
        name = '"{}"'.format(re.sub(r'(["\\])', r"\\\1", name))
    return f"{name} <{address}>"


def addresses(name: str, mailboxes: Iterable[Mailbox]) -> bytes:
    """Write a field of addresses, broken between them; addresses beyond ASCII are written as they are (RFC 6532)."""
    lines = [f"{name}:"]
    words = [_written(each) for each in mailboxes]
    for number, each in enumerate(words):
        word = f" {each}{',' if number + 1 < len(words) else ''}"
        if len(lines[-1]) + len(word) > LINE_CHARS and lines[-1] != f"{name}:":
            lines.append("")
        lines[-1] += word
    return _joined(lines)


def words(name: str, value: str) -> bytes:
    """Write a field of free text; what is not plain ASCII becomes encoded words."""
    if _is_plain(value):
        lines = _broken(f"{name}: {value}")
        if max(map(len, lines)) <= MOST_CHARS:
            return _joined(lines)
    return f"{name}: {_encoded(value, len(name) + 2)}\r\n".encode("ascii")


def as_it_is(name: str, value: str) -> bytes:
    """Write a field whose value has a grammar of its own."""
    return _joined(_broken(f"{name}: {value}"))


def _written(each: Mailbox) -> str:
    name, address = each
    if not name or _is_plain(name):
        return shown(each)
    return f"{_encoded(name, 0)} <{address}>"


def _is_plain(value: str) -> bool:
    # What looks like an encoded word would be read as one.
    return value.isascii() and value.isprintable() and "=?" not in value and value == value.strip()


def _encoded(value: str, first: int) -> str:
    # Not one word a blank: a reader drops the blanks between encoded words.
    header = Header(value, "utf-8", maxlinelen=LINE_CHARS - 2, header_name=" " * max(0, first - 2))
    return header.encode(splitchars="", linesep="\r\n")


def _broken(line: str) -> list[str]:
    """Break a long line at blanks, which begin the next line then."""
    lines: list[str] = []
    begin, last = 0, None
    """Where the line that is being made begins, and the last place in it where it may end."""
    for found in _BREAK.finditer(line, line.find(":") + 2):
        if len(line) - begin <= LINE_CHARS:
            break
        place = found.start()
        if last is not None and place - begin > LINE_CHARS:
            lines.append(line[begin:last])
            begin, last = last, None
        if place - begin <= LINE_CHARS:
            last = place
        else:
            lines.append(line[begin:place])
            begin = place
    if last is not None and len(line) - begin > LINE_CHARS:
        lines.append(line[begin:last])
        begin = last
    return [*lines, line[begin:]]


def _joined(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\r\n" for line in lines).encode("utf-8")
