"""The store of jobs that routes are tested with: the one that a service has unless it is told otherwise."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from plumbline.rows.jobs.store import JobStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[JobStore]:
    store = JobStore.in_folder(tmp_path / "jobs")
    yield store
    await store.close()
