"""Nothing that a caller or a judge wrote reaches logs, metrics or traces, and no key an answer, whatever goes wrong."""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import SecretStr

from plumbline.ground.telemetry import configure_logging
from plumbline.main import create_app
from plumbline.service.tracing import Tracing
from tests.doubles.fakes import WordEncoder
from tests.doubles.scripted_faults import hang, reset_mid_body
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import Step, completion, html_error_page, openai_error, raw_body, status
from tests.making.planted_requests import Planted, PlantedEncoder, planted_requests
from tests.running.edge_app import client_of
from tests.running.job_service import JOBS_URL
from tests.running.service import URL, claim, judge_settings, verdicts

API_KEY = "PLANTED-api-key-000001"
JUDGE_KEY = "sk-PLANTED-judge-key-000002"
SAMPLE: dict[str, Any] = {
    "id": "PLANTED-id",
    "question": "Who is PLANTED-question?",
    "contexts": ["The PLANTED-context was opened in 1931."],
    "answer": "The PLANTED-answer was opened in 1931. It is PLANTED-second.",
    "reference": "PLANTED-reference",
}
HEADERS = {
    "Authorization": f"Bearer {API_KEY}",
    "X-Request-ID": "PLANTED header with blanks",
    "User-Agent": "PLANTED-agent",
    "Cookie": "session=PLANTED-cookie",
    "Referer": "http://127.0.0.1/PLANTED-referer",
    "Accept-Language": "PLANTED-language",
    "traceparent": "00-PLANTED-traceparent-01",
    "tracestate": "vendor=PLANTED-state",
    "baggage": "user=PLANTED-baggage",
}
GOOD = completion(
    verdicts(
        [claim("PLANTED-claim", "supported", "opened in 1931", reason="PLANTED-reason")],
        [claim("PLANTED-claim", "supported", "PLANTED-invented quote")],
    ),
    model="PLANTED-model",
)
STEPS: dict[str, Step] = {
    "good": GOOD,
    "401": openai_error(401, "PLANTED_code", f"PLANTED Incorrect API key: {JUDGE_KEY}"),
    "400": openai_error(400, "data_inspection_failed", "PLANTED-answer is not allowed"),
    "500": status(500, {"error": {"message": "PLANTED", "stack": SAMPLE}}),
    "503 html": html_error_page(503),
    "broken JSON": raw_body(b'{"PLANTED": '),
    "prose": completion("PLANTED-prose: all is well"),
    "wrong form": completion('{"sentences": [{"id": 1, "claims": [{"verdict": "PLANTED-verdict"}]}]}'),
    "broken verdicts": completion('{"sentences": [PLANTED'),
    "refusal": completion(None, refusal="PLANTED-refusal"),
    "reset": reset_mid_body(GOOD, 60),
    "hangs": hang(),
}
REFUSED: dict[str, dict[str, Any]] = {
    "unknown field": {"json": {**SAMPLE, "PLANTED-field": 1}},
    "wrong value": {"json": {**SAMPLE, "tiers": ["PLANTED-tier"]}},
    "not JSON": {"content": b"PLANTED", "headers": {"content-type": "application/json"}},
    "media type": {"content": b"PLANTED", "headers": {"content-type": "text/PLANTED"}},
    "too large": {"json": {**SAMPLE, "question": "PLANTED" * 1_000_000}},
    "query": {"json": SAMPLE, "params": {"q": "PLANTED-query"}},
    "wrong key": {"json": SAMPLE, "headers": {"Authorization": "Bearer PLANTED-wrong-key"}},
}


@contextmanager
def loud_logs() -> Iterator[None]:
    """Logs as `plumbline serve` sets them up with level DEBUG, every record of every library on standard error."""
    root = logging.getLogger()
    handlers, levels = list(root.handlers), {name: logging.getLogger(name).level for name in root.manager.loggerDict}
    configure_logging("DEBUG")
    loud = logging.StreamHandler(sys.stderr)
    root.addHandler(loud)
    root.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(logging.WARNING)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        structlog.reset_defaults()


