"""A store of jobs in memory that keeps the promises of `JobStore`, for tests that look inside or change one method."""

import itertools
import shutil
import tempfile
import time
import weakref
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from plumbline.ground.errors import IdempotencyConflict, InvalidInput, JobStateConflict, JobUnknown, StoreUnavailable
from plumbline.judging.ports.exchange import Usage
from plumbline.judging.ports.observation import Readiness, State
from plumbline.rows.jobs.job import (
    ALREADY,
    RETRIABLE,
    TRANSITIONS,
    Action,
    Held,
    Job,
    JobCounts,
    JobState,
    Lease,
    NewJob,
    PendingRow,
    ResultLine,
    RowFilter,
    Select,
    StateChange,
)
from plumbline.rows.jobs.sql import Sql
from plumbline.rows.jobs.store import JobStore, Submission, Upload
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import RowStatus, ScoredRow

VALIDATION = -1
_RETRIED = {"failed": (RowStatus.FAILED, RowStatus.NOT_JUDGED), "degraded": ()}


@dataclass
class _Kept:
    """One job and what belongs to it."""

    new: NewJob
    upload: Upload
    job: Job
    records: list[Record | RecordProblem] = field(default_factory=list)
    results: dict[int, ScoredRow] = field(default_factory=dict)
    redo: set[int] = field(default_factory=set)
    spent: Usage = field(default=Usage())
    changes: list[StateChange] = field(default_factory=list)
    fence_by_chunk: Counter[int] = field(default_factory=Counter)
    leased: dict[int, int] = field(default_factory=dict)

    def left(self, rows: Collection[int]) -> list[int]:
        """Those rows that have no result, or are to be scored again."""
        return [row for row in rows if row not in self.results or row in self.redo]


