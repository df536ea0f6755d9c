"""The store of jobs that routes are tested with: the one that a service has unless it is told otherwise."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from plumbline.rows.jobs.store import JobStore
from tests.running.service import plain_settings, running


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[JobStore]:
    store = JobStore.in_folder(tmp_path / "jobs")
    yield store
    await store.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_client() -> AsyncIterator[httpx2.AsyncClient]:
    """A client of one service without a judge, for modules whose tests leave nothing in it.

    They run in one loop: `pytestmark = pytest.mark.asyncio(loop_scope="module")`.
    """
    async with running(plain_settings()) as client:
        yield client
