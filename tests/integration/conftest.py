"""What tests of jobs in a real store begin with."""

from collections.abc import AsyncIterator

import pytest

from plumbline.rows.jobs.store import JobStore
from tests.running.job_stores import Stores


@pytest.fixture
async def store(stores: Stores) -> AsyncIterator[JobStore]:
    store = stores.open()
    yield store
    await store.close()