class MemoryStore(JobStore):
    """Jobs for as long as the process lives.

    Attributes:
        is_broken: every method raises StoreUnavailable while this is set.
        uploads: the folder of files that no job has taken; empty unless an upload is under way.
    """

    def __init__(self, folder: Path | None = None, *, chunk_rows: int = 1_000) -> None:
        self.is_broken = False
        self.uploads = folder or Path(tempfile.mkdtemp(prefix="plumbline-uploads-"))
        weakref.finalize(self, shutil.rmtree, self.uploads, ignore_errors=True)
        self._chunk_rows = chunk_rows
        self._kept: dict[str, _Kept] = {}
        self._numbers = itertools.count(1)

    def readiness(self) -> Readiness:
        return Readiness(State.UNAVAILABLE if self.is_broken else State.READY, "jobs are kept in memory")

    # --- for those who ask

    def new_upload(self) -> Path:
        self._check()
        return self.uploads / f"upload-{next(self._numbers)}"

    async def submit(self, new: NewJob, upload: Upload) -> Submission:
        self._check()
        for kept in self._kept.values():
            if new.idempotency_key and (kept.new.tenant, kept.new.idempotency_key) == (new.tenant, new.idempotency_key):
                if kept.new.fingerprint != new.fingerprint:
                    raise IdempotencyConflict("the Idempotency-Key was used with another request")
                upload.path.unlink()
                return Submission(self._counted(kept), is_new=False)
        kept = _Kept(new, upload, _new_job(f"job_{next(self._numbers)}", new))
        self._kept[kept.job.id] = kept
        kept.changes.append(StateChange(0, JobState.VALIDATING, kept.job.created, None))
        return Submission(kept.job, is_new=True)

    async def get(self, tenant: str, job_id: str) -> Job:
        return self._counted(self._of(tenant, job_id))

    async def jobs(self, tenant: str, *, before: str | None, limit: int, name: str | None = None) -> list[Job]:
        self._check()
        newest = [kept for kept in reversed(self._kept.values()) if kept.job.tenant == tenant]
        newest = [kept for kept in newest if name in (None, kept.job.name)]
        if before is not None:
            newest = newest[newest.index(self._of(tenant, before)) + 1 :]
        return [self._counted(kept) for kept in newest[:limit]]

    async def act(self, tenant: str, job_id: str, action: Action) -> Job:
        kept = self._of(tenant, job_id)
        leads_to = TRANSITIONS[action]
        if kept.job.state in leads_to:
            self._change(kept, leads_to[kept.job.state])
        elif kept.job.state not in ALREADY[action]:
            raise JobStateConflict(f"the job is {kept.job.state}; it cannot {action}")
        return self._counted(kept)

    async def retry(self, tenant: str, job_id: str, select: Select) -> Job:
        kept = self._of(tenant, job_id)
        if kept.job.state not in RETRIABLE:
            raise JobStateConflict(f"the job is {kept.job.state}; retry it when it has ended")
        kept.redo |= {
            row
            for row, each in kept.results.items()
            if each.status in _RETRIED[select] or (select == "degraded" and each.is_degraded)
        }
        if not kept.redo:
            raise JobStateConflict(f"no row of the job is {select}; nothing is to be scored again")
        self._change(kept, JobState.QUEUED)
        return self._counted(kept)

    async def delete(self, tenant: str, job_id: str) -> None:
        kept = self._of(tenant, job_id)
        kept.upload.path.unlink(missing_ok=True)
        del self._kept[job_id]

    async def results(self, tenant: str, job_id: str, *, after: int, limit: int) -> list[ResultLine]:
        kept = self._of(tenant, job_id)
        behind = itertools.takewhile(kept.results.__contains__, range(after + 1, len(kept.records)))
        return [ResultLine(row, kept.results[row].line) for row in itertools.islice(behind, limit)]

    async def find_rows(
        self, tenant: str, job_id: str, *, after: int, limit: int, where: RowFilter
    ) -> list[ResultLine]:
        found = [
            each
            for row, each in sorted(self._of(tenant, job_id).results.items())
            if row > after
            and where.status in (None, each.status)
            and where.tier in (None, each.tier)
            and where.passed in (None, each.passed)
        ]
        return [ResultLine(each.row, each.line) for each in found[:limit]]

    async def read_rows(self, tenant: str, job_id: str, rows: Sequence[int]) -> list[ResultLine]:
        results = self._of(tenant, job_id).results
        return [ResultLine(row, results[row].line) for row in sorted(rows) if row in results]

    async def record(self, tenant: str, job_id: str, row: int) -> Record | RecordProblem | None:
        return dict(enumerate(self._of(tenant, job_id).records)).get(row)

    async def changes(self, tenant: str, job_id: str, *, after: int) -> list[StateChange]:
        return [each for each in self._of(tenant, job_id).changes if each.seq > after]

    # --- for those who work

    def owner(self) -> str:
        return "this process"

    async def lease(self, owner: str) -> Lease | None:
        self._check()
        for kept in self._kept.values():
            if kept.job.state is JobState.VALIDATING and VALIDATION not in kept.leased:
                return self._leased(kept, VALIDATION)
            if kept.job.state not in (JobState.QUEUED, JobState.RUNNING):
                continue
            for chunk in range(-(-len(kept.records) // self._chunk_rows)):
                if chunk not in kept.leased and kept.left(self._rows_of(kept, chunk)):
                    return self._leased(kept, chunk)
        return None

    async def validate(self, lease: Lease) -> Held:
        held = await self.renew(lease)
        if held is Held.LOST:
            return held
        kept = self._kept[lease.job_id]
        upload = kept.upload
        try:
            with RecordReader(upload.path, format=upload.form, columns=upload.columns) as reader:
                kept.records = list(reader)
        except InvalidInput as error:
            return await self.fail(lease, str(error))
        finally:
            upload.path.unlink()
        del kept.leased[VALIDATION]
        kept.job = replace(kept.job, total=len(kept.records))
        self._change(kept, JobState.QUEUED)
        return held

    async def rows(self, lease: Lease) -> Sequence[PendingRow]:
        kept = self._of(lease.tenant, lease.job_id)
        # a process that ends takes the store with it: no row outlives one
        return [PendingRow(kept.records[row], crash_count=0) for row in kept.left(self._rows_of(kept, lease.chunk))]

    def _chunk_place(self, sql: Sql, number: int, n: int) -> NoReturn:
        raise NotImplementedError

    async def _chunk_data(self, place: object) -> NoReturn:
        raise NotImplementedError

    async def begin(self, lease: Lease, rows: Sequence[int]) -> Held:
        return await self.renew(lease)

    async def renew(self, lease: Lease) -> Held:
        self._check()
        kept = self._kept.get(lease.job_id)
        if kept is None or kept.job.state.is_ended or kept.leased.get(lease.chunk) != lease.fence:
            return Held.LOST
        return Held.PAUSED if kept.job.state is JobState.PAUSED else Held.YES

    async def commit(self, lease: Lease, rows: Sequence[ScoredRow], *, is_done: bool) -> Held:
        held = await self.renew(lease)
        if held is Held.LOST:
            return held
        kept = self._kept[lease.job_id]
        for each in rows:
            if each.row in kept.left([each.row]):
                kept.results[each.row] = each
                kept.redo.discard(each.row)
                kept.spent = kept.spent + each.usage
        if is_done:
            del kept.leased[lease.chunk]
        self._complete(kept)
        return held

    async def fail(self, lease: Lease, problem: str) -> Held:
        held = await self.renew(lease)
        if held is not Held.LOST:
            self._change(self._kept[lease.job_id], JobState.FAILED, problem)
        return held

    async def pause(self, lease: Lease, problem: str) -> Held:
        held = await self.renew(lease)
        if held is Held.YES:
            self._change(self._kept[lease.job_id], JobState.PAUSED, problem)
            return Held.PAUSED
        return held

    async def release(self, lease: Lease) -> None:
        self._check()
        kept = self._kept.get(lease.job_id)
        if kept is not None and kept.leased.get(lease.chunk) == lease.fence:
            del kept.leased[lease.chunk]

    async def tidy(self) -> bool:
        return False

    async def close(self) -> None:
        for kept in self._kept.values():
            kept.leased.clear()

    # --- inside

    def _check(self) -> None:
        if self.is_broken:
            raise StoreUnavailable("the disk of the data folder is full; make room and try again")

    def _of(self, tenant: str, job_id: str) -> _Kept:
        self._check()
        kept = self._kept.get(job_id)
        if kept is None or kept.job.tenant != tenant:
            raise JobUnknown("there is no such job")
        return kept

    def _change(self, kept: _Kept, state: JobState, problem: str | None = None) -> None:
        now = time.time()
        kept.job = replace(
            kept.job,
            state=state,
            seq=kept.job.seq + 1,
            problem=problem,
            started=kept.job.started or (now if state is JobState.RUNNING else None),
            ended=now if state.is_ended else None,
        )
        kept.changes.append(StateChange(kept.job.seq, state, now, problem))

    def _rows_of(self, kept: _Kept, chunk: int) -> range:
        first = chunk * self._chunk_rows
        return range(first, min(first + self._chunk_rows, len(kept.records)))

    def _leased(self, kept: _Kept, chunk: int) -> Lease:
        if kept.job.state is JobState.QUEUED:
            self._change(kept, JobState.RUNNING)
        kept.fence_by_chunk[chunk] += 1
        fence = kept.leased[chunk] = kept.fence_by_chunk[chunk]
        job = kept.job
        return Lease(job.id, job.tenant, job.options, chunk, fence, owner_crashes=0)

    def _complete(self, kept: _Kept) -> None:
        if kept.leased or kept.left(range(len(kept.records))):
            return
        has_errors = any(each.status in (RowStatus.INVALID, RowStatus.FAILED) for each in kept.results.values())
        self._change(kept, JobState.COMPLETED_WITH_ERRORS if has_errors else JobState.COMPLETED)

    def _counted(self, kept: _Kept) -> Job:
        results = kept.results.values()
        counts = JobCounts(
            by_status=Counter(each.status.value for each in results),
            by_tier=Counter(each.tier for each in results if each.tier is not None),
            degraded=sum(each.is_degraded for each in results),
            passed=sum(each.passed is True for each in results),
            not_passed=sum(each.passed is False for each in results),
            usage=kept.spent,
        )
        return replace(kept.job, counts=counts)


def _new_job(job_id: str, new: NewJob) -> Job:
    return Job(
        id=job_id,
        tenant=new.tenant,
        name=new.name,
        options=new.options,
        max_cost=new.max_cost,
        state=JobState.VALIDATING,
        seq=0,
        total=None,
        created=time.time(),
        started=None,
        ended=None,
        problem=None,
        counts=JobCounts(),
        versions=new.versions,
    )
