"""Who a campaign goes to, read page by page: a CSV file, a file of JSON lines, or a query.

A page is taken up where the last one ended, by a cursor that is a plain value: whoever keeps it with what he made of
the page may die at any time. An audience of millions is never in memory.
Must not hold: mails, the outbox.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from reference_sender.message import InvalidMail

Cursor = Any
"""A JSON value. None: before the first page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One recipient."""

    key: str
    """Names him within the audience, for ever the same: `9001`, or his address."""
    address: str
    """Empty: he has none, and cannot be written to."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Everything that the audience says of him, for the template."""
    place: str = ""
    """Where he stands, for whoever has to mend it: `/srv/users.csv, line 7`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """So many members, and where the next page begins."""

    members: tuple[Member, ...]
    cursor: Cursor
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """How far a file was read: so many octets, and so many lines."""

    offset: int
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One member as the file has him."""

    values: Mapping[str, Any]
    line: int
    """Where he begins, from 1."""
    behind: _Place


class Audience(Protocol):
    """Where members come from."""

    def page(self, connection: Connection, cursor: Cursor, most: int) -> Page:
        """The members behind the cursor, `most` of them at most. Raises `InvalidMail` with one sentence."""
        ...

    def count(self, connection: Connection) -> int:
        """How many members there are in all."""
        ...

    def told(self) -> dict[str, Any]:
        """What `audience_from` makes the same audience of: plain JSON."""
        ...


