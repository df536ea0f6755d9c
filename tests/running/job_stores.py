"""Every store of jobs there is, opened and aged in one way, so that one suite says what all of them promise."""

import importlib.util
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from plumbline.ground.postgres import connection_string
from plumbline.rows.jobs.job import JobState
from plumbline.rows.jobs.sqlite_store import SqliteJobStore
from plumbline.rows.jobs.store import JobStore
from tests.running.postgres_server import binaries

if TYPE_CHECKING:
    from plumbline.rows.jobs.postgres_store import PostgresJobStore

EXTRA = all(importlib.util.find_spec(name) for name in ("psycopg", "psycopg_pool"))


def require_postgres() -> None:
    """Skips a test where there is no PostgreSQL to run it on."""
    if binaries() is None:
        pytest.skip("no PostgreSQL server is installed (Debian: apt install postgresql)")
    if not EXTRA:
        pytest.skip("the extra postgres is not installed")


class Stores(Protocol):
    """Opens stores that share one place. `first_state`: of a job that was just submitted."""

    first_state: JobState

    def open(self) -> JobStore:
        """One more store in the place, as another process would have it."""

    async def aged(self, store: JobStore, seconds: float) -> None:
        """So much time has passed for leases, and the next lease is handed out after a look at their owners."""


class SqliteStores:
    """In a folder, with a clock that is set by hand."""

    first_state = JobState.VALIDATING

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._now = 1_000_000.0

    def open(self) -> SqliteJobStore:
        return SqliteJobStore(self._folder, clock=lambda: self._now)

    async def aged(self, store: JobStore, seconds: float) -> None:
        self._now += seconds
        assert isinstance(store, SqliteJobStore)
        # A look at other owners is taken only so often.
        store._checked_at = -1e9


class PostgresStores:
    """In a schema of its own; leases are put back in place of a clock, which is the server's."""

    first_state = JobState.QUEUED

    def __init__(self, url: str, folder: Path, *, schema: str | None = None, lease_seconds: float = 30.0) -> None:
        self.url = url
        self.schema = schema or f"test_{secrets.token_hex(6)}"
        self._folder = folder
        self._lease_seconds = lease_seconds

    def open(self) -> "PostgresJobStore":
        from plumbline.rows.jobs.postgres_store import PostgresJobStore

        return PostgresJobStore(
            connection_string(self.url, schema=self.schema),
            schema=self.schema,
            uploads=self._folder,
            lease_seconds=self._lease_seconds,
            grace_seconds=0.0,
        )

    async def aged(self, store: JobStore, seconds: float) -> None:
        from plumbline.rows.jobs.postgres_store import PostgresJobStore

        assert isinstance(store, PostgresJobStore)
        await store._database.write(
            lambda sql: sql.execute("UPDATE chunk SET lease_until = lease_until - ?", (seconds,)).rowcount
        )
        await store.rescue()
