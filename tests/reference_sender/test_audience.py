"""Audiences: every member once, page by page, whoever forgets everything but the cursor in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, text

from reference_sender.audience import Audience, CsvFile, JsonLines, Member, Query, audience_from
from reference_sender.message import InvalidMail

QUERY = "SELECT id, email AS address, name FROM users WHERE id > :after ORDER BY id LIMIT :limit"


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE users (id INTEGER, email TEXT, name TEXT)"))
        for number in range(1, 8):
            connection.execute(
                text("INSERT INTO users VALUES (:n, :a, :m)"),
                {"n": number, "a": f"u{number}@example.com", "m": f"Ü{number}"},
            )
        yield connection
    engine.dispose()


def csv_file(folder: Path, text_: str | None = None) -> str:
    rows = "".join(f'{n},u{n}@example.com,"Ü{n}, or\nmore"\n' for n in range(1, 8))
    path = folder / "audience.csv"
    path.write_text(text_ if text_ is not None else f"id,address,name\n{rows}", encoding="utf-8-sig")
    return str(path)


def jsonl_file(folder: Path) -> str:
    path = folder / "audience.jsonl"
    lines = (json.dumps({"id": n, "address": f"u{n}@example.com", "name": f"Ü{n}"}) for n in range(1, 8))
    path.write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    return str(path)


def every(kind: str, folder: Path) -> Audience:
    match kind:
        case "csv":
            return CsvFile(path=csv_file(folder), key="id")
        case "jsonl":
            return JsonLines(path=jsonl_file(folder), key="id")
        case _:
            return Query(query=QUERY)


@pytest.mark.parametrize("most", [1, 3, 7, 8])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "sql"])
def test_every_member_is_read_once(kind: str, most: int, tmp_path: Path, connection: Connection) -> None:
    told = every(kind, tmp_path).told()
    cursor: Any = None
    found: list[Member] = []
    last = False
    while not last:
        # As after a crash: all that is left are two JSON values.
        audience = audience_from(json.loads(json.dumps(told)))
        page = audience.page(connection, json.loads(json.dumps(cursor)), most)
        assert len(page.members) <= most
        found += page.members
        cursor, last = page.cursor, page.last
    assert [each.key for each in found] == [str(n) for n in range(1, 8)]
    assert [each.address for each in found] == [f"u{n}@example.com" for n in range(1, 8)]
    assert str(found[2].parameters["name"]).startswith("Ü3")
    assert audience.count(connection) == 7


def test_without_a_key_the_address_is_the_key(tmp_path: Path, connection: Connection) -> None:
    page = CsvFile(path=csv_file(tmp_path)).page(connection, None, 1)
    assert page.members[0].key == "u1@example.com"


def test_a_file_that_changed_is_refused(tmp_path: Path, connection: Connection) -> None:
    path = csv_file(tmp_path)
    audience = audience_from(CsvFile(path=path).told())
    cursor = audience.page(connection, None, 2).cursor
    with Path(path).open("a", encoding="utf-8") as file:
        file.write("8,u8@example.com,x\n")
    with pytest.raises(InvalidMail, match="must stay as it was"):
        audience.page(connection, cursor, 2)
    with pytest.raises(InvalidMail, match="is not the file that the campaign was created with"):
        audience.page(connection, None, 2)


@pytest.mark.parametrize(
    ("audience", "words"),
    [
        (CsvFile(path="/nowhere.csv"), "/nowhere.csv is not a file"),
        (JsonLines(path="/nowhere.jsonl"), "/nowhere.jsonl is not a file"),
        (
            Query(query="SELECT a FROM nowhere WHERE a > :after LIMIT :limit"),
            "cannot be carried out: no such",
        ),
    ],
)
def test_an_audience_that_cannot_be_read_is_one_sentence(
    audience: Audience, words: str, connection: Connection
) -> None:
    with pytest.raises(InvalidMail, match=words):
        audience.page(connection, None, 2)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "id,mail\n1,a@example.com\n",
            "line 1: it names the columns, and none is 'address'; it has 'id', 'mail'",
        ),
        ("mail,address\n1,a@example.com\n", "line 1: it names the columns, and none is 'id'; .* by --key"),
        ("", "line 1: .*; it is empty; name one of them by --address"),
        ("id,address\n,a@example.com\n", "line 2: 'id' is empty; it must name the member for ever"),
        ("id,address\n1,a@example.com\n\n1\n", "line 4: there is no 'address', only 'id'; it must be"),
        ('id,address\n1,"a\n@example.com"\n1\n', "line 4: there is no 'address'"),
        ("id,address\n1,a@example.com\n2," + "x" * 140_000, "line 3: it is no CSV: field larger"),
    ],
)
def test_a_file_that_is_no_audience_is_one_sentence_with_its_line(
    content: str, words: str, tmp_path: Path, connection: Connection
) -> None:
    """Before the campaign begins, and while it runs."""
    audience = CsvFile(path=csv_file(tmp_path, content), key="id")
    for read in (lambda: audience.count(connection), lambda: audience.page(connection, None, 5)):
        with pytest.raises(InvalidMail, match=rf"audience\.csv, {words}") as caught:
            read()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("former", [False, True])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_lines_are_counted_from_page_to_page(
    kind: str, former: bool, tmp_path: Path, connection: Connection
) -> None:
    """Also behind a cursor that a former version wrote."""
    audience, cursor = every(kind, tmp_path), None
    places = []
    for _ in range(4):
        page = audience.page(connection, cursor, 2)
        places += [each.place for each in page.members]
        cursor = dict(page.cursor)
        if former:
            del cursor["line"]
    # Each name of the CSV file has two lines, and its first line is the names'.
    wanted = range(2, 16, 2) if kind == "csv" else range(1, 8)
    assert places == [f"{tmp_path}/audience.{kind}, line {number}" for number in wanted]


def test_a_member_without_an_address_is_one_that_cannot_be_written_to(
    tmp_path: Path, connection: Connection
) -> None:
    """Not the end of the campaign: users who have none are in every table."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"address": null}\n{"address": "b@example.com"}\n')
    page = JsonLines(path=str(path)).page(connection, None, 5)
    assert [each.address for each in page.members] == ["", "b@example.com"]
    query = "SELECT 1 AS id, NULL AS address WHERE 1 > :after ORDER BY id LIMIT :limit"
    (member,) = Query(query=query).page(connection, None, 5).members
    assert (member.address, member.place) == ("", "the query, id 1")


def test_a_line_that_is_no_object_is_one_sentence(tmp_path: Path, connection: Connection) -> None:
    path = tmp_path / "a.jsonl"
    for line, words in (
        (b"[1]", "it is a list; it must be an object like"),
        (b"7", "it is a number"),
        (b"{", "it is no JSON: .* at character 2; it must be an object like"),
        (b"[" * 100_000, "it is no JSON"),
        (b"a\xff", "it is not UTF-8: byte 2 of it is 0xff; save the file as UTF-8"),
        (b'{"address": 7}', "'address' is 7; it must be an e-mail address, or empty"),
    ):
        path.write_bytes(b'{"address": "a@example.com"}\n\n' + line + b"\n")
        with pytest.raises(InvalidMail, match=rf"a\.jsonl, line 3: {words}"):
            JsonLines(path=str(path)).page(connection, None, 5)


def test_a_query_without_its_places_and_a_kind_that_does_not_exist_are_refused() -> None:
    with pytest.raises(InvalidMail, match="has no :limit"):
        Query(query="SELECT 1 WHERE 1 > :after")
    with pytest.raises(InvalidMail, match="no audience of kind 'xls'"):
        audience_from({"kind": "xls"})
