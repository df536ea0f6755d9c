"""Spans of requests, tiers and calls to a judge: how they hang together, what they say, where they go."""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, set_tracer_provider

from plumbline.ground.errors import ConfigurationError
from plumbline.ground.judge_settings import ModelPrice
from plumbline.ground.settings import Settings
from plumbline.main import create_app
from plumbline.rows.jobs.store import JobStore
from plumbline.service.tracing import Tracing
from tests.doubles.fakes import WordEncoder
from tests.doubles.memory_store import MemoryStore
from tests.doubles.otlp_collector import collecting
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import completion, openai_error
from tests.running.edge_app import client_of
from tests.running.service import URL, claim, judge_settings, plain_settings, running, verdicts

CONTEXT = "The Marlow Bridge was opened in 1931."
SAMPLE: dict[str, Any] = {"contexts": [CONTEXT], "answer": CONTEXT}
GOOD = completion(verdicts([claim(CONTEXT, "supported", CONTEXT)]), usage=(100, 20))
# The example of W3C Trace Context, section 3.2.
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


@asynccontextmanager
async def traced(
    settings: Settings, *, store: JobStore | None = None
) -> AsyncIterator[tuple[httpx2.AsyncClient, InMemorySpanExporter]]:
    """A client of the service, and what it traces."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app = create_app(settings, encoder=WordEncoder(), store=store, tracing=Tracing(provider, version="0"))
    async with app.router.lifespan_context(app), client_of(app) as client:
        yield client, exporter


def named(spans: Sequence[ReadableSpan], name: str) -> ReadableSpan:
    """The only span of this name."""
    (span,) = (each for each in spans if each.name == name)
    return span


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def id_of(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


async def test_a_request_its_tiers_and_its_calls_are_one_trace(judge: ScriptedJudge) -> None:
    judge.reply_with(openai_error(400, "data_inspection_failed"))

    async with traced(judge_settings(judge)) as (client, exporter):
        await client.post(URL, json=SAMPLE, headers={"traceparent": TRACEPARENT})
        spans = exporter.get_finished_spans()

    assert [span.name for span in spans] == ["chat judge-1", "tier llm", "tier embedding", f"POST {URL}"]
    request, llm, call = named(spans, f"POST {URL}"), named(spans, "tier llm"), named(spans, "chat judge-1")
    assert f"{parent_of(request):016x}" == PARENT
    assert {f"{span.context.trace_id:032x}" for span in spans if span.context} == {TRACE}
    assert parent_of(llm) == parent_of(named(spans, "tier embedding")) == id_of(request)
    assert parent_of(call) == id_of(llm)
    assert [request.kind, llm.kind, call.kind] == [SpanKind.SERVER, SpanKind.INTERNAL, SpanKind.CLIENT]


async def test_a_call_speaks_as_the_conventions_for_generative_models_do(judge: ScriptedJudge) -> None:
    judge.reply_with(GOOD)
    prices = {"judge-1": ModelPrice(input=10.0, output=100.0)}

    async with traced(judge_settings(judge, llm_prices=prices)) as (client, exporter):
        await client.post(URL, json=SAMPLE)
        call = named(exporter.get_finished_spans(), "chat judge-1")

    port = int(judge.base_url.removesuffix("/v1").rpartition(":")[2])
    assert dict(call.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "generic",
        "gen_ai.request.model": "judge-1",
        "gen_ai.request.max_tokens": 4096,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "server.address": "127.0.0.1",
        "server.port": port,
        "plumbline.outcome": "answered",
        "plumbline.cost": pytest.approx(0.003),
    }
    assert call.status.status_code is StatusCode.UNSET


async def test_the_decision_on_an_answer_is_an_event_of_its_request(judge: ScriptedJudge) -> None:
    judge.reply_with(GOOD)

    async with traced(judge_settings(judge)) as (client, exporter):
        await client.post(URL, json=SAMPLE)
        (event,) = named(exporter.get_finished_spans(), f"POST {URL}").events

    assert event.name == "gen_ai.evaluation.result"
    assert dict(event.attributes or {}) == {
        "gen_ai.evaluation.name": "faithfulness",
        "gen_ai.evaluation.score.label": "pass",
        "gen_ai.evaluation.score.value": 1.0,
        "plumbline.tier": "llm",
        "plumbline.passed_by": "all_supported",
    }


async def test_what_failed_says_why(judge: ScriptedJudge) -> None:
    judge.reply_with(openai_error(400, "data_inspection_failed"))

    async with traced(judge_settings(judge)) as (client, exporter):
        await client.post(URL, json=SAMPLE)
        spans = exporter.get_finished_spans()

    for name in ("chat judge-1", "tier llm"):
        span = named(spans, name)
        assert (span.attributes or {})["error.type"] == "content_filtered"
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
        assert span.events == ()
    assert named(spans, f"POST {URL}").status.status_code is StatusCode.UNSET


async def test_the_judge_is_handed_the_trace_and_nothing_else_of_the_callers(judge: ScriptedJudge) -> None:
    judge.reply_with(GOOD)
    headers = {"traceparent": TRACEPARENT, "tracestate": "vendor=words", "baggage": "user=words"}

    async with traced(judge_settings(judge)) as (client, exporter):
        await client.post(URL, json=SAMPLE, headers=headers)
        call = named(exporter.get_finished_spans(), "chat judge-1")

    sent = judge.requests[0].headers
    assert sent["traceparent"] == f"00-{TRACE}-{id_of(call):016x}-01"
    assert not {"tracestate", "baggage"} & set(sent)


@pytest.mark.parametrize(
    "traceparent", ["", "words", "00-" + "0" * 32 + "-" + PARENT + "-01", "ff" + TRACEPARENT[2:], "0" * 600]
)
async def test_a_trace_that_cannot_be_read_is_begun_anew(traceparent: str) -> None:
    async with traced(plain_settings()) as (client, exporter):
        await client.get("/healthz", headers={"traceparent": traceparent})
        span = named(exporter.get_finished_spans(), "GET /healthz")

    assert span.parent is None


async def test_an_answer_that_is_an_error_of_ours_marks_the_request() -> None:
    store = MemoryStore()
    store.is_broken = True
    async with traced(plain_settings(), store=store) as (client, exporter):
        await client.post(URL, json={"answer": 7})
        await client.get("/v1/jobs")
        spans = exporter.get_finished_spans()

    refused, failed = named(spans, f"POST {URL}"), named(spans, "GET /v1/jobs")
    assert dict(refused.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": URL,
        "http.response.status_code": 422,
    }
    assert refused.status.status_code is StatusCode.UNSET
    assert (failed.attributes or {})["error.type"] == "503"
    assert failed.status.status_code is StatusCode.ERROR


async def test_spans_go_where_the_variables_of_opentelemetry_say(
    judge: ScriptedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge.reply_with(GOOD)
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        async with running(judge_settings(judge, tracing="otlp")) as client:
            await client.post(URL, json=SAMPLE, headers={"traceparent": TRACEPARENT})

    assert set(collector.paths) == {"/v1/traces"}
    assert {span.name for span in collector.spans} == {"chat judge-1", "tier llm", f"POST {URL}"}
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    assert collector.resources[0]["service.name"] == "plumbline"
    assert CONTEXT.encode() not in b"".join(collector.bodies)


def test_another_protocol_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")

    with pytest.raises(ConfigurationError, match="OTEL_EXPORTER_OTLP_PROTOCOL: only http/protobuf"):
        create_app(plain_settings(tracing="otlp"))


def test_without_the_extra_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)

    with pytest.raises(ConfigurationError, match=r"pip install 'plumbline-rag\[otel\]'"):
        create_app(plain_settings(tracing="otlp"))


async def test_the_frameworks_own_telemetry_stays_off_whatever_the_process_has_set_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", None)
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER_SET_ONCE._done", False)
    set_tracer_provider(provider)
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")

    async with running(plain_settings()) as client:
        await client.get("/healthz?secret=words")

    assert exporter.get_finished_spans() == ()
