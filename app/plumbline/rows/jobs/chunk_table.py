"""SQL on the tables `chunk` and `result`; each method runs within one transaction.

Concurrent write transactions lock a job before its chunks, so that they cannot deadlock.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from plumbline.rows.jobs.job import Held, JobState, Lease, PendingRow, ResultLine, RowFilter
from plumbline.rows.jobs.job_table import (
    COUNT_COLUMNS,
    RESULT_COLUMNS,
    ROW_BITS,
    SUMS_OF_RESULTS,
    JobTable,
    is_spent,
    result_values,
)
from plumbline.rows.jobs.sql import Sql
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import ScoredRow

_ADDED: Final = ("calls", "unmetered_calls", "prompt_tokens", "completion_tokens", "cached_tokens", "cost")
_PUT: Final = (
    f"INSERT INTO result (key, {', '.join(RESULT_COLUMNS)}) VALUES (?{', ?' * len(RESULT_COLUMNS)})"
    " ON CONFLICT (key) DO UPDATE SET redo = 0, "
    + ", ".join(
        f"{name} = result.{name} + excluded.{name}" if name in _ADDED else f"{name} = excluded.{name}"
        for name in RESULT_COLUMNS
    )
    + " WHERE result.redo = 1"
)
_OWNED: Final = "job = ? AND n = ? AND fence = ? AND state = 'leased'"
_OPEN: Final = "('validating', 'queued', 'running')"


class LeftRows(NamedTuple):
    """Progress of a leased chunk: its finished rows, and `crash_counts` by row where there are any."""

    number: int
    done: frozenset[int]
    crash_counts: Mapping[int, int]

    def pending(self, rows: Iterable[Record | RecordProblem]) -> list[PendingRow]:
        """Return those of the chunk's rows that are to be scored."""
        return [PendingRow(row, self.crash_counts.get(row.row, 0)) for row in rows if row.row not in self.done]


