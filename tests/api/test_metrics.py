"""What is counted for Prometheus: what happened and no more, in series that no caller can add to."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from plumbline.cli.main import main
from plumbline.ground.errors import StoreUnavailable
from plumbline.ground.judge_settings import ModelPrice
from plumbline.judging.ports.token_vectors import EncoderCounts
from plumbline.main import create_app
from plumbline.rows.jobs.job import JobState, JobStats
from plumbline.rows.jobs.store import JobStore
from plumbline.service.metrics.observer import Metrics
from tests.doubles.fakes import WordEncoder
from tests.doubles.memory_store import MemoryStore
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import completion, openai_error
from tests.running.edge_app import read_problem
from tests.running.job_service import JOBS_URL, jobs_running, row
from tests.running.service import URL, claim, judge_settings, plain_settings, running, served, verdicts

CONTEXT = "The Marlow Bridge was opened in 1931."
SAMPLE: dict[str, Any] = {"contexts": [CONTEXT], "answer": CONTEXT}
GOOD = completion(verdicts([claim(CONTEXT, "supported", CONTEXT)]), usage=(100, 20), model="a-model-of-the-providers")
KEY = "k" * 16


class CountingEncoder(WordEncoder):
    def counts(self) -> EncoderCounts:
        return EncoderCounts(
            texts=10,
            tokens=340,
            cache_hits=5,
            cache_misses=12,
            joined=2,
            queued_tokens=77,
            cache_bytes=4_096,
        )


async def scraped(client: httpx2.AsyncClient) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample on the page, by name and labels."""
    response = await client.get("/metrics")
    assert response.status_code == 200, response.text[:300]
    assert response.headers["content-type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(response.text)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value for each in families for sample in each.samples
    }


async def value(client: httpx2.AsyncClient, name: str, **labels: str) -> float | None:
    """One sample; None where there is no such series."""
    return (await scraped(client)).get((name, frozenset(labels.items())))


@asynccontextmanager
async def judged(judge: ScriptedJudge, **knobs: Any) -> AsyncIterator[httpx2.AsyncClient]:
    prices = {"judge-1": ModelPrice(input=10.0, output=100.0)}
    async with running(judge_settings(judge, llm_prices=prices, **knobs)) as client:
        yield client


async def test_requests_are_counted_by_template_method_and_class_of_status() -> None:
    async with running(plain_settings()) as client:
        for _ in range(2):
            await client.post(URL, json=SAMPLE)
        await client.post(URL, json={"answer": 7})
        found = await scraped(client)

    at = {"route": URL, "method": "POST"}
    assert found["plumbline_http_requests_total", frozenset({**at, "status": "2xx"}.items())] == 2
    assert found["plumbline_http_requests_total", frozenset({**at, "status": "4xx"}.items())] == 1
    assert found["plumbline_http_request_duration_seconds_count", frozenset(at.items())] == 3
    # the one that reads
    assert found["plumbline_http_requests_in_progress", frozenset()] == 1


async def test_what_tiers_did_is_counted_and_why_they_did_not(judge: ScriptedJudge) -> None:
    judge.reply_with(GOOD, openai_error(400, "data_inspection_failed"))

    async with judged(judge, cache_ttl_seconds=0) as client:
        for _ in range(2):
            assert (await client.post(URL, json=SAMPLE)).status_code == 200
        found = await scraped(client)

    def attempts(tier: str, outcome: str) -> float:
        return found["plumbline_tier_attempts_total", frozenset({"tier": tier, "outcome": outcome}.items())]

    reason = frozenset({"tier": "llm", "reason": "content_filtered"}.items())
    assert (attempts("llm", "answered"), attempts("llm", "failed"), attempts("embedding", "answered")) == (1, 1, 1)
    assert found["plumbline_tier_failures_total", reason] == 1
    assert found["plumbline_tier_duration_seconds_count", frozenset({("tier", "llm")})] == 2


async def test_calls_tokens_and_cost_of_a_judge_go_by_its_name_in_the_settings(judge: ScriptedJudge) -> None:
    judge.reply_with(GOOD, openai_error(400, "data_inspection_failed"))

    async with judged(judge, cache_ttl_seconds=0) as client:
        for _ in range(2):
            await client.post(URL, json=SAMPLE)
        found = await scraped(client)

    model = {"provider": "generic", "model": "judge-1"}
    calls = {name: v for name, v in found.items() if name[0] == "plumbline_judge_calls_total"}
    assert calls == {
        ("plumbline_judge_calls_total", frozenset({**model, "outcome": "answered"}.items())): 1,
        ("plumbline_judge_calls_total", frozenset({**model, "outcome": "content_filtered"}.items())): 1,
    }
    tokens = {
        kind: found["plumbline_judge_tokens_total", frozenset({**model, "kind": kind}.items())]
        for kind in ("input", "cached_input", "output")
    }
    assert tokens == {"input": 100, "cached_input": 0, "output": 20}
    # 100 tokens at 10 and 20 at 100, a million; the refused one is free
    assert found["plumbline_judge_cost_total", frozenset(model.items())] == pytest.approx(0.003)
    assert ("plumbline_judge_unpriced_calls_total", frozenset(model.items())) not in found


