"""Processes that are killed while they work on jobs; `benchmarks/kill_service.py` does it at length."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from benchmarks.kill_service import CHUNK_ROWS, CONCURRENCY, environment
from plumbline.rows.jobs.job import JobState
from plumbline.rows.jobs.sqlite_store import SqliteJobStore
from tests.making.job_rows import TENANT, lines_of, rows_of, submitted
from tests.running.deadly_worker import DEADLY
from tests.running.judge_process import judge_process
from tests.running.kill_trial import KillTrial
from tests.running.killable_service import killable_service

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.timeout(180)
async def test_a_killed_service_loses_changes_and_repeats_nothing(tmp_path: Path) -> None:
    with judge_process(latency_seconds=0.01) as judge:
        store = SqliteJobStore(tmp_path)
        with killable_service(environment(judge.base_url, tmp_path)) as service:
            alive = [service.start()]

            def kill() -> None:
                service.kill(alive.pop())
                alive.append(service.start())

            trial = await KillTrial(store, judge, kill, seed=3).run(600, 3, between=(0.3, 0.9))
            assert service.end(alive.pop()) == 0
        await store.close()

    assert trial.kills > 0
    assert trial.most_repeated_by_a_kill <= CONCURRENCY + CHUNK_ROWS


@pytest.mark.timeout(120)
async def test_a_row_that_kills_three_workers_is_put_aside_and_the_job_completes(tmp_path: Path) -> None:
    store = SqliteJobStore(tmp_path)
    job = await submitted(store, rows_of(250, row130=DEADLY))
    codes: list[int] = []
    while not codes or codes[-1] != 0:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.running.deadly_worker", str(tmp_path), cwd=REPOSITORY
        )
        codes.append(await process.wait())
        assert len(codes) < 10
    done = await store.get(TENANT, job.id)
    lines = await lines_of(store, job.id)
    await store.close()

    assert codes == [-signal.SIGKILL] * 3 + [0]
    assert (done.state, done.counts.done) == (JobState.COMPLETED_WITH_ERRORS, 250)
    assert [line["row"] for line in lines if line["status"] != "judged"] == [130]
    assert lines[130]["text"] == "crashed after 3"
