"""The rows of `chunk` and `result`: leased, filled, given back. Each function works within one transaction."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from app.jobs.counting import COUNT_COLUMNS, RESULT_COLUMNS, SUMS_OF_RESULTS, values_of
from app.jobs.job import Held, JobState, Lease, ResultLine
from app.jobs.row_file import ChunkSpan
from app.jobs.sqlite_jobs import ROW_BITS, JobRows, is_spent
from app.scored_row import ScoredRow

# of the chunk that stands for reading the upload
VALIDATION: Final = -1
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


class KeptChunk(NamedTuple):
    """In which file and where a chunk lies, its rows that are done, and the strikes of its rows that have any."""

    file: str
    span: ChunkSpan
    done: set[int]
    strikes: dict[int, int]


class ChunkRows:
    """Chunks in one connection's transaction; `clock` gives seconds since 1970."""

    def __init__(self, connection: sqlite3.Connection, clock: Callable[[], float]) -> None:
        self._sql = connection
        self._jobs = JobRows(connection, clock)
        self._now = clock

    def take_back(self, is_alive: Callable[[str], bool]) -> list[str]:
        """Frees the chunks whose owner has ended or let its lease pass; the names of those that have ended.

        Rows that were under way get a strike each.
        """
        owners = [each for (each,) in self._sql.execute("SELECT DISTINCT owner FROM chunk WHERE state = 'leased'")]
        dead = [owner for owner in owners if not is_alive(owner)]
        left = f"state = 'leased' AND (lease_until < ? OR owner IN ({', '.join('?' * len(dead))}))"
        self._sql.execute(
            "INSERT INTO strike SELECT (job << ?) + value, 1 FROM chunk, json_each(under_way)"
            f" WHERE {left} ON CONFLICT (key) DO UPDATE SET deaths = deaths + 1",
            (ROW_BITS, self._now(), *dead),
        )
        self._sql.execute(
            f"UPDATE chunk SET state = 'free', owner = NULL, deaths = deaths + 1, under_way = '[]' WHERE {left}",
            (self._now(), *dead),
        )
        return dead

    def lease(self, owner: str, seconds: float) -> Lease | None:
        """A free chunk, of the job that has fewest under way, the oldest of those."""
        found = self._sql.execute(
            "SELECT j.number, j.id, j.tenant, j.options, j.state, j.max_cost FROM job j"
            " WHERE j.state IN ('validating', 'queued', 'running')"
            " AND EXISTS (SELECT 1 FROM chunk c WHERE c.job = j.number AND c.state = 'free')"
            " ORDER BY (SELECT count(*) FROM chunk c WHERE c.job = j.number AND c.state = 'leased'), j.number LIMIT 1"
        ).fetchone()
        if found is None:
            return None
        number, job_id, tenant, options, state, max_cost = found
        if max_cost is not None and is_spent(max_cost, self._jobs.counts(number)):
            self._jobs.enter(number, JobState.PAUSED, spent_line(max_cost))
            return None
        if state == JobState.QUEUED:
            self._jobs.enter(number, JobState.RUNNING)
        chunk, fence, deaths = self._sql.execute(
            "UPDATE chunk SET state = 'leased', owner = ?, fence = fence + 1, lease_until = ? WHERE job = ? AND n = ("
            " SELECT min(n) FROM chunk WHERE job = ? AND state = 'free') RETURNING n, fence, deaths",
            (owner, self._now() + seconds, number, number),
        ).fetchone()
        return Lease(job_id, tenant, options, chunk, fence, deaths)

    def renew(self, lease: Lease, seconds: float) -> Held:
        """Whether the lease holds; prolonged if so."""
        number = self._number(lease)
        self._sql.execute(
            f"UPDATE chunk SET lease_until = ? WHERE {_OWNED}",
            (self._now() + seconds, number, lease.chunk, lease.fence),
        )
        return self.held(lease)

    def held(self, lease: Lease) -> Held:
        """Whether the lease holds."""
        number = self._number(lease)
        found = self._sql.execute(
            f"SELECT j.state FROM chunk JOIN job j ON j.number = job WHERE {_OWNED.replace('state', 'chunk.state')}",
            (number, lease.chunk, lease.fence),
        ).fetchone()
        if found is None or JobState(found[0]).is_ended:
            return Held.LOST
        return Held.PAUSED if found[0] == JobState.PAUSED else Held.YES

    def span(self, lease: Lease) -> KeptChunk | None:
        """Where the chunk lies and what became of its rows; None when the lease is lost."""
        number = self._number(lease)
        found = self._sql.execute(
            "SELECT j.rows_file, first_row, rows, offset, length FROM chunk JOIN job j ON j.number = job"
            f" WHERE {_OWNED.replace('state', 'chunk.state')}",
            (number, lease.chunk, lease.fence),
        ).fetchone()
        if found is None:
            return None
        file, *place = found
        span = ChunkSpan(*place)
        base = number << ROW_BITS
        bounds = (base + span.first_row, base + span.first_row + span.rows)
        done = self._sql.execute("SELECT key FROM result WHERE key >= ? AND key < ? AND redo = 0", bounds)
        strikes = self._sql.execute("SELECT key, deaths FROM strike WHERE key >= ? AND key < ?", bounds)
        return KeptChunk(
            file, span, {key - base for (key,) in done}, {key - base: deaths for key, deaths in strikes.fetchall()}
        )

    def begin(self, lease: Lease, rows: Sequence[int]) -> None:
        """These rows are under way, with those that are."""
        self._under_way(lease, lambda before: before | set(rows))

    def _under_way(self, lease: Lease, change: Callable[[set[int]], set[int]]) -> None:
        place = (self._number(lease), lease.chunk, lease.fence)
        found = self._sql.execute(f"SELECT under_way FROM chunk WHERE {_OWNED}", place).fetchone()
        if found is not None:
            rows = json.dumps(sorted(change(set(json.loads(found[0])))))
            self._sql.execute(f"UPDATE chunk SET under_way = ? WHERE {_OWNED}", (rows, *place))

    def put(self, lease: Lease, rows: Sequence[ScoredRow]) -> None:
        """Keeps results; a row that has one keeps it, unless it is to be scored again."""
        base = self._number(lease) << ROW_BITS
        self._sql.executemany(_PUT, [(base + row.row, *values_of(row)) for row in rows])
        self._under_way(lease, lambda before: before - {row.row for row in rows})

    def finish(self, lease: Lease) -> None:
        """The chunk is done and counted; the last one of a job ends it."""
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
        self.end_if_done(number)

    def end_if_done(self, number: int) -> None:
        """Ends a job that has no chunk left."""
        left = self._sql.execute("SELECT 1 FROM chunk WHERE job = ? AND state <> 'done' LIMIT 1", (number,)).fetchone()
        if left is None:
            job = self._jobs.by_number(number)
            counts = job.counts.by_status
            is_clean = not (counts["invalid"] or counts["failed"] or counts["not_judged"] or job.problem)
            state = JobState.COMPLETED if is_clean else JobState.COMPLETED_WITH_ERRORS
            self._jobs.enter(number, state)

    def fill(self, lease: Lease, spans: Sequence[ChunkSpan], total: int, *, file: str, damage: str | None) -> None:
        """The upload is read: its chunks stand in place of the one for reading it."""
        number = self._number(lease)
        self._sql.execute("DELETE FROM chunk WHERE job = ? AND n = ?", (number, VALIDATION))
        self._sql.executemany(
            "INSERT INTO chunk (job, n, first_row, rows, offset, length) VALUES (?, ?, ?, ?, ?, ?)",
            ((number, n, *span) for n, span in enumerate(spans)),
        )
        self._sql.execute(
            "UPDATE job SET total = ?, damage = ?, rows_file = ?, upload = NULL WHERE number = ?",
            (total, damage, file, number),
        )
        self._jobs.enter(number, JobState.QUEUED)

    def fail(self, lease: Lease, problem: str) -> None:
        """The job cannot be done at all."""
        self._jobs.enter(self._number(lease), JobState.FAILED, problem)

    def release(self, lease: Lease) -> None:
        """The chunk is free again, without blame."""
        self._sql.execute(
            f"UPDATE chunk SET state = 'free', owner = NULL, under_way = '[]' WHERE {_OWNED}",
            (self._number(lease), lease.chunk, lease.fence),
        )

    def lines(self, number: int, after: int, limit: int) -> list[ResultLine]:
        """Lines behind row `after`, up to the first row that has none."""
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

    def _number(self, lease: Lease) -> int:
        """The job's number; 0, which no job has, when it is gone."""
        found = self._sql.execute("SELECT number FROM job WHERE id = ?", (lease.job_id,)).fetchone()
        return 0 if found is None else int(found[0])


def spent_line(max_cost: float) -> str:
    """Why a job paused that has spent what it may."""
    return f"the job has spent its max_cost of {max_cost:g}, or the price of a call is not known"


def sweep(connection: sqlite3.Connection, rows: int) -> bool:
    """Takes away results of forgotten jobs, at most `rows`; whether there may be more."""
    found = connection.execute("SELECT job FROM garbage LIMIT 1").fetchone()
    if found is None:
        return False
    low, high = found[0] << ROW_BITS, (found[0] + 1) << ROW_BITS
    connection.execute("DELETE FROM strike WHERE key >= ? AND key < ?", (low, high))
    gone = connection.execute(
        "DELETE FROM result WHERE key IN (SELECT key FROM result WHERE key >= ? AND key < ? LIMIT ?)", (low, high, rows)
    ).rowcount
    if gone < rows:
        connection.execute("DELETE FROM garbage WHERE job = ?", found)
    return True