async def test_verdicts_from_the_cache_are_told_from_those_that_cost(judge: ScriptedJudge) -> None:
    judge.reply_with(GOOD)

    async with judged(judge) as client:
        for choices in ({}, {}, {"cache": "bypass"}):
            assert (await client.post(URL, json={**SAMPLE, **choices})).json()["tier"] == "llm"
        found = {
            outcome: await value(client, "plumbline_verdict_cache_lookups_total", outcome=outcome)
            for outcome in ("hit", "miss", "bypass")
        }

    assert found == {"hit": 1, "miss": 1, "bypass": 1}


async def test_a_look_whose_judge_then_fails_is_a_miss_too(judge: ScriptedJudge) -> None:
    judge.reply_with(openai_error(400, "data_inspection_failed"))

    async with judged(judge) as client:
        await client.post(URL, json=SAMPLE)
        missed = await value(client, "plumbline_verdict_cache_lookups_total", outcome="miss")

    assert missed == 1


async def test_the_estimate_of_admission_stands_beside_what_a_sample_took() -> None:
    async with running(plain_settings()) as client:
        await client.post(URL, json={**SAMPLE, "tiers": ["lexical"]})
        found = await scraped(client)

    queue = frozenset({("queue", "loop")})
    assert 0 < found["plumbline_work_estimated_seconds_total", queue] < 1
    assert 0 < found["plumbline_work_taken_seconds_total", queue] < 10
    assert found["plumbline_work_refused_total", queue] == 0
    assert found["plumbline_work_waiting_characters", queue] == 0
    assert found["plumbline_work_characters_per_second", queue] > 0


