"""Job store for several machines on PostgreSQL: workers poll it for chunks, and rescue those of dead processes."""

import asyncio
import secrets
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import psycopg
import structlog

from plumbline.ground.errors import InvalidInput, StoreUnavailable
from plumbline.ground.telemetry import log_failure
from plumbline.judging.ports.observation import Readiness, State
from plumbline.rows.jobs.chunk_table import ChunkTable, sweep
from plumbline.rows.jobs.job import Held, JobState, Lease, NewJob
from plumbline.rows.jobs.job_table import JobTable
from plumbline.rows.jobs.owner_files import Owners, Uploads
from plumbline.rows.jobs.postgres_database import (
    OwnerSession,
    PostgresDatabase,
    PostgresSql,
    living_owners,
    unavailable,
)
from plumbline.rows.jobs.postgres_schema import LOCK_CLASS
from plumbline.rows.jobs.row_file import RowChunk, chunked_rows
from plumbline.rows.jobs.sql import Sql
from plumbline.rows.jobs.store import SWEPT_AT_ONCE, JobStore, Submission, Upload

# Bounds of a group of chunks that are written together, and so of the memory that a submission takes.
_WRITTEN_CHUNKS, _WRITTEN_BYTES = 200, 8 * 1024 * 1024
# An owner whose connection is gone may be reconnecting, and renews its leases meanwhile.
_GRACE_SECONDS: Final = 2.5
_RESCUE_SECONDS: Final = 1.0


