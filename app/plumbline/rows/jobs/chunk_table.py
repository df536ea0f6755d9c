"""Statements on chunks, their rows and results; each function runs within one transaction.

Concurrent write transactions lock a job before its chunks, so that they cannot deadlock.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, and_, bindparam, delete, exists, func, insert, select, text, update

from plumbline.ground.store.database import Transaction
from plumbline.ground.store.tables import (
    CHUNK,
    CHUNK_ROWS,
    COUNT_COLUMNS,
    DONE,
    FREE,
    GARBAGE,
    IS_OPEN,
    JOB,
    LEASED,
    RESULT,
    ROW_BITS,
    STRIKE,
    SUBMISSION,
)
from plumbline.ground.texts import CodedText
from plumbline.rows.jobs.job import JobState, Lease, LeaseStatus, ResultLine, RowFilter
from plumbline.rows.jobs.job_table import SUMS_OF_RESULTS, USED, counts_of, enter_state, is_of_job, is_spent, read_job
from plumbline.rows.scored_row import RowStatus, ScoredRow

# Of a deleted job, deleted in one transaction: results, and chunks of rows, which are far larger.
_SWEPT_RESULTS: Final = 2_000
_SWEPT_CHUNKS: Final = 20
_RESULT_COLUMNS: Final = ("status", "tier", "degraded", "passed", *USED, "cost", "line")
# A row that has a result keeps it, unless it is to be scored again; what the replaced one cost was spent all the same.
_PUT_RESULT: Final = text(
    f"INSERT INTO result (key, {', '.join(_RESULT_COLUMNS)}) VALUES (:key, :{', :'.join(_RESULT_COLUMNS)})"
    " ON CONFLICT (key) DO UPDATE SET redo = 0, "
    + ", ".join(
        f"{name} = result.{name} + excluded.{name}" if name in (*USED, "cost") else f"{name} = excluded.{name}"
        for name in _RESULT_COLUMNS
    )
    + " WHERE result.redo = 1"
)
_PUT_STRIKE: Final = text(
    "INSERT INTO strike (key, deaths) VALUES (:key, 1) ON CONFLICT (key) DO UPDATE SET deaths = strike.deaths + 1"
)

_NUMBER: Final = bindparam("number", type_=BigInteger)
_IS_OWNED: Final = and_(
    CHUNK.c.job == _NUMBER,
    CHUNK.c.n == bindparam("at"),
    CHUNK.c.fence == bindparam("by_fence"),
    CHUNK.c.state == LEASED,
)
_JOB_OF: Final = select(JOB.c.number, JOB.c.state).where(JOB.c.id == bindparam("job_id"))
_OWNED: Final = select(CHUNK.c.first_row, CHUNK.c.rows, CHUNK.c.under_way).where(_IS_OWNED)
_SET_IN_FLIGHT: Final = update(CHUNK).where(_IS_OWNED).values(under_way=bindparam("rows_in_flight"))
_RENEW: Final = update(CHUNK).where(_IS_OWNED).values(lease_until=bindparam("until"))
_RELEASE: Final = update(CHUNK).where(_IS_OWNED).values(state=FREE, under_way="[]")
_FEWEST_LEASED: Final = (
    select(func.count()).where(CHUNK.c.job == JOB.c.number, CHUNK.c.state == LEASED).scalar_subquery()
)
_NEXT_JOB: Final = (
    select(JOB.c.number, JOB.c.state, JOB.c.max_cost)
    .where(IS_OPEN, exists().where(CHUNK.c.job == JOB.c.number, CHUNK.c.state == FREE))
    .order_by(_FEWEST_LEASED, JOB.c.number)
    .limit(1)
)
_OPEN_JOB: Final = select(JOB.c.id, JOB.c.tenant, JOB.c.options, JOB.c.state).where(JOB.c.number == _NUMBER, IS_OPEN)
_NEXT_CHUNK: Final = (
    select(CHUNK.c.n)
    .where(CHUNK.c.job == _NUMBER, CHUNK.c.state == FREE)
    .order_by(CHUNK.c.n)
    .limit(1)
    .with_for_update(skip_locked=True)
)
_TAKE: Final = (
    update(CHUNK)
    .where(CHUNK.c.job == _NUMBER, CHUNK.c.n == _NEXT_CHUNK.scalar_subquery())
    .values(state=LEASED, fence=CHUNK.c.fence + 1, lease_until=bindparam("until"))
    .returning(CHUNK.c.n, CHUNK.c.fence, CHUNK.c.deaths)
)


class LeasedChunk(NamedTuple):
    """A leased chunk, locked until the transaction ends; `under_way`: rows that are in flight."""

    status: LeaseStatus
    number: int = 0
    first_row: int = 0
    rows: int = 0
    under_way: frozenset[int] = frozenset()


def take_back(sql: Transaction, *, grace_seconds: float) -> None:
    """Free the chunks whose lease ended so long ago, with one more crash for each row that was in flight."""
    until = sql.now - grace_seconds
    left = sql.execute(
        select(CHUNK.c.job, CHUNK.c.n, CHUNK.c.under_way)
        .where(CHUNK.c.state == LEASED, CHUNK.c.lease_until < until)
        .with_for_update(skip_locked=True)
    ).all()
    crashed = [{"key": (job << ROW_BITS) + row} for job, _, under_way in left for row in json.loads(under_way)]
    sql.execute_many(_PUT_STRIKE, crashed)
    for job, n, _ in left:
        sql.execute(
            update(CHUNK)
            .where(CHUNK.c.job == job, CHUNK.c.n == n)
            .values(state=FREE, deaths=CHUNK.c.deaths + 1, under_way="[]")
        )
    for number in sql.execute(select(SUBMISSION.c.job).where(SUBMISSION.c.until < until)).scalars().all():
        abandon_submission(sql, number)


def abandon_submission(sql: Transaction, number: int) -> None:
    """Leave the rows of a submission to `sweep`, unless it is over."""
    if sql.execute(delete(SUBMISSION).where(SUBMISSION.c.job == number)).rowcount:
        sql.execute(delete(CHUNK).where(CHUNK.c.job == number))
        sql.execute(insert(GARBAGE).values(job=number))


def lease_chunk(sql: Transaction, seconds: float) -> Lease | None:
    """Lease a free chunk of the job with the fewest leased chunks, the oldest of those."""
    found = sql.execute(_NEXT_JOB).one_or_none()
    if found is None:
        return None
    number, state, max_cost = found
    # A transaction that may change the job locks it; those that only work on it do not wait for one another.
    is_changing = state == JobState.QUEUED or max_cost is not None
    job = sql.execute(_OPEN_JOB.with_for_update(read=not is_changing), {"number": number}).one_or_none()
    if job is None or (job.state == JobState.QUEUED and not is_changing):
        return None
    if max_cost is not None and is_spent(max_cost, counts_of(sql, number)):
        problem = CodedText("job_spent_or_unpriced", cost=max_cost)
        enter_state(sql, number, JobState.PAUSED, problem)
        return None
    taken = sql.execute(_TAKE, {"number": number, "until": sql.now + seconds}).one_or_none()
    if taken is None:
        return None
    if job.state == JobState.QUEUED:
        enter_state(sql, number, JobState.RUNNING)
    return Lease(job.id, job.tenant, job.options, taken.n, taken.fence, taken.deaths)


def renew_lease(sql: Transaction, lease: Lease, seconds: float) -> LeaseStatus:
    chunk = check_lease(sql, lease, is_locked=False)
    if chunk.status is not LeaseStatus.LOST:
        sql.execute(_RENEW, {**_place(chunk.number, lease), "until": sql.now + seconds})
    return chunk.status


def check_lease(sql: Transaction, lease: Lease, *, is_locked: bool = True, may_end_job: bool = False) -> LeasedChunk:
    """Return the chunk of a lease, locked until the transaction ends; `may_end_job` locks its job, too."""
    job_query, chunk_query = _JOB_OF, _OWNED
    if is_locked:
        job_query, chunk_query = job_query.with_for_update(read=not may_end_job), chunk_query.with_for_update()
    job = sql.execute(job_query, {"job_id": lease.job_id}).one_or_none()
    if job is None or JobState(job.state).is_ended:
        return LeasedChunk(LeaseStatus.LOST)
    chunk = sql.execute(chunk_query, _place(job.number, lease)).one_or_none()
    if chunk is None:
        return LeasedChunk(LeaseStatus.LOST)
    status = LeaseStatus.PAUSED if job.state == JobState.PAUSED else LeaseStatus.VALID
    return LeasedChunk(status, job.number, chunk.first_row, chunk.rows, frozenset(json.loads(chunk.under_way)))


def rows_left(sql: Transaction, lease: Lease) -> tuple[set[int], dict[int, int], bytes | None] | None:
    """Return the finished rows of the chunk, crashes by row, and its encoded rows; None if the lease is lost."""
    chunk = check_lease(sql, lease, is_locked=False)
    if chunk.status is LeaseStatus.LOST:
        return None
    base = chunk.number << ROW_BITS
    low, high = base + chunk.first_row, base + chunk.first_row + chunk.rows
    done = sql.execute(select(RESULT.c.key).where(RESULT.c.key >= low, RESULT.c.key < high, RESULT.c.redo == 0))
    crashes = sql.execute(select(STRIKE.c.key, STRIKE.c.deaths).where(STRIKE.c.key >= low, STRIKE.c.key < high))
    return (
        {key - base for key in done.scalars()},
        {key - base: count for key, count in crashes},
        read_chunk(sql, chunk.number, lease.chunk),
    )


def put_results(sql: Transaction, lease: Lease, chunk: LeasedChunk, rows: Sequence[ScoredRow]) -> None:
    """Store results; a row that has one keeps it, unless it is to be scored again."""
    base = chunk.number << ROW_BITS
    results: list[dict[str, Any]] = [
        {
            "key": base + row.row,
            "status": row.status.value,
            "tier": row.tier,
            "degraded": int(row.is_degraded),
            "passed": None if row.passed is None else int(row.passed),
            **{name: getattr(row.usage, name) for name in (*USED, "cost")},
            "line": row.line,
        }
        for row in rows
    ]
    sql.execute_many(_PUT_RESULT, results)
    set_in_flight(sql, lease, chunk, chunk.under_way - {row.row for row in rows})


def finish_chunk(sql: Transaction, lease: Lease, chunk: LeasedChunk) -> None:
    """Mark the chunk done and store its sums; the last one of a job ends it."""
    number = chunk.number
    low = (number << ROW_BITS) + chunk.first_row
    sums = sql.execute(select(*SUMS_OF_RESULTS).where(RESULT.c.key >= low, RESULT.c.key < low + chunk.rows)).one()
    counts = dict(zip(COUNT_COLUMNS, sums, strict=True))
    sql.execute(
        update(CHUNK).where(CHUNK.c.job == number, CHUNK.c.n == lease.chunk).values(state=DONE, counted=1, **counts)
    )
    if sql.execute(select(CHUNK.c.n).where(CHUNK.c.job == number, CHUNK.c.state != DONE).limit(1)).first() is None:
        job = read_job(sql, number)
        by_status = job.counts.by_status
        is_clean = not (by_status["invalid"] or by_status["failed"] or by_status["not_judged"] or job.problem)
        enter_state(sql, number, JobState.COMPLETED if is_clean else JobState.COMPLETED_WITH_ERRORS)


def release_chunk(sql: Transaction, lease: Lease) -> None:
    number = sql.execute(_JOB_OF, {"job_id": lease.job_id}).scalar()
    if number is not None:
        sql.execute(_RELEASE, _place(number, lease))


def find_lines(sql: Transaction, number: int, after: int, limit: int, where: RowFilter) -> list[ResultLine]:
    """Return lines behind row `after` that the filter wants."""
    base = number << ROW_BITS
    query = select(RESULT.c.key, RESULT.c.line).where(is_of_job(RESULT.c.key, number), RESULT.c.key > base + after)
    if where.passed == "unsure":
        query = query.where(RESULT.c.status == RowStatus.JUDGED.value, RESULT.c.passed.is_(None))
    passed = int(where.passed) if isinstance(where.passed, bool) else None
    for column, value in ((RESULT.c.status, where.status), (RESULT.c.tier, where.tier), (RESULT.c.passed, passed)):
        if value is not None:
            query = query.where(column == value)
    return [ResultLine(key - base, line) for key, line in sql.execute(query.order_by(RESULT.c.key).limit(limit))]


def read_lines(sql: Transaction, number: int, rows: Sequence[int]) -> list[ResultLine]:
    base = number << ROW_BITS
    query = select(RESULT.c.key, RESULT.c.line).where(RESULT.c.key.in_([base + row for row in rows]))
    return [ResultLine(key - base, line) for key, line in sql.execute(query.order_by(RESULT.c.key))]


def chunks_between(sql: Transaction, number: int, first: int, last: int) -> list[int]:
    """Return the numbers of the chunks with the rows from `first` to `last`, in order."""
    is_in = and_(CHUNK.c.first_row <= last, CHUNK.c.first_row + CHUNK.c.rows > first)
    return [*sql.execute(select(CHUNK.c.n).where(CHUNK.c.job == number, is_in).order_by(CHUNK.c.n)).scalars()]


def read_chunk(sql: Transaction, number: int, n: int) -> bytes | None:
    """Return the encoded rows of a chunk; None if they are lost."""
    return sql.execute(
        select(CHUNK_ROWS.c.data).where(CHUNK_ROWS.c.job == number, CHUNK_ROWS.c.n == n)
    ).scalar_one_or_none()


def sweep(sql: Transaction) -> bool:
    """Delete some of the rows and results of a deleted job; return True if there may be more."""
    number = sql.execute(select(GARBAGE.c.job).limit(1).with_for_update(skip_locked=True)).scalar()
    if number is None:
        return False
    sql.execute(delete(STRIKE).where(is_of_job(STRIKE.c.key, number)))
    results = select(RESULT.c.key).where(is_of_job(RESULT.c.key, number)).limit(_SWEPT_RESULTS)
    chunks = select(CHUNK_ROWS.c.n).where(CHUNK_ROWS.c.job == number).limit(_SWEPT_CHUNKS)
    swept = (
        sql.execute(delete(RESULT).where(RESULT.c.key.in_(results))).rowcount,
        sql.execute(delete(CHUNK_ROWS).where(CHUNK_ROWS.c.job == number, CHUNK_ROWS.c.n.in_(chunks))).rowcount,
    )
    if swept[0] < _SWEPT_RESULTS and swept[1] < _SWEPT_CHUNKS:
        sql.execute(delete(GARBAGE).where(GARBAGE.c.job == number))
    return True


def set_in_flight(sql: Transaction, lease: Lease, chunk: LeasedChunk, rows: Iterable[int]) -> None:
    sql.execute(_SET_IN_FLIGHT, {**_place(chunk.number, lease), "rows_in_flight": json.dumps(sorted(rows))})


def _place(number: int, lease: Lease) -> dict[str, int]:
    return {"number": number, "at": lease.chunk, "by_fence": lease.fence}
