"""Workers that are killed while three of them work on a job; `benchmarks/kill_workers.py` does it at length."""

from pathlib import Path

import pytest

from benchmarks.kill_service import CHUNK_ROWS
from benchmarks.kill_workers import CONCURRENCY, WORKERS, Fleet, environment
from tests.job_stores import PostgresStores
from tests.judge_process import judge_process
from tests.kill_trial import KillTrial
from tests.killable_service import killable_service
from tests.postgres_server import PostgresServer


@pytest.mark.timeout(180)
async def test_killed_workers_lose_change_and_repeat_nothing(postgres_server: PostgresServer, tmp_path: Path) -> None:
    url = postgres_server.new_database()
    store = PostgresStores(url, tmp_path, schema="plumbline").open()
    with judge_process(latency_seconds=0.01) as judge:
        settings = environment(judge.base_url, url, tmp_path)
        with killable_service(settings, is_worker=True) as service:
            fleet = Fleet(service, seed=3)
            trial = await KillTrial(store, judge, fleet.kill, seed=3).run(900, 3, between=(1.0, 1.5))
            assert fleet.end() == [0] * WORKERS
        leases = await store._database.read(
            lambda sql: sql.execute("SELECT max(fence), max(deaths) FROM chunk").fetchone()
        )
    await store.close()

    assert trial.kills > 0
    assert trial.most_repeated_by_a_kill <= CONCURRENCY + CHUNK_ROWS
    # What was taken from a worker was taken from one that was killed; those that lived kept theirs.
    assert leases[0] <= 1 + leases[1] <= 1 + trial.kills
