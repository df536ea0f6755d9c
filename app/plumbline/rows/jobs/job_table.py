"""The rows of `job`: submitted, read, changed, forgotten. Each function works within one transaction."""

from typing import Any, Final, cast

from plumbline.ground.errors import IdempotencyConflict, JobStateConflict, JobUnknown
from plumbline.rows.jobs.counting import SUMS_OF_CHUNKS, SUMS_OF_RESULTS, counts_of
from plumbline.rows.jobs.job import (
    ALREADY,
    RETRIABLE,
    TRANSITIONS,
    Action,
    Job,
    JobCounts,
    JobState,
    NewJob,
    Select,
    StateChange,
)
from plumbline.rows.jobs.sql import Sql

# Rows of one job, and thereby jobs of one file: 2^31 each.
ROW_BITS: Final = 32
_FIELDS: Final = (
    "id", "tenant", "name", "options", "max_cost", "state", "seq", "total", "created", "started", "ended", "problem",
)  # fmt: skip
_COLUMNS: Final = f"{', '.join(_FIELDS[:-1])}, coalesce(problem, damage), number"
_AGAIN: Final[dict[Select, str]] = {"failed": "status IN ('failed', 'not_judged')", "degraded": "degraded = 1"}


class JobTable:
    """Jobs in one transaction."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql

    def repeated(self, new: NewJob) -> Job | None:
        """The job that was submitted under the same key; raises IdempotencyConflict when it was another request."""
        if new.idempotency_key is None:
            return None
        found = self._sql.execute(
            "SELECT number, fingerprint FROM job WHERE tenant = ? AND idempotency_key = ?",
            (new.tenant, new.idempotency_key),
        ).fetchone()
        if found is None:
            return None
        if found[1] != new.fingerprint:
            raise IdempotencyConflict("this Idempotency-Key was used with another request; use a new one")
        return self.by_number(found[0])

    def insert(self, new: NewJob, job_id: str, state: JobState, **more: object) -> int:
        """The number of a new job; `more`: columns that this database alone has."""
        now = self._sql.now()
        row = {
            "id": job_id,
            "tenant": new.tenant,
            "name": new.name,
            "options": new.options,
            "max_cost": new.max_cost,
            "state": state.value,
            "seq": 0,
            "created": now,
            "idempotency_key": new.idempotency_key,
            "fingerprint": new.fingerprint,
            **more,
        }
        (number,) = self._sql.execute(
            f"INSERT INTO job ({', '.join(row)}) VALUES ({', '.join('?' * len(row))}) RETURNING number",
            tuple(row.values()),
        ).fetchone()
        self._sql.execute("INSERT INTO change VALUES (?, 0, ?, ?, NULL)", (number, state.value, now))
        return int(number)

    def number(self, tenant: str, job_id: str, *, lock: str = "") -> int:
        """The number of the tenant's job, kept as it is by `lock`, an ending of `Sql`; raises JobUnknown."""
        found = self._sql.execute(
            f"SELECT number FROM job WHERE id = ? AND tenant = ?{lock}", (job_id, tenant)
        ).fetchone()
        if found is None:
            raise JobUnknown("there is no job of this id; GET /v1/jobs lists yours")
        return int(found[0])

    def by_number(self, number: int) -> Job:
        """The job, counted."""
        row = self._sql.execute(f"SELECT {_COLUMNS} FROM job WHERE number = ?", (number,)).fetchone()
        return self._job(row)

    def newest(self, tenant: str, before: str | None, limit: int) -> list[Job]:
        """The tenant's jobs, newest first, behind `before`."""
        below = 1 << 62 if before is None else self.number(tenant, before)
        rows = self._sql.execute(
            f"SELECT {_COLUMNS} FROM job WHERE tenant = ? AND number < ? ORDER BY number DESC LIMIT ?",
            (tenant, below, limit),
        ).fetchall()
        return [self._job(row) for row in rows]

    def act(self, number: int, action: Action) -> Job:
        """The job in the state that the action leads to; raises JobStateConflict."""
        job = self.by_number(number)
        targets = TRANSITIONS[action]
        if job.state in ALREADY[action]:
            return job
        if job.state not in targets:
            raise JobStateConflict(f"a job that is {job.state} cannot be {_DONE[action]}")
        if action == "resume" and job.max_cost is not None and is_spent(job.max_cost, job.counts):
            raise JobStateConflict(f"the job has spent its max_cost of {job.max_cost:g}; submit the rest with another")
        self.enter(number, targets[job.state])
        return self.by_number(number)

    def enter(self, number: int, state: JobState, problem: str | None = None) -> None:
        """Changes the state and writes the change down."""
        now = self._sql.now()
        self._sql.execute(
            "UPDATE job SET state = ?, seq = seq + 1, problem = ?, started = CASE WHEN ? THEN coalesce(started, ?) ELSE"
            " started END, ended = CASE WHEN ? THEN ? ELSE NULL END WHERE number = ?",
            (state.value, problem, state is JobState.RUNNING, now, state.is_ended, now, number),
        )
        self._sql.execute(
            "INSERT INTO change SELECT number, seq, state, ?, problem FROM job WHERE number = ?", (now, number)
        )

    def retry(self, number: int, select: Select) -> Job:
        """The job queued again, with the chunks that hold such rows; raises JobStateConflict."""
        job = self.by_number(number)
        if job.state not in RETRIABLE:
            raise JobStateConflict(f"rows of a job that is {job.state} cannot be scored again; wait for its end")
        low, high = number << ROW_BITS, (number + 1) << ROW_BITS
        marked = self._sql.execute(
            f"UPDATE result SET redo = 1 WHERE key >= ? AND key < ? AND {_AGAIN[select]}",
            (low, high),
        ).rowcount
        self._sql.execute("DELETE FROM strike WHERE key >= ? AND key < ?", (low, high))
        if not marked:
            raise JobStateConflict(f"no row of the job is {select}; nothing is to be scored again")
        self._sql.execute(
            "UPDATE chunk SET state = 'free', deaths = 0 WHERE job = ? AND EXISTS ("
            " SELECT 1 FROM result r WHERE r.key >= ? + chunk.first_row AND r.key < ? + chunk.first_row + chunk.rows"
            " AND r.redo = 1)",
            (number, low, low),
        )
        self.enter(number, JobState.QUEUED)
        return self.by_number(number)

    def delete(self, number: int) -> None:
        """Forgets the job at once; its results go little by little, since there may be millions."""
        for table, column in (("job", "number"), ("change", "job"), ("chunk", "job")):
            self._sql.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))
        self._sql.execute("INSERT INTO garbage VALUES (?)", (number,))

    def changes(self, number: int, after: int) -> list[StateChange]:
        """Changes of state behind `after`."""
        rows = self._sql.execute(
            "SELECT seq, state, at, problem FROM change WHERE job = ? AND seq > ? ORDER BY seq", (number, after)
        )
        return [StateChange(seq, JobState(state), at, problem) for seq, state, at, problem in rows]

    def counts(self, number: int) -> JobCounts:
        """Counted from results: chunk by chunk once one is done, row by row where it is not."""
        done = self._sql.execute(
            f"SELECT {SUMS_OF_CHUNKS} FROM chunk c WHERE job = ? AND counted = 1",
            (number,),
        ).fetchone()
        begun = self._sql.execute(
            f"SELECT {SUMS_OF_RESULTS} FROM chunk c JOIN result r"
            " ON r.key >= ? + c.first_row AND r.key < ? + c.first_row + c.rows"
            " WHERE c.job = ? AND c.counted = 0 AND c.fence > 0",
            (number << ROW_BITS, number << ROW_BITS, number),
        ).fetchone()
        return counts_of(done, begun)

    def _job(self, row: tuple[object, ...]) -> Job:
        *values, number = row
        fields: dict[str, Any] = dict(zip(_FIELDS, values, strict=True))
        fields["state"] = JobState(fields["state"])
        return Job(**fields, counts=self.counts(cast(int, number)))


_DONE: Final[dict[Action, str]] = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}


def is_spent(max_cost: float, counts: JobCounts) -> bool:
    """Whether a job may spend no more; where a price is not known, that cannot be told, and it may not."""
    cost = counts.usage.cost
    return cost is None or cost >= max_cost
