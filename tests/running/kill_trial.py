"""Kills at random while a job is worked on, and what must hold after each of them and at the end."""

import asyncio
import hashlib
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from plumbline.rows.jobs.job import Job, JobState, NewJob
from plumbline.rows.jobs.store import JobStore
from tests.making.job_rows import TENANT, upload
from tests.running.judge_process import JudgeProcess, row

_POLL_SECONDS = 0.02


@dataclass
class Trial:
    """What was seen. `repeated`: calls of the judge about a row that it had been asked about, for each kill.

    `put_aside`: rows that three kills in a row happened to hit.
    """

    kills: int = 0
    rows: int = 0
    seconds: float = 0.0
    repeated: int = 0
    most_repeated_by_a_kill: int = 0
    readable_at_kills: list[int] = field(default_factory=list)
    put_aside: list[int] = field(default_factory=list)


class KillTrial:
    """One job under kills.

    Args:
        store: the job's, opened by us: what is seen is seen from outside.
        judge: counts what it is asked.
        kill: ends a process of the service at random and starts another.
        most_put_aside: how many rows may be taken for those that end their processes, though it was chance.
    """

    def __init__(
        self, store: JobStore, judge: JudgeProcess, kill: Callable[[], None], *, seed: int = 0, most_put_aside: int = 0
    ) -> None:
        self._store = store
        self._judge = judge
        self._kill = kill
        self._random = random.Random(seed)  # noqa: S311
        self._most_put_aside = most_put_aside
        self._put_aside: list[int] = []
        self._digests: list[bytes] = []
        self._cost = 0.0

    async def run(self, rows: int, kills: int, *, between: tuple[float, float]) -> Trial:
        """The trial: `kills` kills while a job of so many rows is done, that many seconds apart.

        Raises:
            AssertionError: a row was lost, done twice, changed or out of order; the job is stuck; spend went down.
        """
        trial = Trial(rows=rows)
        started = time.monotonic()
        new = NewJob(TENANT, b'{"tiers": ["llm"]}')
        job = (await self._store.submit(new, upload(self._store, [row(number) for number in range(rows)]))).job
        repeated_before = 0
        while not (await self._store.get(TENANT, job.id)).state.is_ended:
            await self._settle(job, self._random.uniform(*between))
            state = (await self._store.get(TENANT, job.id)).state
            if trial.kills < kills and not state.is_ended:
                self._kill()
                trial.kills += 1
                trial.readable_at_kills.append(await self._look(job))
                repeated = sum(count - 1 for count in self._judge.calls_by_row().values())
                trial.most_repeated_by_a_kill = max(trial.most_repeated_by_a_kill, repeated - repeated_before)
                repeated_before = repeated
        assert await self._look(job) == rows
        done = await self._store.get(TENANT, job.id)
        state = JobState.COMPLETED_WITH_ERRORS if self._put_aside else JobState.COMPLETED
        assert (done.state, done.total, done.counts.done) == (state, rows, rows), done
        assert len(self._put_aside) <= self._most_put_aside
        trial.put_aside = self._put_aside
        calls = self._judge.calls_by_row()
        assert set(calls) >= set(range(rows))
        trial.repeated = sum(count - 1 for count in calls.values())
        trial.seconds = round(time.monotonic() - started, 1)
        return trial

    async def _settle(self, job: Job, seconds: float) -> None:
        """Waits, or until the job has ended."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not (await self._store.get(TENANT, job.id)).state.is_ended:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_SECONDS)

    async def _look(self, job: Job) -> int:
        """Rows that can be read now; every one that could be read before is as it was."""
        seen = await self._store.results(TENANT, job.id, after=-1, limit=10_000_000)
        assert [each.row for each in seen] == list(range(len(seen)))
        digests = [hashlib.sha256(each.line).digest() for each in seen]
        assert digests[: len(self._digests)] == self._digests
        for number, each in enumerate(seen[len(self._digests) :], start=len(self._digests)):
            line = json.loads(each.line)
            assert (line["row"], line["custom_id"]) == (number, f"q{number}")
            if "error" in line and self._most_put_aside:
                assert line["error"]["type"].endswith("worker-crashed"), line
                self._put_aside.append(number)
            else:
                assert line["result"]["tier"] == "llm", line
        self._digests = digests
        cost = (await self._store.get(TENANT, job.id)).counts.usage.cost
        assert cost is not None
        assert cost >= self._cost
        self._cost = cost
        return len(seen)
