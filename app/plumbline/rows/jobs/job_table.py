"""SQL on the table `job`, and the counts over results; each method runs within one transaction."""

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from plumbline.ground.errors import IdempotencyConflict, JobStateConflict, JobUnknown
from plumbline.judging.ports.exchange import Usage
from plumbline.rows.jobs.job import (
    ALREADY,
    RETRIABLE,
    TRANSITIONS,
    Action,
    Job,
    JobCounts,
    JobState,
    JobStats,
    NewJob,
    Select,
    StateChange,
)
from plumbline.rows.jobs.labels import LABEL_TABLE
from plumbline.rows.jobs.sql import Sql
from plumbline.rows.scored_row import RowStatus, ScoredRow

# Rows of one job, and so jobs of one database: 2^31 each.
ROW_BITS: Final = 32
_FIELDS: Final = (
    "id", "tenant", "name", "options", "max_cost", "state", "seq", "total", "created", "started", "ended", "versions",
    "problem",
)  # fmt: skip
_COLUMNS: Final = f"{', '.join(_FIELDS[:-1])}, coalesce(problem, damage), number"
_AGAIN: Final[dict[Select, str]] = {"failed": "status IN ('failed', 'not_judged')", "degraded": "degraded = 1"}

_STATUSES: Final = tuple(status.value for status in RowStatus)
_TIERS: Final = ("llm", "detector", "embedding", "lexical")
_USED: Final = ("calls", "unmetered_calls", "prompt_tokens", "completion_tokens", "cached_tokens")

# Columns of `chunk` by name, with the expression that counts each from results `r`; SQL for both databases.
_COUNTED: Final[Mapping[str, str]] = {
    **{name: f"CASE WHEN r.status = '{name}' THEN 1 ELSE 0 END" for name in _STATUSES},
    **{name: f"CASE WHEN r.tier = '{name}' THEN 1 ELSE 0 END" for name in _TIERS},
    "degraded": "r.degraded",
    "passed": "CASE WHEN r.passed = 1 THEN 1 ELSE 0 END",
    "not_passed": "CASE WHEN r.passed = 0 THEN 1 ELSE 0 END",
    **{name: f"r.{name}" for name in _USED},
    "cost": "coalesce(r.cost, 0)",
    "unpriced": "CASE WHEN r.cost IS NULL THEN 1 ELSE 0 END",
}
COUNT_COLUMNS: Final = tuple(_COUNTED)
SUMS_OF_RESULTS: Final = ", ".join(f"coalesce(sum({how}), 0)" for how in _COUNTED.values())
SUMS_OF_CHUNKS: Final = ", ".join(f"coalesce(sum(c.{name}), 0)" for name in _COUNTED)