@asynccontextmanager
async def service(
    judge: ScriptedJudge, encoder: WordEncoder | None = None, **knobs: Any
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the service with keys of both kinds, everything logged and traced; metrics and traces are searched.

    When it ends, metrics and traces were written and nothing planted is in them.
    """
    settings = judge_settings(
        judge,
        llm_api_key=SecretStr(JUDGE_KEY),
        api_keys=(SecretStr(API_KEY),),
        **{"deadline_seconds": 2.0, **knobs},
    )
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app = create_app(settings, encoder=encoder or WordEncoder(), tracing=Tracing(provider, version="0"))
    with loud_logs():
        async with app.router.lifespan_context(app), client_of(app) as client:
            yield client
            page = (await client.get("/metrics", headers={"X-API-Key": API_KEY})).text
    traces = "\n".join(span.to_json() for span in exporter.get_finished_spans())
    assert "plumbline_http_requests_total{" in page
    assert "http.route" in traces
    assert "PLANTED" not in page + traces


def assert_silent(capfd: pytest.CaptureFixture[str], event: str = "request_completed") -> str:
    """What was logged, once it is proven that something was and that nothing planted is in it."""
    out, err = capfd.readouterr()
    assert event in err
    assert "PLANTED" not in out + err
    return out + err


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
async def test_no_text_and_no_key_is_logged_whatever_the_judge_does(
    judge: ScriptedJudge, capfd: pytest.CaptureFixture[str], step: Step
) -> None:
    judge.reply_with(step)

    async with service(judge) as client:
        response = await client.post(URL, json=SAMPLE, headers=HEADERS)

    assert response.status_code == 200
    assert_silent(capfd)
    assert JUDGE_KEY not in response.text
    assert API_KEY not in response.text
    assert judge.requests[0].headers["authorization"] == f"Bearer {JUDGE_KEY}"


@pytest.mark.parametrize("request_", REFUSED.values(), ids=REFUSED)
async def test_nothing_of_a_refused_request_is_logged(
    judge: ScriptedJudge, capfd: pytest.CaptureFixture[str], request_: dict[str, Any]
) -> None:
    judge.reply_with(GOOD)
    headers = {**HEADERS, **request_.get("headers", {})}

    async with service(judge) as client:
        response = await client.post(URL, **{**request_, "headers": headers})

    assert response.status_code in (200, 400, 401, 413, 415, 422)
    assert_silent(capfd)
    assert API_KEY not in response.text


@pytest.mark.parametrize("path", ["/PLANTED", "/v1/PLANTED?key=PLANTED", "/v1/evaluations/PLANTED"])
async def test_a_path_that_is_not_served_is_not_logged(
    judge: ScriptedJudge, capfd: pytest.CaptureFixture[str], path: str
) -> None:
    async with service(judge) as client:
        response = await client.get(path, headers=HEADERS)

    assert response.status_code == 404
    assert_silent(capfd)


async def test_a_bug_is_logged_by_its_place_and_not_by_its_message(
    judge: ScriptedJudge, capfd: pytest.CaptureFixture[str]
) -> None:
    async with service(judge, PlantedEncoder()) as client:
        response = await client.post(URL, json={**SAMPLE, "tiers": ["embedding"]}, headers=HEADERS)

    assert response.status_code == 500
    assert "PLANTED" not in response.text
    logged = assert_silent(capfd, "request_failed")
    assert "ZeroDivisionError" in logged
    assert "KeyError" in logged


@pytest.mark.parametrize("is_sound", [True, False], ids=["all is well", "judge and encoder fail"])
async def test_whatever_a_caller_sends_to_any_route_stays_out_of_logs_metrics_and_traces(
    judge: ScriptedJudge, capfd: pytest.CaptureFixture[str], tmp_path: Path, is_sound: bool
) -> None:
    faults = [step for name, step in STEPS.items() if name != "hangs"]
    judge.reply_with(*([GOOD] if is_sound else faults * 50))
    knobs = {"data_dir": tmp_path / "jobs", "max_batch_samples": 5, "max_job_body_bytes": 20_000}

    statuses = Counter[int]()
    async with service(judge, WordEncoder() if is_sound else PlantedEncoder(), **knobs) as client:
        document = (await client.get("/openapi.json")).json()
        job_id = await finished_job(client)
        for request in planted_requests(document, {"job_id": job_id}):
            statuses[await sent(client, request)] += 1

    assert_silent(capfd)
    # The document leads somewhere: much is served, and what is wrong is refused in every way there is.
    assert {200, 202, 204, 404, 409, 415, 422} <= set(statuses), statuses
    assert (500 in statuses) is not is_sound
    assert statuses.total() > 150


async def finished_job(client: httpx2.AsyncClient) -> str:
    """The id of a job with planted rows, once it has ended."""
    row = {"custom_id": "PLANTED-row", "contexts": SAMPLE["contexts"], "answer": SAMPLE["answer"]}
    body = {"rows": [row, {"PLANTED": "PLANTED"}], "name": "PLANTED-name"}
    job_id: str = (await client.post(JOBS_URL, json=body, headers=HEADERS)).json()["id"]
    while (await client.get(f"{JOBS_URL}/{job_id}", headers=HEADERS)).json()["ended_at"] is None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return job_id


async def sent(client: httpx2.AsyncClient, request: Planted) -> int:
    """The status of the answer to the request, which has no key of ours in it."""
    fields = {**request.sent, "headers": {**HEADERS, **request.sent.get("headers", {})}}
    response = await client.request(request.method.upper(), request.url, **fields)
    assert JUDGE_KEY not in response.text
    assert API_KEY not in response.text
    return response.status_code


@pytest.mark.parametrize(
    "step",
    [
        openai_error(401, JUDGE_KEY, JUDGE_KEY),
        openai_error(500, f"key.{JUDGE_KEY}"),
        completion(verdicts([claim("a", "not_mentioned")], [claim("b", "not_mentioned")]), model=JUDGE_KEY),
        completion(None, refusal=JUDGE_KEY),
        status(400, {"error": JUDGE_KEY}),
    ],
    ids=["error code", "part of an error code", "model", "refusal", "error"],
)
async def test_a_provider_that_repeats_our_key_does_not_get_it_into_an_answer(judge: ScriptedJudge, step: Step) -> None:
    judge.reply_with(step)

    async with service(judge) as client:
        response = await client.post(URL, json=SAMPLE, headers=HEADERS)

    assert response.status_code == 200
    assert JUDGE_KEY not in response.text


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/version", "/openapi.json", "/docs"])
async def test_no_key_is_on_the_pages_that_need_none(judge: ScriptedJudge, path: str) -> None:
    async with service(judge) as client:
        response = await client.get(path)

    assert response.status_code == 200
    assert "PLANTED" not in response.text