def audience_from(told: Mapping[str, Any]) -> Audience:
    """The audience that was written down."""
    facts = dict(told)
    match facts.pop("kind"):
        case "csv":
            return CsvFile(**facts)
        case "jsonl":
            return JsonLines(**facts)
        case "sql":
            return Query(**facts)
        case other:
            raise InvalidMail(f"there is no audience of kind {other!r}; there are csv, jsonl and sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class _File(ABC):
    """A file that must stay as it is while the campaign runs: cursors are places in it."""

    path: str
    address: str = "address"
    key: str | None = None
    digest: str = ""

    kind = ""

    def told(self) -> dict[str, Any]:
        found = self.digest or _digest_of(self.path)
        return {
            "kind": self.kind,
            "path": self.path,
            "address": self.address,
            "key": self.key,
            "digest": found,
        }

    def count(self, connection: Connection) -> int:
        with _opened(self.path) as file:
            # Each is looked at: what would end a campaign in its middle is better refused before it begins.
            return sum(1 for _ in map(self._member, self._rows(file, _Place(offset=0, line=0))))

    def page(self, connection: Connection, cursor: Cursor, most: int) -> Page:
        if cursor is None and self.digest and _digest_of(self.path) != self.digest:
            raise InvalidMail(
                f"the audience {self.path} is not the file that the campaign was created with; put that one back, or "
                "create another campaign"
            )
        members = []
        with _opened(self.path) as file:
            size = file.seek(0, io.SEEK_END)
            if cursor is not None and cursor["size"] != size:
                raise InvalidMail(
                    f"the audience {self.path} has {size} bytes and had {cursor['size']}: it must stay as it was "
                    "while the campaign runs"
                )
            place, last = _place_of(file, cursor), True
            for row in self._rows(file, place):
                members.append(self._member(row))
                place = row.behind
                if len(members) == most:
                    last = False
                    break
        behind = {"offset": place.offset, "size": size, "line": place.line}
        return Page(members=tuple(members), cursor=behind, last=last)

    def _member(self, row: _Row) -> Member:
        return _member(row.values, self.address, self.key, f"{self.path}, line {row.line}")

    @abstractmethod
    def _rows(self, file: BinaryIO, begin: _Place) -> Iterator[_Row]:
        """Rows behind the place. Raises `InvalidMail` with one sentence that has the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFile(_File):
    """A CSV file in UTF-8 whose first line names the columns."""

    kind = "csv"

    def _rows(self, file: BinaryIO, begin: _Place) -> Iterator[_Row]:
        lines = _Lines(file, self.path, _Place(offset=0, line=0))
        names, _ = next(self._read(lines), ([], 0))
        for name, option in ((self.address, "--address"), (self.key, "--key")):
            if name is not None and name not in names:
                there = f"it has {', '.join(map(repr, names))}" if names else "it is empty"
                raise InvalidMail(
                    f"{self.path}, line 1: it names the columns, and none is {name!r}; {there}; name one of them by {option}"
                )
        if begin.offset:
            lines = _Lines(file, self.path, begin)
        for values, line in self._read(lines):
            yield _Row(values=dict(zip(names, values, strict=False)), line=line, behind=lines.place)

    def _read(self, lines: _Lines) -> Iterator[tuple[list[str], int]]:
        """Records that are not empty, each with the number of its first line."""
        reader = csv.reader(lines)
        while True:
            line = lines.place.line + 1
            try:
                values = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise InvalidMail(f"{self.path}, line {line}: it is no CSV: {error}") from error
            if values:
                yield values, line


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLines(_File):
    """A file with a JSON object in each line."""

    kind = "jsonl"

    def _rows(self, file: BinaryIO, begin: _Place) -> Iterator[_Row]:
        lines = _Lines(file, self.path, begin)
        for text_ in lines:
            if not text_.strip():
                continue
            line = lines.place.line
            try:
                values = json.loads(text_.rstrip("\r\n"))
            except json.JSONDecodeError as error:
                # Its own words count lines, and this is one.
                why = f"it is no JSON: {error.msg} at character {error.pos + 1}"
            except (ValueError, RecursionError) as error:
                why = f"it is no JSON: {error}"
            else:
                if isinstance(values, dict):
                    yield _Row(values=values, line=line, behind=lines.place)
                    continue
                why = f"it is a {_KINDS.get(type(values), 'number')}"
            raise InvalidMail(
                f"{self.path}, line {line}: {why}; it must be an object like "
                f'{{"{self.address}": "ann@example.com"}}'
            )


#: What JSON calls what is no object.
_KINDS = {list: "list", str: "text", bool: "yes or no", type(None): "null"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query of the outbox's own database that reads a page: `… WHERE id > :after ORDER BY id LIMIT :limit`.

    Its first column is what `:after` goes by, and the key.
    """

    query: str
    address: str = "address"
    start: Any = 0
    """`:after` of the first page."""

    def __post_init__(self) -> None:
        for name in (":after", ":limit"):
            if name not in self.query:
                raise InvalidMail(
                    f"the query has no {name}; write it like SELECT id, email AS address FROM users "
                    "WHERE id > :after ORDER BY id LIMIT :limit"
                )

    def told(self) -> dict[str, Any]:
        return {"kind": "sql", "query": self.query, "address": self.address, "start": self.start}

    def count(self, connection: Connection) -> int:
        counted = text(f"SELECT count(*) FROM ({self.query}) AS members")
        return int(self._ask(connection, counted, None, 2**31 - 1).scalar_one())

    def page(self, connection: Connection, cursor: Cursor, most: int) -> Page:
        rows = self._ask(connection, text(self.query), cursor, most).mappings().all()
        members = []
        for row in rows:
            first = next(iter(row))
            members.append(_member(dict(row), self.address, first, f"the query, {first} {row[first]!r}"))
            cursor = row[first]
        if not isinstance(cursor, int | str | float | None):
            cursor = str(cursor)
        return Page(members=tuple(members), cursor=cursor, last=len(rows) < most)

    def _ask(self, connection: Connection, statement: Any, cursor: Cursor, most: int) -> Any:
        values = {"after": self.start if cursor is None else cursor, "limit": most}
        try:
            return connection.execute(statement, values)
        except SQLAlchemyError as error:
            cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            raise InvalidMail(f"the query of the audience cannot be carried out: {cause}") from error


class _Lines:
    """Lines of a file as text, and how far they were read."""

    def __init__(self, file: BinaryIO, path: str, begin: _Place) -> None:
        self._file, self._path = file, path
        file.seek(begin.offset)
        self.place = begin

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._file.readline()
        if not line:
            raise StopIteration
        offset, number = self.place.offset, self.place.line + 1
        try:
            decoded = line.decode("utf-8-sig" if offset == 0 else "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidMail(
                f"{self._path}, line {number}: it is not UTF-8: byte {error.start + 1} of it is "
                f"0x{line[error.start]:02x}; save the file as UTF-8"
            ) from error
        self.place = _Place(offset=offset + len(line), line=number)
        return decoded


def _place_of(file: BinaryIO, cursor: Cursor) -> _Place:
    if cursor is None:
        return _Place(offset=0, line=0)
    line = cursor.get("line")
    if line is None:  # written by a former version
        file.seek(0)
        line = file.read(cursor["offset"]).count(b"\n")
    return _Place(offset=cursor["offset"], line=line)


def _member(row: Mapping[str, Any], address: str, key: str | None, place: str) -> Member:
    # A column that is empty is one member's, one that is not there the whole audience's.
    told = "" if address in row and row[address] is None else row.get(address)
    if not isinstance(told, str):
        given = (
            f"{address!r} is {told!r}" if address in row else f"there is no {address!r}, only {_names(row)}"
        )
        raise InvalidMail(f"{place}: {given}; it must be an e-mail address, or empty")
    name = row.get(key) if key is not None else told or "nobody"
    if name is None or str(name) == "":
        given = f"{key!r} is empty" if key in row else f"there is no {key!r}, only {_names(row)}"
        raise InvalidMail(f"{place}: {given}; it must name the member for ever, like a number of a user")
    return Member(key=str(name), address=told, parameters=row, place=place)


def _names(row: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, row)) or "nothing"


def _opened(path: str) -> io.BufferedReader:
    try:
        if not Path(path).is_file():
            raise InvalidMail(f"the audience {path} is not a file that can be read")
        return Path(path).open("rb")
    except OSError as error:
        raise InvalidMail(f"the audience {path} cannot be read: {error.strerror}") from error


def _digest_of(path: str) -> str:
    with _opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