# Columns of a result, in the order of `result_values`.
RESULT_COLUMNS: Final = ("status", "tier", "degraded", "passed", *_USED, "cost", "line")
# Tables made before 0.2 get these columns when they are opened; rows of before count as neither.
ADDED_COLUMNS: Final = (
    ("result", "passed", "bigint", ""),
    ("chunk", "passed", "bigint", "NOT NULL DEFAULT 0"),
    ("chunk", "not_passed", "bigint", "NOT NULL DEFAULT 0"),
    ("chunk", "detector", "bigint", "NOT NULL DEFAULT 0"),
    ("job", "versions", "text", ""),
)
# In the types of PostgreSQL. A result's key is its job's number and its row: rows of a job lie side by side, in order.
# `line` is last, so that counting reads no line. Tokens and cost of a result include those of results that it replaced.
_TABLES: Final = """
CREATE TABLE job (
    number @NUMBER@, id text NOT NULL UNIQUE, tenant text NOT NULL, name text,
    options bytea NOT NULL, max_cost double precision, state text NOT NULL, seq bigint NOT NULL, total bigint,
    created double precision NOT NULL, started double precision, ended double precision, problem text, damage text,
    @JOB@idempotency_key text, fingerprint text NOT NULL, versions text);
CREATE UNIQUE INDEX job_key ON job (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX job_open ON job (number) WHERE state IN ('validating', 'queued', 'running');
CREATE TABLE change (
    job bigint NOT NULL, seq bigint NOT NULL, state text NOT NULL, at double precision NOT NULL, problem text,
    PRIMARY KEY (job, seq))@CHANGES@;
CREATE TABLE chunk (
    job bigint NOT NULL, n bigint NOT NULL, first_row bigint NOT NULL, rows bigint NOT NULL, @CHUNK@
    state text NOT NULL DEFAULT 'free', owner text, fence bigint NOT NULL DEFAULT 0, lease_until double precision,
    deaths bigint NOT NULL DEFAULT 0, under_way text NOT NULL DEFAULT '[]',
    counted bigint NOT NULL DEFAULT 0, @COUNTS@,
    PRIMARY KEY (job, n))@CHUNKS@;
CREATE INDEX chunk_free ON chunk (job, n) WHERE state = 'free';
CREATE INDEX chunk_leased ON chunk (job) WHERE state = 'leased';
CREATE INDEX chunk_begun ON chunk (job, n) WHERE counted = 0 AND fence > 0;
CREATE TABLE result (
    key bigint PRIMARY KEY, status text NOT NULL, tier text, degraded bigint NOT NULL, passed bigint,
    calls bigint NOT NULL,
    unmetered_calls bigint NOT NULL, prompt_tokens bigint NOT NULL, completion_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL, cost double precision, redo bigint NOT NULL DEFAULT 0, line bytea NOT NULL);
CREATE INDEX result_again ON result (key) WHERE degraded = 1 OR status IN ('failed', 'not_judged');
CREATE TABLE strike (key bigint PRIMARY KEY, deaths bigint NOT NULL);
CREATE TABLE garbage (job bigint PRIMARY KEY);
"""


def make_tables(*, replaced: Mapping[str, str], more: str) -> str:
    """Return the statements that create the tables: with some texts `replaced`, and `more` for one database alone."""
    counts = (f"{name} {'double precision' if name == 'cost' else 'bigint'}" for name in COUNT_COLUMNS)
    text = _TABLES.replace("@COUNTS@", ", ".join(f"{each} NOT NULL DEFAULT 0" for each in counts))
    for old, new in replaced.items():
        text = text.replace(old, new)
    return f"{re.sub('@[A-Z]+@', '', text)}{LABEL_TABLE};\n{more}"


