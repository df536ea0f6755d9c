"""Stores of jobs: what the routes promise holds with each."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from plumbline.rows.jobs.sqlite_store import SqliteJobStore
from plumbline.rows.jobs.store import JobStore
from tests.doubles.memory_store import MemoryStore


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[JobStore]:
    store: JobStore = MemoryStore() if request.param == "memory" else SqliteJobStore(tmp_path / "jobs")
    yield store
    await store.close()
