"""From the business event to the provider's id in one trace: OpenTelemetry, where somebody has configured it.

At enqueue the context of the business goes into the row (W3C Trace Context, `traceparent`); each attempt, and each move of
the reconciler, becomes a span of that trace, however many hours later and in whatever process. Nothing of OpenTelemetry is
imported here unless `OUTBOX_TRACES` is set, or the business has imported it itself.
Must not hold: the outbox, rules of sending.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from reference_sender import __version__
from reference_sender.life import State
from reference_sender.message import InvalidMail
from reference_sender.policy.settings import InvalidSettings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}\Z")

#: Events of the log that become spans, and what each is called.
_SPANS = {"decided": "send mail", "late": "send mail, late", "reconciled": "reconcile mail"}
#: A fact of the log → an attribute of the span. The first two follow the conventions for messaging.
_ATTRIBUTES = {
    "message_id": "messaging.message.id",
    "provider_id": "outbox.provider_id",
    "key": "outbox.key",
    "id": "outbox.id",
    "attempt": "outbox.attempt",
    "state": "outbox.state",
    "reason": "outbox.reason",
    "wire": "outbox.wire",
    "phase": "outbox.phase",
    "code": "outbox.code",
    "provider": "outbox.provider",
}
_BAD = frozenset({State.FAILED, State.DEAD, State.UNKNOWN, State.EXPIRED})


def current_traceparent() -> str | None:
    """The span that is open here, if the application has OpenTelemetry loaded; it is never loaded for this."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    context = api.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def check_traceparent(text: str) -> None:
    """Raise `InvalidMail` for what is no `traceparent` (W3C Trace Context section 3.2)."""
    if not _TRACEPARENT.match(text):
        raise InvalidMail(
            f"traceparent is {text[:80]!r}; it must be like 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        )


class Traces:
    """Hears the log, and makes spans of attempts. Goes along with a sender: closed after it."""

    def __init__(self, provider: TracerProvider, *, now: Callable[[], datetime]) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("reference_sender", __version__)
        self._now = now

    def __call__(self, event: str, /, **facts: object) -> None:
        """Hear a line of the log."""
        if event in _SPANS:
            self._span(_SPANS[event], facts)

    def _span(self, name: str, facts: Mapping[str, Any]) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier = {"traceparent": facts["traceparent"]} if facts.get("traceparent") else {}
        ended = self._now()
        began = ended - timedelta(seconds=facts.get("seconds") or 0.0)
        span = self._tracer.start_span(
            name,
            context=TraceContextTextMapPropagator().extract(carrier),
            kind=SpanKind.CLIENT,
            start_time=_nanoseconds(began),
            attributes={
                attribute: facts[fact]
                for fact, attribute in _ATTRIBUTES.items()
                if facts.get(fact) is not None
            },
        )
        if facts.get("state") in _BAD:
            span.set_status(Status(StatusCode.ERROR, str(facts.get("reason", ""))))
        span.end(end_time=_nanoseconds(ended))

    def start(self) -> None:
        """Nothing has to begin."""

    def close(self) -> None:
        """Hand over what is not handed over yet; waits for it as long as the exporter is patient."""
        self._provider.shutdown()


def exporting(kind: str) -> TracerProvider:
    """A provider of traces as `OUTBOX_TRACES` wants it; where to, the variables OTEL_… say. Raises `InvalidSettings`."""
    try:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import (
            BatchSpanProcessor,
            ConsoleSpanExporter,
            SimpleSpanProcessor,
        )

        resource = Resource.create()
        if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
            # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say nothing of it.
            resource = resource.merge(Resource({SERVICE_NAME: "reference-sender"}))
        provider = TracerProvider(resource=resource)
        if kind == "console":
            provider.add_span_processor(
                SimpleSpanProcessor(
                    ConsoleSpanExporter(
                        out=sys.stderr, formatter=lambda span: span.to_json(indent=None) + "\n"
                    )
                )
            )
        else:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except ImportError as error:
        raise InvalidSettings(
            f"OUTBOX_TRACES is set and {error.name} is not installed; install mailproof[otel]"
        ) from error
    return provider


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1_000
