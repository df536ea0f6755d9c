"""The report on a job, by the service with its own store and worker."""

import asyncio
from typing import Any

import httpx2

from plumbline.schemas.report import ReportSummary
from tests.running.edge_app import read_problem
from tests.running.job_service import JOBS_URL, read_job, row
from tests.running.service import plain_settings, running

CHOICES = {"name": "<b>nightly</b>", "options": {"tiers": ["lexical"]}}
WRONG = "Penguins cross the Atlantic on Tuesdays."


async def scored(client: httpx2.AsyncClient, *rows: Any) -> str:
    """The id of a job that has ended."""
    job_id: str = read_job(await client.post(JOBS_URL, json={"rows": rows, **CHOICES}), 202)["id"]
    while read_job(await client.get(f"{JOBS_URL}/{job_id}"))["ended_at"] is None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return job_id


async def test_a_report_counts_what_the_job_did_and_shows_its_worst_rows() -> None:
    async with running(plain_settings()) as client:
        job_id = await scored(client, row("good"), row("bad", WRONG), {"answer": 3})
        page = await client.get(f"{JOBS_URL}/{job_id}/report")
        figures = await client.get(f"{JOBS_URL}/{job_id}/report?format=json")
        chinese = await client.get(f"{JOBS_URL}/{job_id}/report?lang=zh&worst=0")

    summary = ReportSummary.model_validate_json(figures.content)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"] == "sandbox allow-scripts"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert WRONG in page.text
    assert "&lt;b&gt;nightly" in page.text
    assert "<b>nightly" not in page.text
    assert summary.rows == 3
    assert '<html lang="zh' in chinese.text
    assert WRONG not in chinese.text


async def test_a_report_compares_with_an_earlier_job() -> None:
    async with running(plain_settings()) as client:
        before = await scored(client, row("a"), row("b"))
        after = await scored(client, row("a"), row("b", WRONG))
        answer = await client.get(f"{JOBS_URL}/{after}/report?format=json&baseline={before}")

    comparison = ReportSummary.model_validate_json(answer.content).comparison
    assert comparison is not None
    assert [(each.tier, each.paired, each.worse) for each in comparison.tiers] == [("lexical", 2, 1)]
    assert [each.custom_id for each in comparison.worse] == ["b"]


async def test_a_report_on_nothing_known_is_none() -> None:
    async with running(plain_settings()) as client:
        job_id = await scored(client, row("a"))
        unknown = await client.get(f"{JOBS_URL}/job_0/report")
        baseline = await client.get(f"{JOBS_URL}/{job_id}/report?baseline=job_0")
        language = await client.get(f"{JOBS_URL}/{job_id}/report?lang=fr")

    assert read_problem(unknown, 404).status == read_problem(baseline, 404).status == 404
    assert "lang" in str(read_problem(language, 422))
