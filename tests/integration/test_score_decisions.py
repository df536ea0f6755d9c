"""A decision judge behind files, batches, jobs and reports: the same results, also where a run was stopped."""

import asyncio
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plumbline.cli.main import main
from plumbline.client import AsyncPlumbline
from plumbline.main import create_app
from tests.doubles.fakes import WordEncoder
from tests.doubles.scripted_decisions import copies, decide
from tests.doubles.scripted_judge import ScriptedJudge, running_judge
from tests.making.cases import load_cases
from tests.making.score_files import comparable, read_rows, score, score_and_exit, write_rows
from tests.running.batch_file_runs import timeless
from tests.running.service import plain_settings, served

_ROWS = 24
OPTIONS = ("--tiers", "llm", "--quiet", "--concurrency", "2")
SETTINGS = load_cases("score_decisions", "settings")


def sample(number: int) -> dict[str, Any]:
    """A row with a sentence that a context has and, in every third one, one with a wrong number."""
    facts = [f"Mill number {number} was built in {1800 + number}.", f"Its owner sold {number + 20} boats a year."]
    answer = facts[0] if number % 3 else f"{facts[0]} Its owner sold {number + 700} boats a year."
    return {"custom_id": f"q{number}", "contexts": [" ".join(facts), "The ferry is painted green."], "answer": answer}


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedJudge]:
    with running_judge(latency_seconds=0.01) as judge:
        judge.reply_with(decide(copies))
        for name, value in {**SETTINGS, "llm_base_url": judge.base_url}.items():
            text = value if isinstance(value, str) else json.dumps(value)
            monkeypatch.setenv(f"PLUMBLINE_{name.upper()}", text)
        yield judge


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "data.jsonl", map(sample, range(_ROWS)))


@pytest.fixture
def whole(tmp_path: Path, data: Path, judge: ScriptedJudge) -> Path:
    out = tmp_path / "whole.jsonl"
    assert score(data, "-o", out, *OPTIONS) == 0
    assert judge.calls == _ROWS
    results = [row["result"] for row in read_rows(out)]
    assert {each["trace"]["judge"]["kind"] for each in results} == {"systemone"}
    assert [each["passed"] for each in results] == [bool(number % 3) for number in range(_ROWS)]
    return out


def test_a_run_that_spent_what_it_may_goes_on_for_more_to_the_same_results(
    tmp_path: Path, data: Path, judge: ScriptedJudge, whole: Path
) -> None:
    parted, costs = tmp_path / "parted.jsonl", [row["result"]["trace"]["usage"]["cost"] for row in read_rows(whole)]
    judge.requests.clear()

    assert score(data, "-o", parted, *OPTIONS, "--max-cost", f"{sum(costs) / 3:f}") == 3
    first = judge.calls
    assert score(data, "-o", parted, *OPTIONS, "--max-cost", "9") == 0

    assert 1 <= first < _ROWS
    assert judge.calls == _ROWS
    assert comparable(parted) == comparable(whole)


def test_a_run_that_was_killed_ends_with_the_same_results(
    tmp_path: Path, data: Path, judge: ScriptedJudge, whole: Path
) -> None:
    parted = tmp_path / "parted.jsonl"
    partial = tmp_path / "parted.jsonl.partial"
    arguments = [str(data), "-o", str(parted), *OPTIONS, "--max-cost", "9"]

    process = multiprocessing.get_context("forkserver").Process(target=score_and_exit, args=(arguments,))
    process.start()
    while process.is_alive() and (not partial.exists() or partial.stat().st_size < whole.stat().st_size // 4):
        time.sleep(0.005)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    assert not parted.exists()
    assert score(data, "-o", parted, *OPTIONS, "--max-cost", "9") == 0

    assert comparable(parted) == comparable(whole)


async def test_batch_job_and_report_give_what_the_file_has(
    tmp_path: Path, data: Path, judge: ScriptedJudge, whole: Path
) -> None:
    by_batch, summary = tmp_path / "batch.jsonl", tmp_path / "summary.json"

    with served(create_app(plain_settings(**SETTINGS, llm_base_url=judge.base_url), encoder=WordEncoder())) as url:
        assert await asyncio.to_thread(score, data, "-o", by_batch, *OPTIONS, "--url", url) == 0
        async with AsyncPlumbline(url) as client:
            job = await client.jobs.submit(data, options={"tiers": ["llm"]})
            await job.wait()
            by_job = [row.result async for row in job.results()]

    assert comparable(by_batch) == comparable(whole)
    assert [timeless(each) for each in by_job] == [timeless(row["result"]) for row in read_rows(whole)]
    assert main(["report", str(whole), "--format", "json", "-o", str(summary)]) == 0
    said = json.loads(summary.read_text(encoding="utf-8"))
    assert (said["rows"], said["passed"], said["unsure"]) == (_ROWS, 16, 0)
