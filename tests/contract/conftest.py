"""A client that waits for nothing, and a run of batch files."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from plumbline.client import AsyncPlumbline, Retries
from tests.doubles.scripted_service import ScriptedService
from tests.running.batch_file_runs import Run, a_run


@pytest.fixture
async def client(service: ScriptedService) -> AsyncIterator[AsyncPlumbline]:
    """The client of the module's own service."""
    async with AsyncPlumbline(service.url, retries=Retries(attempts=3, backoff_seconds=0.0)) as client:
        yield client


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    with a_run(tmp_path, monkeypatch) as each:
        yield each