class ChunkTable:
    """Table of chunks in one transaction."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql
        self._jobs = JobTable(sql)

    def owners(self) -> list[str]:
        """Return the names of the owners that hold chunks."""
        return [each for (each,) in self._sql.execute("SELECT DISTINCT owner FROM chunk WHERE state = 'leased'")]

    def take_back(self, dead: Sequence[str], *, quiet_since: float) -> None:
        """Free the chunks of dead owners and those whose lease has expired.

        Each row that was in flight gets one more crash.

        Args:
            quiet_since: a chunk whose lease ends later than this is left to its owner, dead or not.
        """
        marks = ", ".join(["NULL", *"?" * len(dead)])
        left = self._sql.execute(
            "SELECT job, n, under_way FROM chunk WHERE state = 'leased'"
            f" AND (lease_until < ? OR (lease_until < ? AND owner IN ({marks}))){self._sql.skip_locked}",
            (self._sql.now(), quiet_since, *dead),
        ).fetchall()
        crashed = [((job << ROW_BITS) + row,) for job, _, under_way in left for row in json.loads(under_way)]
        self._sql.execute_many(
            "INSERT INTO strike VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET deaths = strike.deaths + 1", crashed
        )
        self._sql.execute_many(
            "UPDATE chunk SET state = 'free', owner = NULL, deaths = deaths + 1, under_way = '[]'"
            " WHERE job = ? AND n = ?",
            [(job, n) for job, n, _ in left],
        )

    def lease(self, owner: str, seconds: float) -> Lease | None:
        """Lease a free chunk of the job with the fewest leased chunks, the oldest of those."""
        found = self._sql.execute(
            f"SELECT j.number, j.state, j.max_cost FROM job j WHERE j.state IN {_OPEN}"
            " AND EXISTS (SELECT 1 FROM chunk c WHERE c.job = j.number AND c.state = 'free')"
            " ORDER BY (SELECT count(*) FROM chunk c WHERE c.job = j.number AND c.state = 'leased'), j.number LIMIT 1"
        ).fetchone()
        if found is None:
            return None
        number, state, max_cost = found
        # Whoever may change the job locks it; those who only work on it do not wait for one another.
        is_changing = state == JobState.QUEUED or max_cost is not None
        lock = self._sql.for_update if is_changing else self._sql.for_share
        found = self._sql.execute(
            f"SELECT id, tenant, options, state FROM job WHERE number = ? AND state IN {_OPEN}{lock}", (number,)
        ).fetchone()
        if found is None or (found[-1] == JobState.QUEUED and not is_changing):
            return None
        *job, state = found
        if max_cost is not None and is_spent(max_cost, self._jobs.counts(number)):
            problem = f"the job has spent its max_cost of {max_cost:g}, or the price of a call is not known"
            self._jobs.enter(number, JobState.PAUSED, problem)
            return None
        taken = self._sql.execute(
            "UPDATE chunk SET state = 'leased', owner = ?, fence = fence + 1, lease_until = ? WHERE job = ? AND n = ("
            f" SELECT n FROM chunk WHERE job = ? AND state = 'free' ORDER BY n LIMIT 1{self._sql.skip_locked})"
            " RETURNING n, fence, deaths",
            (owner, self._sql.now() + seconds, number, number),
        ).fetchone()
        if taken is None:
            return None
        if state == JobState.QUEUED:
            self._jobs.enter(number, JobState.RUNNING)
        return Lease(*job, *taken)

    def renew(self, lease: Lease, seconds: float) -> Held:
        self._sql.execute(
            f"UPDATE chunk SET lease_until = ? WHERE {_OWNED}", (self._sql.now() + seconds, *self._place(lease))
        )
        return self._held(lease)

    def hold(self, lease: Lease, *, is_last: bool = False) -> Held:
        """Lock the lease until the transaction ends. `is_last`: the job's state may change."""
        return self._held(lease, self._sql.for_update if is_last else self._sql.for_share, self._sql.for_update)

    def _held(self, lease: Lease, job_lock: str = "", chunk_lock: str = "") -> Held:
        job = self._sql.execute(f"SELECT number, state FROM job WHERE id = ?{job_lock}", (lease.job_id,)).fetchone()
        if job is None or JobState(job[1]).is_ended:
            return Held.LOST
        owned = f"SELECT 1 FROM chunk WHERE {_OWNED}{chunk_lock}"
        if self._sql.execute(owned, (job[0], lease.chunk, lease.fence)).fetchone() is None:
            return Held.LOST
        return Held.PAUSED if job[1] == JobState.PAUSED else Held.YES

    def left(self, lease: Lease) -> LeftRows | None:
        """Return the progress of the chunk; None if the lease is lost."""
        number, *place = self._place(lease)
        found = self._sql.execute(f"SELECT first_row, rows FROM chunk WHERE {_OWNED}", (number, *place)).fetchone()
        if found is None:
            return None
        base = number << ROW_BITS
        bounds = (base + found[0], base + found[0] + found[1])
        done = self._sql.execute("SELECT key FROM result WHERE key >= ? AND key < ? AND redo = 0", bounds)
        crashes = self._sql.execute("SELECT key, deaths FROM strike WHERE key >= ? AND key < ?", bounds)
        return LeftRows(
            number, frozenset(key - base for (key,) in done), {key - base: count for key, count in crashes.fetchall()}
        )

    def begin(self, lease: Lease, rows: Sequence[int]) -> None:
        self._change_in_flight(lease, lambda before: before | set(rows))

    def _change_in_flight(self, lease: Lease, change: Callable[[set[int]], set[int]]) -> None:
        place = self._place(lease)
        found = self._sql.execute(f"SELECT under_way FROM chunk WHERE {_OWNED}", place).fetchone()
        if found is not None:
            rows = json.dumps(sorted(change(set(json.loads(found[0])))))
            self._sql.execute(f"UPDATE chunk SET under_way = ? WHERE {_OWNED}", (rows, *place))

    def put(self, lease: Lease, rows: Sequence[ScoredRow]) -> None:
        """Store results; a row that has one keeps it, unless it is to be scored again."""
        base = self._number(lease) << ROW_BITS
        self._sql.execute_many(_PUT, [(base + row.row, *result_values(row)) for row in rows])
        self._change_in_flight(lease, lambda before: before - {row.row for row in rows})

    def finish(self, lease: Lease) -> None:
        """Mark the chunk done and store its sums; the last one of a job ends it."""
        number = self._number(lease)
        ((first_row, rows),) = self._sql.execute(
            "SELECT first_row, rows FROM chunk WHERE job = ? AND n = ?", (number, lease.chunk)
        ).fetchall()
        low = (number << ROW_BITS) + first_row
        sums = self._sql.execute(
            f"SELECT {SUMS_OF_RESULTS} FROM result r WHERE r.key >= ? AND r.key < ?",
            (low, low + rows),
        ).fetchone()
        self._sql.execute(
            f"UPDATE chunk SET state = 'done', owner = NULL, counted = 1, {' = ?, '.join(COUNT_COLUMNS)} = ?"
            " WHERE job = ? AND n = ?",
            (*sums, number, lease.chunk),
        )
        left = self._sql.execute("SELECT 1 FROM chunk WHERE job = ? AND state <> 'done' LIMIT 1", (number,)).fetchone()
        if left is None:
            job = self._jobs.by_number(number)
            counts = job.counts.by_status
            is_clean = not (counts["invalid"] or counts["failed"] or counts["not_judged"] or job.problem)
            state = JobState.COMPLETED if is_clean else JobState.COMPLETED_WITH_ERRORS
            self._jobs.enter(number, state)

    def enter(self, lease: Lease, state: JobState, problem: str) -> None:
        self._jobs.enter(self._number(lease), state, problem)

    def release(self, lease: Lease) -> None:
        self._sql.execute(
            f"UPDATE chunk SET state = 'free', owner = NULL, under_way = '[]' WHERE {_OWNED}", self._place(lease)
        )

    def lines(self, number: int, after: int, limit: int) -> list[ResultLine]:
        """Return lines behind row `after`, up to the first row that has none."""
        base = number << ROW_BITS
        found = self._sql.execute(
            "SELECT key, line FROM result WHERE key > ? AND key < ? ORDER BY key LIMIT ?",
            (base + after, (number + 1) << ROW_BITS, limit),
        )
        lines: list[ResultLine] = []
        for row, (key, line) in enumerate(found, start=after + 1):
            if key != base + row:
                break
            lines.append(ResultLine(row, bytes(line)))
        return lines

    def find(self, number: int, after: int, limit: int, where: RowFilter) -> list[ResultLine]:
        """Return lines behind row `after` that the filter wants."""
        passed = None if where.passed is None else int(where.passed)
        named = {"status": where.status, "tier": where.tier, "passed": passed}
        wanted = {name: value for name, value in named.items() if value is not None}
        base = number << ROW_BITS
        found = self._sql.execute(
            f"SELECT key, line FROM result WHERE key > ? AND key < ?{''.join(f' AND {name} = ?' for name in wanted)}"
            " ORDER BY key LIMIT ?",
            (base + after, (number + 1) << ROW_BITS, *wanted.values(), limit),
        )
        return [ResultLine(key - base, bytes(line)) for key, line in found]

    def read(self, number: int, rows: Sequence[int]) -> list[ResultLine]:
        """Return the lines of these rows."""
        base = number << ROW_BITS
        found = self._sql.execute(
            f"SELECT key, line FROM result WHERE key IN ({', '.join('?' * len(rows))}) ORDER BY key",
            [base + row for row in rows],
        )
        return [ResultLine(key - base, bytes(line)) for key, line in found]

    def holding(self, number: int, row: int) -> int | None:
        """Return the chunk that holds a row; None if none does."""
        found = self._sql.execute(
            "SELECT n FROM chunk WHERE job = ? AND n >= 0 AND first_row <= ? AND first_row + rows > ?",
            (number, row, row),
        ).fetchone()
        return None if found is None else int(found[0])

    def add(self, number: int, chunks: Iterable[tuple[int, int, int]]) -> None:
        """Insert chunks of a job: each its place, its first row and its number of rows."""
        self._sql.execute_many(
            "INSERT INTO chunk (job, n, first_row, rows) VALUES (?, ?, ?, ?)", ((number, *each) for each in chunks)
        )

    def _place(self, lease: Lease) -> tuple[int, int, int]:
        return self._number(lease), lease.chunk, lease.fence

    def _number(self, lease: Lease) -> int:
        """Return the job's number; 0, which no job has, if it is deleted."""
        found = self._sql.execute("SELECT number FROM job WHERE id = ?", (lease.job_id,)).fetchone()
        return 0 if found is None else int(found[0])


def sweep(sql: Sql, rows: int) -> bool:
    """Delete at most `rows` results of deleted jobs; return True if there may be more."""
    found = sql.execute(f"SELECT job FROM garbage LIMIT 1{sql.skip_locked}").fetchone()
    if found is None:
        return False
    low, high = found[0] << ROW_BITS, (found[0] + 1) << ROW_BITS
    sql.execute("DELETE FROM strike WHERE key >= ? AND key < ?", (low, high))
    gone = sql.execute(
        "DELETE FROM result WHERE key IN (SELECT key FROM result WHERE key >= ? AND key < ? LIMIT ?)", (low, high, rows)
    ).rowcount
    if gone < rows:
        sql.execute("DELETE FROM garbage WHERE job = ?", found)
    return True