class PostgresJobStore(JobStore):
    """`JobStore` on PostgreSQL.

    A job is committed together with its rows, so that it is `queued` at once. They come from a file on this machine.

    Args:
        conninfo: as `connection_string` makes it, with the same `schema`.
        uploads: folder for uploads in progress.
        lease_seconds: an owner that does not renew for this long loses its chunk; a killed one loses it after
            `grace_seconds`.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        schema: str,
        uploads: Path,
        lease_seconds: float = 30.0,
        grace_seconds: float = _GRACE_SECONDS,
    ) -> None:
        self._postgres = PostgresDatabase(conninfo, schema=schema)
        super().__init__(self._postgres, lease_seconds=lease_seconds)
        self._schema = schema
        self._owners = Owners(uploads / "owners")
        self._uploads = Uploads(uploads / "uploads", self._owners)
        self._session = OwnerSession(conninfo)
        self._grace_seconds = grace_seconds

    # --- for callers of the API

    def new_upload(self) -> Path:
        try:
            return self._uploads.new()
        except OSError as error:
            raise StoreUnavailable("the folder PLUMBLINE_DATA_DIR, for uploads, cannot be written") from error

    async def submit(self, new: NewJob, upload: Upload) -> Submission:
        """Store a job durably; the rows are read before it returns."""
        job_id = f"job_{secrets.token_hex(12)}"
        try:
            submission = await self._postgres.write_long(lambda sql: self._submitted(sql, new, upload, job_id))
        finally:
            await asyncio.to_thread(upload.path.unlink, missing_ok=True)
        self._on_change()
        return submission

    async def delete(self, tenant: str, job_id: str) -> None:
        await self._write_job(tenant, job_id, _deleted)

    # --- for workers

    def owner(self) -> str:
        return self._session.name

    async def lease(self, owner: str) -> Lease | None:
        await self._hold_session()
        return await self._database.write(lambda sql: ChunkTable(sql).lease(owner, self._lease_seconds))

    async def validate(self, lease: Lease) -> Held:
        """Do nothing: the upload was read by `submit`."""
        return Held.LOST

    def _chunk_place(self, sql: Sql, number: int, n: int) -> bytes:
        (data,) = sql.execute("SELECT data FROM chunk_rows WHERE job = ? AND n = ?", (number, n)).fetchone()
        return bytes(data)

    async def _chunk_data(self, place: bytes) -> bytes:
        return zlib.decompress(place)

    async def rescue(self) -> None:
        """Free the chunks of dead owners, and remove uploads that no process needs.

        Call it about once a second in every process; one of them does it, the others return at once.
        """
        await self._hold_session(is_checked=True)
        # After a failure of the server owners are about to reconnect, as this process has just done.
        is_calm = self._session.seconds >= self._grace_seconds
        await self._database.write(lambda sql: self._rescue(sql, is_calm=is_calm))
        await asyncio.to_thread(lambda: self._uploads.remove(self._uploads.orphans()))

    def readiness(self) -> Readiness:
        if not self._session.seconds:
            return Readiness(State.UNAVAILABLE, "the PostgreSQL database of jobs cannot be reached")
        return Readiness(State.READY, f"jobs are kept in the schema {self._schema} of a PostgreSQL database")

    async def close(self) -> None:
        await self._postgres.close()
        await asyncio.to_thread(self._session.close)
        await asyncio.to_thread(self._owners.close)

    def _submitted(self, sql: PostgresSql, new: NewJob, upload: Upload, job_id: str) -> Submission:
        jobs = JobTable(sql)
        known = jobs.repeated(new)
        if known is not None:
            return Submission(known, is_new=False)
        try:
            with sql.connection.transaction():
                number = jobs.insert(new, job_id, JobState.QUEUED)
        except psycopg.errors.UniqueViolation:
            # A concurrent request with the same key was committed while this one waited.
            known = jobs.repeated(new)
            if known is None:
                raise StoreUnavailable("the job of this Idempotency-Key was just deleted; try again") from None
            return Submission(known, is_new=False)
        _fill(sql, number, upload)
        return Submission(jobs.by_number(number), is_new=True)

    async def _hold_session(self, *, is_checked: bool = False) -> None:
        try:
            await asyncio.to_thread(self._session.hold, is_checked=is_checked)
        except psycopg.Error as error:
            raise unavailable(error) from error

    def _rescue(self, sql: Sql, *, is_calm: bool) -> None:
        lock = "SELECT pg_try_advisory_xact_lock(?, hashtext(?))"
        if sql.execute(lock, (LOCK_CLASS + 1, self._schema)).fetchone() != (True,):
            return
        chunks = ChunkTable(sql)
        owners = chunks.owners()
        dead = sorted(set(owners) - living_owners(sql)) if owners and is_calm else []
        quiet_since = sql.now() + self._lease_seconds - self._grace_seconds
        chunks.take_back(dead, quiet_since=quiet_since)
        sweep(sql, SWEPT_AT_ONCE)


def _fill(sql: PostgresSql, number: int, upload: Upload) -> None:
    """Write the rows of a new job; fail it if the file has no readable row."""
    total, damage = 0, None
    try:
        with sql.connection.transaction():
            for group in _groups(chunked_rows(upload.path, form=upload.form, columns=upload.columns)):
                ChunkTable(sql).add(number, [(each.n, each.first_row, each.chunk.rows) for each in group])
                sql.execute_many(
                    "INSERT INTO chunk_rows (job, n, data) VALUES (?, ?, ?)",
                    ((number, each.n, zlib.compress(each.chunk.data, 1)) for each in group),
                )
                last = group[-1]
                total, damage = last.first_row + last.chunk.rows, last.chunk.damage
    except InvalidInput as error:
        total, damage = 0, error.detail
    # Damage behind a full chunk comes as an empty chunk.
    sql.execute("DELETE FROM chunk WHERE job = ? AND rows = 0", (number,))
    sql.execute("UPDATE job SET total = ?, damage = ? WHERE number = ?", (total or None, damage, number))
    if not total:
        JobTable(sql).enter(number, JobState.FAILED, damage or "the file has no row")


class _Placed(NamedTuple):
    """Chunk with its place in its job and its first row."""

    n: int
    first_row: int
    chunk: RowChunk


def _groups(chunks: Iterator[RowChunk]) -> Iterator[list[_Placed]]:
    group: list[_Placed] = []
    row = size = 0
    for n, chunk in enumerate(chunks):
        group.append(_Placed(n, row, chunk))
        row += chunk.rows
        size += len(chunk.data)
        if len(group) == _WRITTEN_CHUNKS or size >= _WRITTEN_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _deleted(sql: Sql, number: int) -> None:
    JobTable(sql).delete(number)
    sql.execute("DELETE FROM chunk_rows WHERE job = ?", (number,))


async def keep_rescuing(store: PostgresJobStore) -> None:
    """Call `rescue` about once a second until cancelled."""
    while True:
        try:
            await store.rescue()
        except StoreUnavailable as error:
            structlog.get_logger().debug("rescue_waits_for_store", detail=str(error))
        except Exception as error:
            log_failure(error, "rescue_failed")
        await asyncio.sleep(_RESCUE_SECONDS)
