"""OpenTelemetry spans: one for each request, each attempt of a tier and each call to a judge.

An extra, imported only if tracing is on. Names are those of semantic conventions 1.41 (of GenAI: in development).
Attributes are names and numbers of ours, never a text, path, query, header or key. Of a caller's trace context
`traceparent`, which can hold ids alone, is propagated to the judge; `tracestate` and baggage, free text, are dropped.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import structlog

from plumbline.ground.errors import ConfigurationError
from plumbline.judging.ports.observation import (
    ANSWERED,
    CacheOutcome,
    JudgeCallRecord,
    Observer,
    RequestRecord,
    TierRecord,
)

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

_SCHEMA: Final = "https://opentelemetry.io/schemas/1.41.0"
_ERROR: Final = "error.type"
# Providers by the names that the conventions give them; others keep ours, as the conventions want it.
_PROVIDER_NAMES: Final[Mapping[str, str]] = {"azure": "azure.ai.openai", "dashscope-intl": "dashscope"}
_FIRST_ERROR_STATUS: Final = 500


class Tracing(Observer):
    def __init__(self, provider: "TracerProvider", *, version: str) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - an extra
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        self._trace = trace
        self._provider = provider
        tracer = provider.get_tracer("plumbline", version, schema_url=_SCHEMA)
        # An exception's message may hold a text.
        self._span = partial(tracer.start_as_current_span, record_exception=False, set_status_on_exception=False)
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def request(self, note: RequestRecord) -> Iterator[None]:
        carrier = {"traceparent": note.traceparent} if note.traceparent else {}
        with (
            self._span(
                note.method,
                # Not that of the task: the parent of a request is its caller's span alone.
                context=self._propagator.extract(carrier),
                kind=self._trace.SpanKind.SERVER,
                attributes={"http.request.method": note.method},
            ) as span,
            structlog.contextvars.bound_contextvars(trace_id=f"{span.get_span_context().trace_id:032x}"),
        ):
            try:
                yield
            finally:
                span.update_name(f"{note.method} {note.route}")
                span.set_attributes({"http.route": note.route, "http.response.status_code": note.status})
                if note.status >= _FIRST_ERROR_STATUS:
                    self._mark_failed(span, str(note.status))

    @contextmanager
    def tier(self, note: TierRecord) -> Iterator[None]:
        with self._span(f"tier {note.tier}", attributes={"plumbline.tier": note.tier}) as span:
            try:
                yield
            finally:
                span.set_attribute("plumbline.outcome", note.outcome)
                if note.outcome != ANSWERED:
                    self._mark_failed(span, note.outcome)

    @contextmanager
    def judge_call(self, note: JudgeCallRecord) -> Iterator[None]:
        place = urlsplit(f"//{note.host}")
        with self._span(
            f"{note.operation} {note.model}",
            kind=self._trace.SpanKind.CLIENT,
            attributes={
                "gen_ai.operation.name": note.operation,
                "gen_ai.provider.name": _PROVIDER_NAMES.get(note.provider, note.provider),
                "gen_ai.request.model": note.model,
                "server.address": place.hostname or "",
                **({"gen_ai.request.max_tokens": note.max_output_tokens} if note.operation == "chat" else {}),
                **({"server.port": place.port} if place.port else {}),
            },
        ) as span:
            self._propagator.inject(note.headers)
            try:
                yield
            finally:
                span.set_attributes(_reply_attributes(note))
                if note.outcome != ANSWERED:
                    self._mark_failed(span, note.outcome)

    def on_cache_lookup(self, outcome: CacheOutcome) -> None:
        self._trace.get_current_span().set_attribute("plumbline.verdict_cache", outcome)

    def on_decision(self, tier: str, rule: str, *, passed: bool | None, score: float) -> None:
        label = "unsure" if passed is None else "pass" if passed else "fail"
        attributes: dict[str, str | float] = {
            "gen_ai.evaluation.name": "faithfulness",
            "gen_ai.evaluation.score.label": label,
            "gen_ai.evaluation.score.value": score,
            "plumbline.tier": tier,
            "plumbline.passed_by": rule,
        }
        self._trace.get_current_span().add_event("gen_ai.evaluation.result", attributes)

    def _mark_failed(self, span: "Span", reason: str) -> None:
        span.set_attribute(_ERROR, reason)
        span.set_status(self._trace.StatusCode.ERROR)

    def close(self) -> None:
        """Flush and shut down; takes seconds if the collector does not answer."""
        self._provider.shutdown()


def otlp_tracing(version: str) -> Tracing:
    """Return tracing by OTLP over HTTP, as the `OTEL_*` variables say; raise ConfigurationError without the extra."""
    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if os.environ.get(name, "http/protobuf") != "http/protobuf":
            raise ConfigurationError(f"{name}: only http/protobuf is spoken here")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        raise ConfigurationError("PLUMBLINE_TRACING=otlp needs packages: pip install 'plumbline-rag[otel]'") from None
    attributes = {"service.version": version}
    is_named = "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "") or os.environ.get("OTEL_SERVICE_NAME")
    if not is_named:
        attributes["service.name"] = "plumbline"
    provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider, version=version)


def _reply_attributes(note: JudgeCallRecord) -> dict[str, str | int | float | list[str]]:
    attributes: dict[str, str | int | float | list[str]] = {"plumbline.outcome": note.outcome}
    counts = {
        "gen_ai.usage.input_tokens": note.prompt_tokens,
        "gen_ai.usage.cache_read.input_tokens": note.cached_tokens,
        "gen_ai.usage.output_tokens": note.completion_tokens,
    }
    attributes |= {name: count for name, count in counts.items() if count is not None}
    if note.cost is not None:
        attributes["plumbline.cost"] = note.cost
    if note.outcome == ANSWERED and note.operation == "chat":
        attributes["gen_ai.response.finish_reasons"] = ["length" if note.is_truncated else "stop"]
    return attributes
