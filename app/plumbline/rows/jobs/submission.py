"""Submission of a job: its rows are written in groups, and become those of a job with the last statement.

So no transaction is long. Until then they belong to the submission, and to the sweep once nothing more is added.
"""

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import delete, insert, update

from plumbline.ground.errors import StoreUnavailable
from plumbline.ground.store.database import Transaction
from plumbline.ground.store.tables import CHUNK, CHUNK_ROWS, SUBMISSION
from plumbline.ground.texts import CodedText
from plumbline.rows.jobs import chunk_table, job_table
from plumbline.rows.jobs.job import Job, NewJob
from plumbline.rows.jobs.row_chunks import RowChunk, pack
from plumbline.rows.records.columns import NONE_NAMED, NamedColumns

# Bounds of a group of chunks that are written together, and so of a submission's memory and of its transactions.
_GROUP_CHUNKS, _GROUP_BYTES = 100, 8 * 1024 * 1024
# A submission to which nothing is added for so long is taken for one whose process has ended.
_SUBMISSION_SECONDS: Final = 60.0


class Upload(NamedTuple):
    """Uploaded rows in a file that the store takes over; `form`, `columns` and `named` as of `RecordReader`."""

    path: Path
    form: str
    columns: str | None = None
    named: NamedColumns = NONE_NAMED


class Submission(NamedTuple):
    """An accepted job; `is_new` is False if it was submitted before under the same idempotency key."""

    job: Job
    is_new: bool


class Written(NamedTuple):
    """A submission under way and what it has written; `damage`: why nothing behind these rows can be read."""

    number: int
    rows: int = 0
    chunks: int = 0
    damage: str | None = None


def group_chunks(chunks: Iterator[RowChunk]) -> Generator[list[RowChunk]]:
    """Yield packed chunks in groups, each for one transaction."""
    group: list[RowChunk] = []
    size = 0
    for chunk in chunks:
        group.append(chunk._replace(data=pack(chunk.data)))
        size += len(chunk.data)
        if len(group) == _GROUP_CHUNKS or size >= _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def begin_submission(sql: Transaction, new: NewJob) -> Job | Written:
    """Return the job that was submitted before under the same key, or else a new submission."""
    known = job_table.find_repeated(sql, new)
    if known is not None:
        return known
    values = {"until": sql.now + _SUBMISSION_SECONDS}
    return Written(sql.execute(insert(SUBMISSION).values(values).returning(SUBMISSION.c.job)).scalar_one())


def _extend_submission(sql: Transaction, number: int) -> None:
    until = sql.now + _SUBMISSION_SECONDS
    if not sql.execute(update(SUBMISSION).where(SUBMISSION.c.job == number).values(until=until)).rowcount:
        raise StoreUnavailable(CodedText("submission_lost"))


def add_rows(sql: Transaction, *, before: Written, group: Sequence[RowChunk]) -> Written:
    _extend_submission(sql, before.number)
    number, rows, n = before.number, before.rows, before.chunks
    chunks: list[dict[str, int]] = []
    data: list[dict[str, Any]] = []
    for each in group:
        # Damage behind a full chunk comes as an empty chunk.
        if each.rows:
            chunks.append({"job": number, "n": n, "first_row": rows, "rows": each.rows})
            data.append({"job": number, "n": n, "data": each.data})
            rows, n = rows + each.rows, n + 1
    sql.execute_many(insert(CHUNK), chunks)
    sql.execute_many(insert(CHUNK_ROWS), data)
    return before._replace(rows=rows, chunks=n, damage=group[-1].damage)


def finish_submission(sql: Transaction, job_id: str, new: NewJob, written: Written) -> Submission:
    _extend_submission(sql, written.number)
    known = job_table.find_repeated(sql, new)
    if known is not None:
        # A concurrent request with the same key was committed while this one was read.
        chunk_table.abandon_submission(sql, written.number)
        return Submission(known, is_new=False)
    sql.execute(delete(SUBMISSION).where(SUBMISSION.c.job == written.number))
    job_table.insert_job(sql, written.number, job_id, new, total=written.rows, damage=written.damage)
    return Submission(job_table.read_job(sql, written.number), is_new=True)
