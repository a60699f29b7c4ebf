"""Traces: one trace from the business event to the provider's id, over retries and processes; nothing is loaded for nothing."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from reference_sender.life import State
from reference_sender.message import InvalidMail
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.store import Store, enqueue
from reference_sender.policy.evidence import Accepted, Evidence, Outcome, Phase, TryLater, Wire
from reference_sender.tracing import Traces, check_traceparent, current_traceparent, exporting
from reference_sender.worker import Worker
from tests.reference_sender.samples import MAIL, NOW, ManualClock, settings

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Spans:
    """A provider of traces whose spans a test reads."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def finished(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()


@pytest.fixture
def spans() -> Iterator[Spans]:
    made = Spans()
    yield made
    made.provider.shutdown()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(open_engine(f"sqlite:///{tmp_path / 'outbox.db'}"))
    made.create()
    yield made
    made.engine.dispose()


class Transport:
    """Says "busy" first, and yes afterwards."""

    async def send(self, parcel: Any, *, key: str, point_of_no_return: Any) -> Evidence:
        return Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=503 if parcel.attempts == 1 else 202)


def classify(evidence: Evidence) -> Outcome:
    return TryLater(reason="busy") if evidence.code == 503 else Accepted(reason="accepted", provider_id="m1")


def work(store: Store, traces: Traces, clock: ManualClock) -> None:
    async def steps() -> None:
        worker = Worker(
            store=store,
            transport=Transport(),
            settings=settings(),
            clock=clock,
            rng=random.Random(1),
            classify=classify,
            log=traces,
        )
        for _ in range(2):
            await worker.work_once()
            await worker.idle()
            clock.advance(1000)

    asyncio.run(steps())


def test_business_and_all_attempts_are_one_trace_up_to_the_providers_id(store: Store, spans: Spans) -> None:
    clock = ManualClock()
    tracer = spans.provider.get_tracer("shop")
    with tracer.start_as_current_span("place order") as business, store.engine.begin() as connection:
        enqueue(connection, MAIL, key="order-1", now=NOW)
    work(store, Traces(spans.provider, now=clock.now), clock)
    _, first, second = spans.finished()
    for span in (first, second):
        assert span.name == "send mail"
        assert span.context is not None
        assert span.parent is not None
        assert span.context.trace_id == business.get_span_context().trace_id
        assert span.parent.span_id == business.get_span_context().span_id
    told = [dict(span.attributes or {}) for span in (first, second)]
    assert [(each["outbox.attempt"], each["outbox.code"], each["outbox.state"]) for each in told] == [
        (1, 503, "pending"),
        (2, 202, "accepted"),
    ]
    assert told[1]["outbox.provider_id"] == "m1"
    assert told[1]["outbox.key"] == "order-1"
    assert str(told[1]["messaging.message.id"]).startswith("<")
    assert "@example.com" not in str(told), "no address of a recipient"


def test_a_mail_without_a_trace_begins_its_own(store: Store, spans: Spans) -> None:
    with store.engine.begin() as connection:
        enqueue(connection, MAIL, key="order-1", now=NOW)
    (mail,) = store.histories("order-1")
    assert mail.traceparent is None
    clock = ManualClock()
    work(store, Traces(spans.provider, now=clock.now), clock)
    assert {span.parent for span in spans.finished()} == {None}


def test_who_has_no_opentelemetry_gives_the_trace_by_name(store: Store, spans: Spans) -> None:
    with store.engine.begin() as connection:
        enqueue(connection, MAIL, key="order-1", now=NOW, traceparent=PARENT)
    clock = ManualClock()
    work(store, Traces(spans.provider, now=clock.now), clock)
    assert {f"{span.context.trace_id:032x}" for span in spans.finished() if span.context} == {PARENT[3:35]}


@pytest.mark.parametrize(
    "text", ["", "x", PARENT.upper(), PARENT + "\n", "00-" + "0" * 32 + "-b7ad6b7169203331-01", PARENT[:-1]]
)
def test_a_trace_that_is_none_is_refused_at_enqueue(store: Store, text: str) -> None:
    check_traceparent(PARENT)
    with pytest.raises(InvalidMail, match="traceparent is "), store.engine.begin() as connection:
        enqueue(connection, MAIL, key="order-1", now=NOW, traceparent=text)
    assert store.standings() == []


def test_an_end_that_nobody_wanted_is_an_error_and_a_move_of_the_reconciler_is_a_span(spans: Spans) -> None:
    traces = Traces(spans.provider, now=lambda: NOW)
    traces("decided", id=1, state=State.UNKNOWN.value, reason="no reply", seconds=2.5, traceparent=PARENT)
    traces("reconciled", id=1, state="accepted", reason="found", traceparent=PARENT)
    traces("draining", in_flight=1)
    sent, reconciled = spans.finished()
    assert (sent.status.status_code, sent.status.description) == (StatusCode.ERROR, "no reply")
    assert sent.start_time is not None
    assert sent.end_time is not None
    assert (sent.end_time - sent.start_time) == 2_500_000_000
    assert (reconciled.name, reconciled.status.status_code) == ("reconcile mail", StatusCode.UNSET)


def test_outside_of_a_span_there_is_no_trace() -> None:
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert current_traceparent() is None


def test_on_the_console_a_span_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    traces = Traces(exporting("console"), now=lambda: NOW)
    traces("decided", id=1, state="accepted", traceparent=PARENT)
    traces.close()
    (line,) = capsys.readouterr().err.splitlines()
    assert PARENT[3:35] in line
    assert '"service.name": "reference-sender"' in line


def test_nothing_is_loaded_unless_it_is_configured(tmp_path: Path) -> None:
    code = (
        "import sys; from reference_sender.wiring import build, options_from; "
        "from reference_sender.outbox import enqueue; "
        f"values = {{'provider_url': 'http://127.0.0.1:1', 'database_url': 'sqlite:///{tmp_path / 'o.db'}'}}; "
        "build(options_from(values)); print('opentelemetry' in sys.modules); "
        "build(options_from(values | {'traces': 'otlp'})); print('opentelemetry' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
