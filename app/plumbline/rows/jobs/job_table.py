"""Statements on jobs, their counts and their labels; each function runs within one transaction."""

import json
from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
import structlog

from plumbline.ground.errors import IdempotencyConflict, JobStateConflict, JobUnknown, StoreUnavailable
from plumbline.ground.store.database import Transaction
from plumbline.ground.store.tables import (
    CHUNK,
    COUNT_COLUMNS,
    FREE,
    GARBAGE,
    IS_OPEN,
    JOB,
    LABEL,
    LEASED,
    RESULT,
    ROW_BITS,
    STRIKE,
)
from plumbline.ground.texts import CodedText, load_stored_text, store_text
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
    RetryChoice,
)
from plumbline.rows.jobs.labels import Label
from plumbline.rows.scored_row import RowStatus

_STATUSES: Final = tuple(status.value for status in RowStatus)
_TIERS: Final = ("llm", "detector", "embedding", "lexical")
USED: Final = ("calls", "unmetered_calls", "prompt_tokens", "completion_tokens", "cached_tokens")

# What each count of a chunk adds up over its results.
_COUNTED: Final[Mapping[str, Any]] = {
    **{name: sa.case((RESULT.c.status == name, 1), else_=0) for name in _STATUSES},
    **{name: sa.case((RESULT.c.tier == name, 1), else_=0) for name in _TIERS},
    "degraded": RESULT.c.degraded,
    "passed": sa.case((RESULT.c.passed == 1, 1), else_=0),
    "not_passed": sa.case((RESULT.c.passed == 0, 1), else_=0),
    **{name: RESULT.c[name] for name in USED},
    "cost": sa.func.coalesce(RESULT.c.cost, 0),
    "unpriced": sa.case((RESULT.c.cost.is_(None), 1), else_=0),
}
SUMS_OF_RESULTS: Final = [sa.func.coalesce(sa.func.sum(_COUNTED[name]), 0).label(name) for name in COUNT_COLUMNS]
_BASE: Final = sa.bindparam("base", type_=sa.BigInteger)
# Stored sums of finished chunks, and the results of chunks that are not finished.
_FINISHED_COUNTS: Final = sa.select(*(sa.func.coalesce(sa.func.sum(CHUNK.c[name]), 0) for name in COUNT_COLUMNS)).where(
    CHUNK.c.job == sa.bindparam("number"), CHUNK.c.counted == 1
)
_OPEN_COUNTS: Final = (
    sa.select(*SUMS_OF_RESULTS)
    .select_from(CHUNK)
    .join(
        RESULT,
        sa.and_(
            RESULT.c.key >= _BASE + CHUNK.c.first_row,
            RESULT.c.key < _BASE + CHUNK.c.first_row + CHUNK.c.rows,
        ),
    )
    # As the index has it.
    .where(CHUNK.c.job == sa.bindparam("number"), sa.text("chunk.counted = 0 AND chunk.fence > 0"))
)
_JOB: Final = sa.select(
    *(JOB.c[name] for name in ("id", "tenant", "name", "options", "max_cost", "state", "total")),
    *(JOB.c[name] for name in ("created", "started", "ended", "versions")),
    sa.func.coalesce(JOB.c.problem, JOB.c.damage).label("problem"),
    JOB.c.number,
)
_BY_NUMBER: Final = _JOB.where(JOB.c.number == sa.bindparam("number"))
_IS_KNOWN: Final = JOB.c.state.in_([state.value for state in JobState])
_PUT_LABEL: Final = sa.text(
    "INSERT INTO label (job, row_n, person, label, sentences, at, note) VALUES (:job, :row_n, :person, :label,"
    " :sentences, :at, :note) ON CONFLICT (job, row_n, person) DO UPDATE"
    " SET label = excluded.label, sentences = excluded.sentences, at = excluded.at, note = excluded.note"
)


def find_repeated(sql: Transaction, new: NewJob) -> Job | None:
    """Return the job with the same idempotency key; raise IdempotencyConflict if its request was another."""
    if new.idempotency_key is None:
        return None
    found = sql.execute(
        sa.select(JOB.c.number, JOB.c.fingerprint).where(
            JOB.c.tenant == new.tenant, JOB.c.idempotency_key == new.idempotency_key
        )
    ).one_or_none()
    if found is None:
        return None
    if found.fingerprint != new.fingerprint:
        raise IdempotencyConflict(CodedText("idempotency_key_reused"))
    return read_job(sql, found.number)


