"""Reads queries of Prometheus with a parser of its language: what they ask for that there is not, and which labels they keep.

Sums and rates are checked as well: Prometheus takes the rate of a gauge without a word, and it means nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

import promql_parser as promql

from reference_sender.intake_metrics import INTAKE_METRICS
from reference_sender.metrics import METRICS

#: What a scrape adds to every series.
SCRAPED = frozenset({"job", "instance"})
#: What Grafana puts in by itself, and something that it may be.
_BUILT_IN = {"$__rate_interval": "1m"}
#: Functions of a counter; every other takes what goes up and down.
_OF_COUNTERS = frozenset({"rate", "increase", "irate", "resets"})


def families() -> dict[str, tuple[str, frozenset[str]]]:
    """Every name that a query may use: `counter` or `gauge`, and the labels of its series."""
    known = {
        "process_resident_memory_bytes": ("gauge", SCRAPED),
        "process_cpu_seconds_total": ("counter", SCRAPED),
    }
    for row in (*METRICS, *INTAKE_METRICS):
        labels = frozenset(row.labels) | SCRAPED
        if row.kind == "histogram":
            known[f"{row.name}_bucket"] = ("counter", labels | {"le"})
            known |= {f"{row.name}_{part}": ("counter", labels) for part in ("sum", "count")}
        else:
            known[row.name] = (row.kind, labels)
    return known


def wrong(query: str) -> Iterator[str]:
    """What a query asks for that is not there, or that means nothing; the parser's complaint if it is no query."""
    problems = list(unknown(query))
    yield from problems or _meaningless(parsed(query))


def unknown(query: str) -> Iterator[str]:
    """Metrics and labels of a query that are not there; the parser's complaint if it is no query."""
    try:
        selectors = _selectors(parsed(query))
    except ValueError as problem:
        yield str(problem)
        return
    if not selectors:
        yield "no metric at all"
    known = families()
    for each in selectors:
        name = each.name or ""
        if name not in known:
            yield name
            continue
        asked = (matcher.name for matcher in each.matchers.matchers)
        yield from (f"{name}{{{label}}}" for label in asked if label not in known[name][1])


def parsed(query: str) -> promql.Expr:
    """The query as a tree. ValueError: Prometheus would refuse it; the message says why."""
    told: promql.Expr = promql.parse(reduce(lambda text, pair: text.replace(*pair), _BUILT_IN.items(), query))
    return told


def kept(query: str) -> frozenset[str]:
    """The labels that every series of the answer may have."""
    return _labels(parsed(query))


def _all(told: promql.Expr, kind: type[Any]) -> list[Any]:
    """Every part of this kind."""
    found: list[Any] = []

    def look(part: promql.Expr) -> None:
        if isinstance(part, kind):
            found.append(part)

    promql.walk(told, pre_visit=look)
    return found


def _meaningless(told: promql.Expr) -> Iterator[str]:
    kinds = {name: kind for name, (kind, _) in families().items()}
    counted = []
    for call in _all(told, promql.Call):
        names = [name for argument in call.args for name in _names(argument)]
        if call.func.name in _OF_COUNTERS:
            counted += names
            yield from (f"{call.func.name} of the gauge {name}" for name in names if kinds[name] != "counter")
        if call.func.name == "histogram_quantile" and "le" not in _labels(call.args[1]):
            yield "histogram_quantile without le"
    every = [name for name in _names(told) if kinds[name] == "counter"]
    yield from (
        f"{name} itself, which only ever grows"
        for name in sorted(set(every))
        if every.count(name) != counted.count(name)
    )
    for part in _all(told, promql.AggregateExpr):
        named = [] if part.modifier is None else part.modifier.labels
        yield from (f"by or without {label}" for label in named if label not in _labels(part.expr))


def _selectors(part: Any) -> list[promql.VectorSelector]:
    return _all(part, promql.VectorSelector) if isinstance(part, promql.Expr) else []


def _names(part: Any) -> list[str]:
    return [each.name or "" for each in _selectors(part)]


def _labels(part: Any) -> frozenset[str]:
    match part:
        case promql.VectorSelector():
            return families()[part.name or ""][1]
        case promql.MatrixSelector():
            return _labels(part.vector_selector)
        case promql.AggregateExpr():
            if part.modifier is None:
                return frozenset()
            named = frozenset(part.modifier.labels)
            by = part.modifier.type == promql.AggModifierType.By
            return named if by else _labels(part.expr) - named
        case promql.Call():
            inside = _union(_labels(argument) for argument in part.args)
            gone = {"histogram_quantile": frozenset({"le"}), "absent": inside}
            return inside - gone.get(part.func.name, frozenset())
        case promql.BinaryExpr():
            return _of_two(part)
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            return _labels(part.expr)
        case _:
            return frozenset()


def _of_two(part: promql.BinaryExpr) -> frozenset[str]:
    left, right = _labels(part.lhs), _labels(part.rhs)
    match str(part.op):
        case "or":
            return left & right
        case "and" | "unless":
            return left
        case _:
            # A number has no labels, and takes none away.
            return left if left and right else left | right


def _union(each: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*each)


#: `{{state}}` in the name of a line, `{{ $labels.state }}` in the words of an alarm.
PLACEHOLDER = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")
