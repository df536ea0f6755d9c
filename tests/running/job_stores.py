"""Every store of jobs there is, opened and aged in one way, so that one suite says what all of them promise."""

import importlib.util
import secrets
from pathlib import Path
from typing import Protocol

import pytest
from sqlalchemy import update

from plumbline.ground.store.tables import CHUNK, SUBMISSION
from plumbline.rows.jobs.store import JobStore
from tests.running.postgres_server import binaries


def require_postgres() -> None:
    """Skips a test where there is no PostgreSQL to run it on."""
    if binaries() is None:
        pytest.skip("no PostgreSQL server is installed (Debian: apt install postgresql)")
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("the extra postgres is not installed")


class Stores(Protocol):
    """Opens stores that share one place."""

    def open(self) -> JobStore:
        """One more store in the place, as another process would have it."""

    async def aged(self, store: JobStore, seconds: float) -> None:
        """So much time has passed for leases, and somebody has looked at them."""


class SqliteStores:
    """In a folder, with a clock that is set by hand."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._now = 1_000_000.0

    def open(self) -> JobStore:
        return JobStore.in_folder(self._folder, clock=lambda: self._now)

    async def aged(self, store: JobStore, seconds: float) -> None:
        self._now += seconds
        await store.rescue()


class PostgresStores:
    """In a schema of its own; leases are put back in place of a clock, which is the server's."""

    def __init__(self, url: str, folder: Path, *, schema: str | None = None, lease_seconds: float = 10.0) -> None:
        self.url = url
        self.schema = schema or f"test_{secrets.token_hex(6)}"
        self._folder = folder
        self._lease_seconds = lease_seconds

    def open(self) -> JobStore:
        return JobStore.on_postgres(self.url, self._folder, schema=self.schema, lease_seconds=self._lease_seconds)

    async def aged(self, store: JobStore, seconds: float) -> None:
        earlier = [
            update(table).values({column: table.c[column] - seconds})
            for table, column in ((CHUNK, "lease_until"), (SUBMISSION, "until"))
        ]
        await store._database.write(lambda sql: sum(sql.execute(each).rowcount for each in earlier))
        await store.rescue()