def insert_job(sql: Transaction, number: int, job_id: str, new: NewJob, *, total: int, damage: str | None) -> None:
    """Insert a job whose rows are there; one without any is failed."""
    state = JobState.QUEUED if total else JobState.FAILED
    problem = None if total else damage or CodedText("file_without_rows")
    sql.execute(
        sa.insert(JOB).values(
            number=number,
            id=job_id,
            tenant=new.tenant,
            name=new.name,
            options=new.options,
            max_cost=new.max_cost,
            state=state.value,
            total=total or None,
            created=sql.now,
            ended=None if total else sql.now,
            problem=problem and store_text(problem),
            damage=damage and store_text(damage),
            idempotency_key=new.idempotency_key,
            fingerprint=new.fingerprint,
            versions=new.versions,
        )
    )


def number_of(sql: Transaction, tenant: str, job_id: str, *, is_locked: bool = False) -> int:
    """Return the number of the tenant's job; `is_locked`: until the transaction ends. Raises JobUnknown."""
    query: sa.Select[int] = sa.select(JOB.c.number).where(JOB.c.id == job_id, JOB.c.tenant == tenant)
    number = sql.execute(query.with_for_update() if is_locked else query).scalar_one_or_none()
    if number is None:
        raise JobUnknown(CodedText("job_unknown"))
    return int(number)


def read_job(sql: Transaction, number: int) -> Job:
    return _job(sql, sql.execute(_BY_NUMBER, {"number": number}).one())


def newest_jobs(sql: Transaction, tenant: str, before: str | None, limit: int, name: str | None) -> list[Job]:
    """Return the tenant's jobs older than `before`, newest first; those in an unknown state are logged."""
    is_tenants = JOB.c.tenant == tenant
    query = _JOB.where(is_tenants, _IS_KNOWN).order_by(JOB.c.number.desc()).limit(limit)
    if before is not None:
        query = query.where(JOB.c.number < number_of(sql, tenant, before))
    if name is not None:
        query = query.where(JOB.c.name == name)
    unknown = sql.execute(sa.select(JOB.c.id, JOB.c.state).where(is_tenants, ~_IS_KNOWN)).all()
    if unknown:
        structlog.get_logger().warning(
            "jobs_of_unknown_state", jobs=[f"{job_id} {state}" for job_id, state in unknown[:5]]
        )
    return [_job(sql, row) for row in sql.execute(query).all()]


def act_on(sql: Transaction, number: int, action: Action) -> Job:
    """Apply an action; idempotent. Raises JobStateConflict."""
    job = read_job(sql, number)
    targets = TRANSITIONS[action]
    if job.state in ALREADY[action]:
        return job
    if job.state not in targets:
        done = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}[action]
        raise JobStateConflict(CodedText("job_cannot", state=job.state.value, action=done))
    if action == "resume" and job.max_cost is not None and is_spent(job.max_cost, job.counts):
        raise JobStateConflict(CodedText("max_cost_spent", cost=job.max_cost))
    enter_state(sql, number, targets[job.state])
    return read_job(sql, number)


def enter_state(sql: Transaction, number: int, state: JobState, problem: str | None = None) -> None:
    started = sa.func.coalesce(JOB.c.started, sql.now) if state is JobState.RUNNING else JOB.c.started
    ended = sql.now if state.is_ended else None
    changed = {"state": state.value, "problem": problem and store_text(problem), "started": started, "ended": ended}
    sql.execute(sa.update(JOB).where(JOB.c.number == number).values(**changed))


def retry_rows(sql: Transaction, number: int, choice: RetryChoice) -> Job:
    """Queue the chosen rows again with their chunks. Raises JobStateConflict."""
    job = read_job(sql, number)
    if job.state not in RETRIABLE:
        raise JobStateConflict(CodedText("job_cannot_retry", state=job.state.value))
    base = number << ROW_BITS
    is_chosen = {
        "failed": sa.or_(RESULT.c.status == RowStatus.FAILED.value, RESULT.c.status == RowStatus.NOT_JUDGED.value),
        "degraded": RESULT.c.degraded == 1,
    }[choice]
    marked = sql.execute(sa.update(RESULT).where(is_of_job(RESULT.c.key, number), is_chosen).values(redo=1)).rowcount
    sql.execute(sa.delete(STRIKE).where(is_of_job(STRIKE.c.key, number)))
    if not marked:
        raise JobStateConflict(CodedText("nothing_to_retry", state=choice))
    has_marked = sa.exists().where(
        RESULT.c.key >= base + CHUNK.c.first_row,
        RESULT.c.key < base + CHUNK.c.first_row + CHUNK.c.rows,
        RESULT.c.redo == 1,
    )
    sql.execute(sa.update(CHUNK).where(CHUNK.c.job == number, has_marked).values(state=FREE, deaths=0))
    enter_state(sql, number, JobState.QUEUED)
    return read_job(sql, number)


