"""docs/recipes: each is run as it stands – plain SQL on every database, FastAPI and Django in a process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from reference_sender.clock import SystemClock
from reference_sender.life import State
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.store import Store
from tests.house.places import ROOT
from tests.reference_sender.outbox.databases import KINDS, database

RECIPES = ROOT / "docs" / "recipes"
_HEADINGS = {"postgresql": "PostgreSQL", "mysql": "MySQL and MariaDB", "sqlite": "SQLite"}


def code(page: str, language: str, heading: str = "") -> list[str]:
    """The blocks of this language, under a heading or on the whole page."""
    words = (RECIPES / page).read_text(encoding="utf-8")
    if heading:
        words = words.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", words, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_by_plain_sql_is_sent_like_any_other(kind: str, tmp_path: Path) -> None:
    (statement,) = code("plain-sql.md", "sql", _HEADINGS[kind])
    with database(kind, tmp_path) as url:
        store = Store(open_engine(url))
        store.create()
        with store.engine.begin() as connection:
            # As the driver takes it: no parameters, nothing of ours in between.
            for _ in range(2):
                cursor = connection.connection.cursor()
                cursor.execute(statement)
                cursor.close()
            inserted = connection.execute(text("SELECT count(*) FROM outgoing_email")).scalar()
        now = SystemClock().now()
        (parcel,) = store.claim(now=now + timedelta(seconds=5), limit=9, lease_s=60, dedupes=True)
        age_s = abs((now - parcel.queued_at).total_seconds())
        store.engine.dispose()
    assert inserted == 1, "a key that is there makes the statement do nothing"
    assert (parcel.state, parcel.recipient, parcel.mail_class) == (
        State.SENDING,
        "ann@example.com",
        "confirmation",
    )
    assert parcel.raw.startswith(b"From: shop@example.org\r\nTo: ann@example.com\r\n")
    assert parcel.raw.endswith(b"\r\n\r\nThank you!\r\n")
    assert parcel.message_id.encode() in parcel.raw
    assert age_s < 60, "the clock of the database, read as UTC"


def test_every_column_that_must_be_given_is_given() -> None:
    """A column that is added later without a default would break who inserts by himself."""
    from reference_sender.outbox.schema import outgoing_email

    needed = {
        column.name
        for column in outgoing_email.columns
        if not column.nullable and column.server_default is None and not column.primary_key
    }
    for heading in _HEADINGS.values():
        (statement,) = code("plain-sql.md", "sql", heading)
        named = set(re.findall(r"\w+", statement.split("(", 1)[1].split(") VALUES")[0]))
        assert needed <= named
        assert named <= {column.name for column in outgoing_email.columns}


def test_the_question_at_the_end_is_one_that_the_tables_answer(tmp_path: Path) -> None:
    (question,) = code("plain-sql.md", "sql", "Watching it from your side")
    store = Store(open_engine(f"sqlite:///{tmp_path / 'o.db'}"))
    store.create()
    with store.engine.connect() as connection:
        assert connection.execute(text(question)).all() == []
    store.engine.dispose()


def run(script: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


_ASK_FASTAPI = """
from fastapi.testclient import TestClient
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.store import Store
store = Store(open_engine("sqlite:///shop.db"))
store.create()
Base.metadata.create_all(engine)
client = TestClient(app, raise_server_exceptions=False)
for new in ({"number": 1}, {"number": 1}, {"number": 2, "fail": True}):
    answer = client.post("/orders", json={"customer": "ann@example.com"} | new)
    print(answer.status_code, answer.text)
print([mail.key for mail in store.standings()])
with Sessions() as db:
    print([each.number for each in db.query(Order)])
"""


def test_an_order_over_fastapi_and_its_mail_are_one_transaction(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    (app,) = code("fastapi-sqlalchemy.md", "python")
    said = run(app + _ASK_FASTAPI, tmp_path)
    assert said.splitlines() == [
        '201 {"mail":"enqueued"}',
        '201 {"mail":"was there already"}',
        "500 Internal Server Error",
        "['order-1-confirmation']",
        "[1]",
    ]


_SET_UP_DJANGO = """
import django
from django.conf import settings
settings.configure(
    USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}},
)
django.setup()
from django.db import models
class Order(models.Model):
    number = models.IntegerField(primary_key=True)
    customer = models.TextField()
    class Meta:
        app_label = "shop"
"""
_ASK_DJANGO = """
from datetime import UTC, datetime
from django.db import connection as own
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.store import Store
from reference_sender.outbox.schema import suppression
store = Store(open_engine("sqlite:///shop.db"))
store.create()
with store.engine.begin() as db:
    db.execute(suppression.insert().values(
        address="bob@example.com", kind="all", reason="bounced", source="e1", since=datetime(2026, 1, 1, tzinfo=UTC)))
with own.schema_editor() as editor:
    editor.create_model(Order)
place_order(1, "ann@example.com")
try:
    with transaction.atomic():
        place_order(2, "ann@example.com")
        raise ZeroDivisionError
except ZeroDivisionError:
    pass
place_order(3, "ann@example.com")
place_order(4, "bob@example.com")
print(sorted(Order.objects.values_list("number", flat=True)))
print([mail.key for mail in store.standings()])
(one, *others) = store.claim(now=datetime(2099, 1, 1, tzinfo=UTC), limit=1, lease_s=60, dedupes=True)
print(one.key, one.queued_at.tzinfo is not None, len(others))
"""


def test_an_order_in_django_and_its_mail_are_one_transaction(tmp_path: Path) -> None:
    pytest.importorskip("django")
    connection, business = code("django.md", "python")
    said = run(_SET_UP_DJANGO + connection + business + _ASK_DJANGO, tmp_path)
    assert said.splitlines() == [
        "[1, 3, 4]",
        "['order-1-confirmation', 'order-3-confirmation', 'order-4-confirmation']",
        "order-1-confirmation True 0",
    ]


def test_recipes_are_the_ones_there_are() -> None:
    assert {page.name for page in RECIPES.glob("*.md")} == {
        "django.md",
        "fastapi-sqlalchemy.md",
        "plain-sql.md",
    }