class JobTable:
    """Table of jobs in one transaction."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql

    def repeated(self, new: NewJob) -> Job | None:
        """Return the job with the same idempotency key; raise IdempotencyConflict if its request was another."""
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
        """Insert a job and return its number; `more`: columns of this database alone."""
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
            "versions": new.versions,
            **more,
        }
        (number,) = self._sql.execute(
            f"INSERT INTO job ({', '.join(row)}) VALUES ({', '.join('?' * len(row))}) RETURNING number",
            tuple(row.values()),
        ).fetchone()
        self._sql.execute("INSERT INTO change VALUES (?, 0, ?, ?, NULL)", (number, state.value, now))
        return int(number)

    def number(self, tenant: str, job_id: str, *, lock: str = "") -> int:
        """Return the number of the tenant's job, locked by `lock`, a suffix of `Sql`. Raises JobUnknown."""
        found = self._sql.execute(
            f"SELECT number FROM job WHERE id = ? AND tenant = ?{lock}", (job_id, tenant)
        ).fetchone()
        if found is None:
            raise JobUnknown("there is no job of this id; GET /v1/jobs lists yours")
        return int(found[0])

    def by_number(self, number: int) -> Job:
        row = self._sql.execute(f"SELECT {_COLUMNS} FROM job WHERE number = ?", (number,)).fetchone()
        return self._job(row)

    def newest(self, tenant: str, before: str | None, limit: int, name: str | None = None) -> list[Job]:
        """Return the tenant's jobs that are older than `before`, newest first; only those of a name, if given."""
        below = 1 << 62 if before is None else self.number(tenant, before)
        named, names = ("", ()) if name is None else (" AND name = ?", (name,))
        rows = self._sql.execute(
            f"SELECT {_COLUMNS} FROM job WHERE tenant = ? AND number < ?{named} ORDER BY number DESC LIMIT ?",
            (tenant, below, *names, limit),
        ).fetchall()
        return [self._job(row) for row in rows]

    def act(self, number: int, action: Action) -> Job:
        """Apply an action; idempotent. Raises JobStateConflict."""
        job = self.by_number(number)
        targets = TRANSITIONS[action]
        if job.state in ALREADY[action]:
            return job
        if job.state not in targets:
            done = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}[action]
            raise JobStateConflict(f"a job that is {job.state} cannot be {done}")
        if action == "resume" and job.max_cost is not None and is_spent(job.max_cost, job.counts):
            raise JobStateConflict(f"the job has spent its max_cost of {job.max_cost:g}; submit the rest with another")
        self.enter(number, targets[job.state])
        return self.by_number(number)

    def enter(self, number: int, state: JobState, problem: str | None = None) -> None:
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
        """Queue the selected rows again with their chunks. Raises JobStateConflict."""
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
        """Delete the job at once; `sweep` deletes its results in batches, since there may be millions."""
        for table, column in (("job", "number"), ("change", "job"), ("chunk", "job"), ("label", "job")):
            self._sql.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))
        self._sql.execute("INSERT INTO garbage VALUES (?)", (number,))

    def changes(self, number: int, after: int) -> list[StateChange]:
        rows = self._sql.execute(
            "SELECT seq, state, at, problem FROM change WHERE job = ? AND seq > ? ORDER BY seq", (number, after)
        )
        return [StateChange(seq, JobState(state), at, problem) for seq, state, at, problem in rows]

    def counts(self, number: int) -> JobCounts:
        """Return the counts: stored sums of finished chunks, plus the results of unfinished ones."""
        done = self._sql.execute(
            f"SELECT {SUMS_OF_CHUNKS} FROM chunk c WHERE job = ? AND counted = 1",
            (number,),
        ).fetchone()
        open_ = self._sql.execute(
            f"SELECT {SUMS_OF_RESULTS} FROM chunk c JOIN result r"
            " ON r.key >= ? + c.first_row AND r.key < ? + c.first_row + c.rows"
            " WHERE c.job = ? AND c.counted = 0 AND c.fence > 0",
            (number << ROW_BITS, number << ROW_BITS, number),
        ).fetchone()
        of = dict(zip(COUNT_COLUMNS, (sum(each) for each in zip(done, open_, strict=True)), strict=True))
        return JobCounts(
            by_status={name: int(of[name]) for name in _STATUSES},
            by_tier={name: int(of[name]) for name in _TIERS},
            degraded=int(of["degraded"]),
            passed=int(of["passed"]),
            not_passed=int(of["not_passed"]),
            usage=Usage(
                **{name: int(of[name]) for name in _USED},
                cost=None if of["unpriced"] else float(of["cost"]),
            ),
        )

    def _job(self, row: tuple[object, ...]) -> Job:
        *values, number = row
        fields: dict[str, Any] = dict(zip(_FIELDS, values, strict=True))
        fields["state"] = JobState(fields["state"])
        return Job(**fields, counts=self.counts(cast(int, number)))


def is_spent(max_cost: float, counts: JobCounts) -> bool:
    """Return True if a job may spend no more; an unknown price counts as spent."""
    cost = counts.usage.cost
    return cost is None or cost >= max_cost


def result_values(row: ScoredRow) -> tuple[object, ...]:
    used = [getattr(row.usage, name) for name in _USED]
    passed = None if row.passed is None else int(row.passed)
    return row.status.value, row.tier, int(row.is_degraded), passed, *used, row.usage.cost, row.line


def count_jobs(sql: Sql) -> JobStats:
    """Return jobs and chunks by state; reads chunks only through the partial indices of free and leased ones."""
    found: dict[str, int] = dict(sql.execute("SELECT state, count(*) FROM job GROUP BY state"))
    (waiting,) = sql.execute(
        "SELECT count(*) FROM job j JOIN chunk c ON c.job = j.number AND c.state = 'free'"
        " WHERE j.state IN ('validating', 'queued', 'running')"
    ).fetchone()
    (leased,) = sql.execute("SELECT count(*) FROM chunk WHERE state = 'leased'").fetchone()
    return JobStats({state: int(found.get(state.value, 0)) for state in JobState}, int(waiting), int(leased))