def delete_job(sql: Transaction, number: int) -> None:
    """Delete the job at once; `sweep` deletes its rows and results in batches, since there may be millions."""
    sql.execute(sa.delete(JOB).where(JOB.c.number == number))
    for table in (CHUNK, LABEL):
        sql.execute(sa.delete(table).where(table.c.job == number))
    sql.execute(sa.insert(GARBAGE).values(job=number))


def counts_of(sql: Transaction, number: int) -> JobCounts:
    """Return the counts: stored sums of finished chunks, plus the results of unfinished ones."""
    finished = sql.execute(_FINISHED_COUNTS, {"number": number}).one()
    unfinished = sql.execute(_OPEN_COUNTS, {"number": number, "base": number << ROW_BITS}).one()
    of = dict(zip(COUNT_COLUMNS, map(sum, zip(finished, unfinished, strict=True)), strict=True))
    return JobCounts(
        by_status={name: int(of[name]) for name in _STATUSES},
        by_tier={name: int(of[name]) for name in _TIERS},
        degraded=int(of["degraded"]),
        passed=int(of["passed"]),
        not_passed=int(of["not_passed"]),
        usage=Usage(
            **{name: int(of[name]) for name in USED},
            cost=None if of["unpriced"] else float(of["cost"]),
        ),
    )


def is_spent(max_cost: float, counts: JobCounts) -> bool:
    """Return True if a job may spend no more; an unknown price counts as spent."""
    cost = counts.usage.cost
    return cost is None or cost >= max_cost


def is_of_job(key: Any, number: int) -> Any:
    return sa.and_(key >= number << ROW_BITS, key < (number + 1) << ROW_BITS)


def count_jobs(sql: Transaction) -> JobStats:
    """Return jobs and chunks by state; reads chunks only through the partial indices of free and leased ones."""
    states = sql.execute(sa.select(JOB.c.state, sa.func.count()).group_by(JOB.c.state)).all()
    found = {state: int(count) for state, count in states}
    waiting = sql.execute(
        sa.select(sa.func.count())
        .select_from(JOB)
        .join(CHUNK, sa.and_(CHUNK.c.job == JOB.c.number, CHUNK.c.state == FREE))
        .where(IS_OPEN)
    ).scalar_one()
    leased = sql.execute(sa.select(sa.func.count()).select_from(CHUNK).where(CHUNK.c.state == LEASED)).scalar_one()
    return JobStats({state: found.get(state.value, 0) for state in JobState}, waiting, leased)


def put_label(sql: Transaction, number: int, label: Label) -> None:
    values = {"person": label.person, "label": label.label, "note": label.note}
    values["sentences"] = json.dumps(label.sentences)
    sql.execute(_PUT_LABEL, {"job": number, "row_n": label.row, "at": sql.now, **values})


def drop_label(sql: Transaction, number: int, row: int, person: str) -> None:
    sql.execute(sa.delete(LABEL).where(LABEL.c.job == number, LABEL.c.row_n == row, LABEL.c.person == person))


def labels_of(sql: Transaction, number: int, person: str | None) -> list[Label]:
    query = sa.select(LABEL.c.row_n, LABEL.c.person, LABEL.c.label, LABEL.c.sentences, LABEL.c.at, LABEL.c.note)
    query = query.where(LABEL.c.job == number).order_by(LABEL.c.at, LABEL.c.row_n)
    if person is not None:
        query = query.where(LABEL.c.person == person)
    return [
        Label(row, who, label, tuple(json.loads(sentences)), at, note)
        for row, who, label, sentences, at, note in sql.execute(query)
    ]


def count_labels(sql: Transaction, tenant: str) -> dict[str, int]:
    """Return the number of labels of each labelled job, skipped rows left out."""
    counted = sa.select(JOB.c.id, sa.func.count(LABEL.c.label)).join(LABEL, LABEL.c.job == JOB.c.number)
    return dict(sql.execute(counted.where(JOB.c.tenant == tenant).group_by(JOB.c.id)).tuples().all())


def _job(sql: Transaction, row: sa.Row[*tuple[Any, ...]]) -> Job:
    fields = dict(row._mapping)
    counts = counts_of(sql, fields.pop("number"))
    if problem := fields.pop("problem"):
        problem = load_stored_text(problem)
    try:
        state = JobState(fields.pop("state"))
    except ValueError as error:
        raise StoreUnavailable(CodedText("job_of_other_version", detail=str(error))) from error
    return Job(**fields, problem=problem, state=state, counts=counts)
