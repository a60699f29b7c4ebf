"""Looks: questions that are asked all day, and nearly always answered with no.

Who waits for mail does little else. So the statement is compiled once, and sent by the driver itself: what SQLAlchemy
does around a statement is two thirds of what such a look costs. The connection is the pool's, like every other.
Must not hold: what is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import Dialect, Engine

#: What is sent, and for each of its parameters the value, and what makes of it what is stored.
_Spelled = tuple[str, dict[str, Any], dict[str, Callable[[Any], Any]]]


def look(engine: Engine, question: Any, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
    """The row that a SELECT of truths comes to, as the database says them. Raises what the driver raises."""
    statement, values, makers = _spelled(question, engine.dialect)
    told = {**values, **parameters}
    for name, make in makers.items():
        told[name] = make(told[name])
    return _answer(engine, statement, told)


def _answer(engine: Engine, statement: str, parameters: dict[str, Any]) -> tuple[Any, ...]:
    connection = engine.raw_connection()
    try:
        cursor = connection.cursor()
        cursor.execute(statement, parameters)
        row: tuple[Any, ...] | None = cursor.fetchone()
        cursor.close()
    except Exception:
        # It may be broken; the next one is made anew.
        connection.invalidate()
        raise
    finally:
        connection.close()
    assert row is not None, "truths are one row"
    return row


@lru_cache(maxsize=64)
def _spelled(question: Any, dialect: Dialect) -> _Spelled:
    compiled = question.compile(dialect=dialect)
    makers = {
        name: bind.type.dialect_impl(dialect).bind_processor(dialect) for name, bind in compiled.binds.items()
    }
    return (
        str(compiled),
        dict(compiled.params),
        {name: make for name, make in makers.items() if make is not None},
    )
