"""Kills workers at random while three of them work on a job, and checks that nothing is lost, changed or repeated.

    python benchmarks/kill_workers.py [--kills 50] [--rows 20000] [--seed 1]

The workers are `plumbline worker` on a PostgreSQL that this starts, each in a process that is killed with SIGKILL, and
another started in its place; the judge is scripted, in a process of its own, and counts. Ends with an assertion error
where something does not hold, else with one JSON line.
"""

import asyncio
import random
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.kill_service import CHUNK_ROWS, command
from benchmarks.kill_service import environment as service_environment
from plumbline.rows.jobs.job import JobState, NewJob
from plumbline.rows.jobs.store import JobStore
from tests.making.job_rows import TENANT, upload
from tests.running.job_stores import PostgresStores
from tests.running.judge_process import judge_process, row
from tests.running.kill_trial import KillTrial
from tests.running.killable_service import KillableService, killable_service, work
from tests.running.postgres_server import PostgresServer

WORKERS, CONCURRENCY = 3, 8


def environment(base_url: str, database_url: str, folder: Path) -> dict[str, str]:
    """A worker, set up as the service of the other trial is."""
    return {
        **service_environment(base_url, folder),
        "PLUMBLINE_DATABASE_URL": database_url,
        "PLUMBLINE_JOB_CONCURRENCY": str(CONCURRENCY),
    }


class Fleet:
    """Workers, of which one at random is killed and replaced."""

    def __init__(self, service: KillableService, *, seed: int = 0) -> None:
        self._service = service
        self._random = random.Random(seed)  # noqa: S311
        self._pids = [service.start() for _ in range(WORKERS)]

    def kill(self) -> None:
        """Ends one without a word and starts another."""
        place = self._random.randrange(WORKERS)
        self._service.kill(self._pids[place])
        self._pids[place] = self._service.start()

    def end(self) -> list[int]:
        """Ends all as an operator would; their exit codes."""
        return [self._service.end(pid) for pid in self._pids]


async def cancelled_stays(store: JobStore, fleet: Fleet) -> None:
    """A job is cancelled while it runs; no kill moves it on."""
    new = NewJob(TENANT, b'{"tiers": ["llm"]}')
    job = (await store.submit(new, upload(store, [row(number) for number in range(5_000)]))).job
    while (await store.get(TENANT, job.id)).counts.done < CHUNK_ROWS:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    cancelled = await store.act(TENANT, job.id, "cancel")
    for _ in range(WORKERS):
        fleet.kill()
    await asyncio.sleep(5)
    after = await store.get(TENANT, job.id)
    assert cancelled.state is after.state is JobState.CANCELLED
    assert after.counts == cancelled.counts


async def recovery(store: JobStore, service: KillableService) -> float:
    """Seconds from the end of the only worker to the next row that is done, another worker standing by."""
    worker = service.start()
    new = NewJob(TENANT, b'{"tiers": ["llm"]}')
    job = (await store.submit(new, upload(store, [row(number) for number in range(CHUNK_ROWS)]))).job
    while not (await store.get(TENANT, job.id)).counts.done:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    other = service.start()
    await asyncio.sleep(4)
    service.kill(worker)
    started = time.monotonic()
    before = (await store.get(TENANT, job.id)).counts.done
    while (await store.get(TENANT, job.id)).counts.done == before:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    seconds = time.monotonic() - started
    await store.act(TENANT, job.id, "cancel")
    service.kill(other)
    return seconds


async def run(kills: int, rows: int, seed: int) -> dict[str, object]:
    """The whole trial."""
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:
        stores = PostgresStores(server.url, Path(folder), schema="plumbline")
        store = stores.open()
        with judge_process(latency_seconds=0.04) as judge:
            settings = environment(judge.base_url, server.url, Path(folder))
            with killable_service(settings, work) as service:
                fleet = Fleet(service, seed=seed)
                # A worker lives for some seconds, and rows of it that are tried again die with the next one at times.
                killing = KillTrial(store, judge, fleet.kill, seed=seed, most_put_aside=kills // 10)
                trial = await killing.run(rows, kills, between=(0.6, 2.2))
                assert trial.kills == kills, f"the job was done after {trial.kills} kills"
                assert trial.repeated <= trial.kills * (CONCURRENCY + CHUNK_ROWS)
                await cancelled_stays(store, fleet)
                assert fleet.end() == [0] * WORKERS
        with judge_process(latency_seconds=2.0) as slow:
            settings = environment(slow.base_url, server.url, Path(folder)) | {"PLUMBLINE_JOB_CONCURRENCY": "4"}
            with killable_service(settings, work) as service:
                recovered = [await recovery(store, service) for _ in range(5)]
        await store.close()
    found = asdict(trial)
    found["repeated_a_kill"] = round(trial.repeated / max(1, trial.kills), 1)
    found["recovery_seconds"] = [round(each, 1) for each in sorted(recovered)]
    return found


if __name__ == "__main__":
    command(__doc__, run)
