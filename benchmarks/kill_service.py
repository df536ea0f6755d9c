"""Kills the service at random moments while it works on a job, and checks that nothing is lost, changed or repeated.

    python benchmarks/kill_service.py [--kills 50] [--rows 20000] [--seed 1]

The service is the real one, in a process that is killed with SIGKILL and started again; the judge is scripted, in a
process of its own, and counts. Ends with an assertion error where something does not hold, else with one JSON line.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from plumbline.rows.jobs.job import JobState, NewJob
from plumbline.rows.jobs.store import JobStore
from tests.making.job_rows import TENANT, upload
from tests.running.judge_process import judge_process, row
from tests.running.kill_trial import KillTrial
from tests.running.killable_service import KillableService, killable_service

CONCURRENCY, CHUNK_ROWS = 64, 100


def environment(base_url: str, folder: Path) -> dict[str, str]:
    """A service with a scripted judge, priced, that keeps no verdicts: a call that is repeated is seen."""
    return {
        "PLUMBLINE_LLM_PROVIDER": "generic",
        "PLUMBLINE_LLM_BASE_URL": base_url,
        "PLUMBLINE_LLM_API_KEY": "sk-scripted-judge-0001",
        "PLUMBLINE_LLM_MODEL": "judge-1",
        "PLUMBLINE_LLM_PRICES": json.dumps({"judge-1": {"input": 1.0, "output": 2.0}}),
        "PLUMBLINE_CACHE_TTL_SECONDS": "0",
        "PLUMBLINE_WARM_UP": "false",
        "PLUMBLINE_DATA_DIR": str(folder),
        "PLUMBLINE_JOB_CONCURRENCY": str(CONCURRENCY),
        "PLUMBLINE_DEADLINE_SECONDS": "60",
    }


async def cancelled_stays(store: JobStore, service: KillableService) -> None:
    """A job is cancelled while it runs; neither a kill nor a start moves it on."""
    pid = service.start()
    new = NewJob(TENANT, b'{"tiers": ["llm"]}')
    job = (await store.submit(new, upload(store, [row(number) for number in range(5_000)]))).job
    while (await store.get(TENANT, job.id)).counts.done < CHUNK_ROWS:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    cancelled = await store.act(TENANT, job.id, "cancel")
    service.kill(pid)
    pid = service.start()
    await asyncio.sleep(3)
    after = await store.get(TENANT, job.id)
    service.kill(pid)
    assert cancelled.state is after.state is JobState.CANCELLED
    assert after.counts == cancelled.counts


async def run(kills: int, rows: int, seed: int) -> dict[str, object]:
    """The whole trial."""
    with tempfile.TemporaryDirectory() as folder, judge_process(latency_seconds=0.02) as judge:
        store = JobStore.in_folder(Path(folder))
        with killable_service(environment(judge.base_url, Path(folder))) as service:
            pid = service.start()

            def kill() -> None:
                nonlocal pid
                service.kill(pid)
                pid = service.start()

            trial = await KillTrial(store, judge, kill, seed=seed, most_put_aside=kills // 25).run(
                rows, kills, between=(0.2, 2.5)
            )
            assert service.end(pid) == 0
            assert trial.kills == kills, f"the job was done after {trial.kills} kills"
            assert trial.repeated <= trial.kills * (CONCURRENCY + CHUNK_ROWS)
            await cancelled_stays(store, service)
        await store.close()
    found = asdict(trial)
    found["repeated_a_kill"] = round(trial.repeated / max(1, trial.kills), 1)
    return found


def command(
    description: str | None, trial: Callable[[int, int, int], Coroutine[None, None, dict[str, object]]]
) -> None:
    """The command of a trial: so many kills while so many rows are worked on, and a seed."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()
    found = asyncio.run(trial(options.kills, options.rows, options.seed))
    print(json.dumps({**found, "whole_seconds": round(time.monotonic() - started, 1)}))


if __name__ == "__main__":
    command(__doc__, run)