def test_doctor_shows_the_estimates_of_a_running_service_beside_what_samples_took(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PLUMBLINE_EMBEDDING_MODEL", str(tmp_path))
    with served(create_app(plain_settings(), encoder=WordEncoder())) as url:
        httpx2.post(f"{url}{URL}", json={**SAMPLE, "tiers": ["lexical"]}).raise_for_status()
        monkeypatch.setenv("PLUMBLINE_URL", url)
        main(["doctor"])
    monkeypatch.setenv("PLUMBLINE_URL", "http://127.0.0.1:9")
    main(["doctor"])

    told = capsys.readouterr().out
    assert re.search(
        r"ok +work queue loop: estimated 0\.\d s, took \d\.\d s, refused 0, \d+ characters a second\n", told
    )
    assert "note   running service: its metrics cannot be read: " in told


async def test_what_an_encoder_counts_of_itself_is_on_the_page() -> None:
    async with running(plain_settings(), encoder=CountingEncoder()) as client:
        found = await scraped(client)

    lookups = "plumbline_encoder_cache_lookups_total"
    assert found["plumbline_encoder_sentences_total", frozenset()] == 10
    assert found["plumbline_encoder_tokens_total", frozenset()] == 340
    assert [found[lookups, frozenset({("outcome", each)})] for each in ("hit", "miss", "joined")] == [5, 10, 2]
    assert found["plumbline_encoder_queued_tokens", frozenset()] == 77
    assert found["plumbline_encoder_cache_bytes", frozenset()] == 4_096


async def test_rows_and_chunks_of_jobs_are_counted_where_they_are_worked_on(tmp_path: Path) -> None:
    async with running(plain_settings(data_dir=tmp_path / "jobs")) as client:
        rows = [row("a"), row("b", ""), {"custom_id": "c", "contexts": [], "answer": 7}]
        job = (await client.post(JOBS_URL, json={"rows": rows})).json()
        while (await client.get(f"{JOBS_URL}/{job['id']}")).json()["ended_at"] is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        found = await scraped(client)

    kept = {
        status: found["plumbline_job_rows_total", frozenset({("status", status)})]
        for status in ("judged", "empty_answer", "invalid", "failed")
    }
    assert kept == {"judged": 1, "empty_answer": 1, "invalid": 1, "failed": 0}
    assert found["plumbline_job_chunks_begun_total", frozenset()] == 1
    assert found["plumbline_job_rows_put_aside_total", frozenset()] == 0


async def test_jobs_are_counted_by_state_of_all_callers_together(tmp_path: Path) -> None:
    store = JobStore.in_folder(tmp_path)
    async with jobs_running(store) as client:
        before = await value(client, "plumbline_jobs", state="queued")
    async with jobs_running(store) as client:
        for _ in range(2):
            assert (await client.post(JOBS_URL, json={"rows": [row("a")]})).status_code == 202
        found = await scraped(client)
    await store.close()

    assert before == 0
    by_state = {state: found["plumbline_jobs", frozenset({("state", state.value)})] for state in JobState}
    assert by_state == {**dict.fromkeys(JobState, 0), JobState.QUEUED: 2}
    assert found["plumbline_job_store_up", frozenset()] == 1


async def test_a_store_that_is_away_takes_only_itself_off_the_page() -> None:
    class Away(MemoryStore):
        async def job_stats(self) -> JobStats:
            raise StoreUnavailable("away")

    async with jobs_running(Away()) as client:
        found = await scraped(client)

    assert found["plumbline_job_store_up", frozenset()] == 0
    assert found["plumbline_tier_attempts_total", frozenset({"tier": "lexical", "outcome": "answered"}.items())] == 0


async def test_the_process_its_loop_and_its_build_are_on_the_page() -> None:
    async with running(plain_settings()) as client:
        found = await scraped(client)
        version = (await client.get("/version")).json()["version"]

    assert found["process_resident_memory_bytes", frozenset()] > 1e6
    assert found["process_open_fds", frozenset()] > 0
    assert found["process_cpu_seconds_total", frozenset()] > 0
    assert ("plumbline_event_loop_lag_seconds_count", frozenset()) in found
    (build,) = (dict(labels) for name, labels in found if name == "plumbline_build_info")
    assert build["version"] == version


async def test_the_event_loop_is_measured_again_and_again() -> None:
    metrics, slept = Metrics(version="0", tiers=(), row_statuses=()), 0

    class Enough(Exception):
        pass

    async def sleep(_: float) -> None:
        nonlocal slept
        slept += 1
        if slept > 3:
            raise Enough

    with pytest.raises(Enough):
        await metrics.watch_loop(sleep)

    assert b"plumbline_event_loop_lag_seconds_count 3.0" in (await metrics.page("", None))[0]


HOSTILE: dict[str, Mapping[str, Any]] = {
    "paths": {"method": "GET", "url": "/x{n}/%7Broute%7D"},
    "paths under v1": {"method": "POST", "url": "/v1/evaluations/{n}"},
    "ids of jobs": {"method": "GET", "url": "/v1/jobs/job_{n}/results"},
    "queries": {"method": "GET", "url": "/healthz?a={n}"},
    "methods": {"method": "HACK{n}", "url": "/healthz"},
    "methods of a route": {"method": "BREW{n}", "url": URL},
    "names of judges": {"method": "POST", "url": URL, "json": {**SAMPLE, "judges": ["judge-{n}"]}},
    "names of models": {"method": "POST", "url": URL, "json": {**SAMPLE, "model": "model-{n}"}},
    "names of tiers": {"method": "POST", "url": URL, "json": {**SAMPLE, "tiers": ["tier-{n}"]}},
    "headers": {"method": "GET", "url": "/version", "headers": {"traceparent": "{n}", "user-agent": "{n}"}},
    "static files": {"method": "GET", "url": "/static-offline-docs/{n}.js"},
}


async def test_no_caller_makes_a_series(judge: ScriptedJudge) -> None:
    # The provider, too, calls its model as it likes.
    names = (f"m-{n}" for n in range(99))
    judge.reply_with(*(completion(verdicts([claim(CONTEXT, "supported", CONTEXT)]), model=name) for name in names))

    async with judged(judge, cache_ttl_seconds=0) as client:
        for request in HOSTILE.values():
            await _send(client, request, 0)
        await scraped(client)
        before = set(await scraped(client))
        for request in HOSTILE.values():
            for n in range(1, 4):
                await _send(client, request, n)
        after = set(await scraped(client))

    assert after == before


async def test_openmetrics_is_written_for_who_asks_for_it() -> None:
    async with running(plain_settings()) as client:
        response = await client.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})

    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")


async def test_metrics_need_a_key_where_keys_are_configured() -> None:
    async with running(plain_settings(api_keys=(SecretStr(KEY),))) as client:
        refused = await client.get("/metrics")
        served = await client.get("/metrics", headers={"Authorization": f"Bearer {KEY}"})

    read_problem(refused, 401)
    assert served.status_code == 200


async def _send(client: httpx2.AsyncClient, request_: Mapping[str, Any], n: int) -> None:
    def filled(part: Any) -> Any:
        if isinstance(part, str):
            return part.replace("{n}", str(n))
        if isinstance(part, Mapping):
            return {name: filled(each) for name, each in part.items()}
        return [filled(each) for each in part] if isinstance(part, list) else part

    await client.request(**filled(request_))


async def test_answers_are_counted_by_tier_rule_and_outcome(judge: ScriptedJudge) -> None:
    judge.reply_with(GOOD)
    name = "plumbline_answers_total"

    async with running(judge_settings(judge)) as client:
        await client.post(URL, json=SAMPLE)
        await client.post(URL, json={**SAMPLE, "tiers": ["lexical"], "threshold": 0.9999})
        await client.post(URL, json={**SAMPLE, "contexts": []})
        await client.post(URL, json={**SAMPLE, "answer": "I don't know."})

        assert await value(client, name, tier="llm", rule="all_supported", outcome="passed") == 1
        assert await value(client, name, tier="lexical", rule="threshold", outcome="failed") == 1
        assert await value(client, name, tier="none", rule="all_supported", outcome="failed") == 1
        assert await value(client, name, tier="lexical", rule="hard_reason", outcome="failed") == 0
