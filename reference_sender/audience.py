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


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """So many members, and where the next page begins."""

    members: tuple[Member, ...]
    cursor: Cursor
    last: bool


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
            return sum(1 for _ in self._rows(file, None))

    def page(self, connection: Connection, cursor: Cursor, most: int) -> Page:
        if cursor is None and self.digest and _digest_of(self.path) != self.digest:
            raise InvalidMail(f"the audience {self.path} is not the file that the campaign was created with")
        members = []
        with _opened(self.path) as file:
            size = file.seek(0, io.SEEK_END)
            if cursor is not None and cursor["size"] != size:
                raise InvalidMail(
                    f"the audience {self.path} has {size} bytes and had {cursor['size']}: it must stay as it was "
                    "while the campaign runs"
                )
            offset = None if cursor is None else cursor["offset"]
            last = True
            for row, behind in self._rows(file, offset):
                members.append(_member(row, self.address, self.key, f"{self.path}, byte {offset or 0}"))
                offset = behind
                if len(members) == most:
                    last = False
                    break
        return Page(members=tuple(members), cursor={"offset": offset, "size": size}, last=last)

    @abstractmethod
    def _rows(self, file: BinaryIO, offset: int | None) -> Iterator[tuple[Mapping[str, Any], int]]:
        """Rows behind the offset (None: from the first), each with the offset behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFile(_File):
    """A CSV file in UTF-8 whose first line names the columns."""

    kind = "csv"

    def _rows(self, file: BinaryIO, offset: int | None) -> Iterator[tuple[Mapping[str, Any], int]]:
        lines = _Lines(file, self.path, 0)
        names = next(csv.reader(lines), None)
        if not names or self.address not in names:
            raise InvalidMail(
                f"the first line of {self.path} names no column {self.address!r}; it has {', '.join(names or ['none'])}"
            )
        if offset is not None:
            lines = _Lines(file, self.path, offset)
        for values in csv.reader(lines):
            if values:
                yield dict(zip(names, values, strict=False)), lines.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLines(_File):
    """A file with a JSON object in each line."""

    kind = "jsonl"

    def _rows(self, file: BinaryIO, offset: int | None) -> Iterator[tuple[Mapping[str, Any], int]]:
        lines = _Lines(file, self.path, offset or 0)
        for line in lines:
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise InvalidMail(f"{self.path}: the line before byte {lines.offset} is not a JSON object")
            yield row, lines.offset


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
            members.append(_member(dict(row), self.address, first, "the query"))
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

    def __init__(self, file: BinaryIO, path: str, offset: int) -> None:
        self._file, self._path = file, path
        file.seek(offset)
        self.offset = offset

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._file.readline()
        if not line:
            raise StopIteration
        try:
            decoded = line.decode("utf-8-sig" if self.offset == 0 else "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidMail(f"{self._path} is not UTF-8 at byte {self.offset + error.start}") from error
        self.offset += len(line)
        return decoded


def _member(row: Mapping[str, Any], address: str, key: str | None, where: str) -> Member:
    # A column that is empty is one member's, one that is not there the whole audience's.
    told = "" if address in row and row[address] is None else row.get(address)
    if not isinstance(told, str):
        raise InvalidMail(f"{where}: a member has no {address!r}; it must be an e-mail address")
    name = row.get(key) if key is not None else told or "nobody"
    if name is None or str(name) == "":
        raise InvalidMail(f"{where}: a member has no {key!r}; it must name him for ever")
    return Member(key=str(name), address=told, parameters=row)


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
