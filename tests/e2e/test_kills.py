"""Processes that are killed while they work on jobs; `benchmarks/kill_service.py` does it at length."""

import asyncio
import contextlib
import signal
from functools import partial
from pathlib import Path

import httpx2
import pytest

from benchmarks.kill_service import CHUNK_ROWS, CONCURRENCY, environment
from plumbline.rows.jobs.job import JobState
from plumbline.rows.jobs.store import JobStore
from tests.making.job_rows import TENANT, lines_of, rows_of, submitted
from tests.making.job_runs import make_run
from tests.running.deadly_worker import DEADLY, work_until_all_have_ended
from tests.running.judge_process import judge_process
from tests.running.kill_trial import KillTrial
from tests.running.killable_service import PORT, killable_service
from tests.running.real_servers import free_port

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
_LABELLED = 20


@pytest.mark.timeout(180)
async def test_a_killed_service_loses_changes_and_repeats_nothing(tmp_path: Path) -> None:
    with judge_process(latency_seconds=0.01) as judge:
        store = JobStore.in_folder(tmp_path)
        with killable_service(environment(judge.base_url, tmp_path)) as service:
            alive = [service.start()]

            def kill() -> None:
                service.kill(alive.pop())
                alive.append(service.start())

            trial = await KillTrial(store, judge, kill, seed=3).run(400, 2, between=(0.3, 0.9))
            assert service.end(alive.pop()) == 0
        await store.close()

    assert trial.kills > 0
    assert trial.most_repeated_by_a_kill <= CONCURRENCY + CHUNK_ROWS


@pytest.mark.timeout(120)
async def test_a_row_that_kills_three_workers_is_put_aside_and_the_job_completes(tmp_path: Path) -> None:
    store = JobStore.in_folder(tmp_path)
    job = await submitted(store, rows_of(250, row130=DEADLY))
    codes: list[int] = []
    with killable_service({}, partial(work_until_all_have_ended, tmp_path)) as service:
        while not codes or codes[-1] != 0:
            codes.append(await asyncio.to_thread(service.wait, service.start()))
            assert len(codes) < 10
    done = await store.get(TENANT, job.id)
    lines = await lines_of(store, job.id)
    await store.close()

    assert codes == [-signal.SIGKILL] * 3 + [0]
    assert (done.state, done.counts.done) == (JobState.COMPLETED_WITH_ERRORS, 250)
    assert [line["row"] for line in lines if line["status"] != "judged"] == [130]
    assert lines[130]["text"] == "crashed after 3"


@pytest.mark.timeout(120)
async def test_labels_of_two_people_survive_a_killed_service_and_each_other(tmp_path: Path) -> None:
    store = JobStore.in_folder(tmp_path)
    run = await make_run(store, _LABELLED)
    acknowledged: dict[str, set[int]] = {"ann": set(), "bob": set()}
    port = free_port()
    told = {**environment("http://127.0.0.1:9/v1", tmp_path), PORT: str(port)}
    with killable_service(told) as service:
        alive = [service.start()]

        async def mark(person: str) -> None:
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=SAME_ORIGIN) as client:
                for row in range(_LABELLED):
                    label = "faithful" if person == "ann" else "unfaithful"
                    data = {"person": person, "row": str(row), "mark": label}
                    while row not in acknowledged[person]:
                        # Connections are refused between a kill and the next start.
                        with contextlib.suppress(httpx2.TransportError):
                            answer = await client.post(f"/label/{run.id}", data=data)
                            if answer.status_code == 303:
                                acknowledged[person].add(row)
                                continue
                        await asyncio.sleep(0.02)

        async def kill() -> None:
            while min(map(len, acknowledged.values())) < _LABELLED // 2:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            service.kill(alive.pop())
            alive.append(service.start())

        await asyncio.gather(mark("ann"), mark("bob"), kill())
        service.kill(alive.pop())
        kept = await store.labels("", run.id)
        await store.close()

    assert {(each.person, each.row): each.label for each in kept} == {
        **{("ann", row): 1 for row in range(_LABELLED)},
        **{("bob", row): 0 for row in range(_LABELLED)},
    }
