"""What an orchestrator asks: liveness hangs on nothing, readiness on what is loaded, neither on what is elsewhere."""

from pathlib import Path

import pytest

from plumbline.judging.ports.observation import State
from tests.doubles.fakes import WordEncoder
from tests.running.job_service import JOBS_URL
from tests.running.service import plain_settings, running


@pytest.mark.parametrize("state", State)
async def test_liveness_hangs_on_no_model(state: State) -> None:
    async with running(plain_settings(), encoder=WordEncoder(state=state)) as client:
        response = await client.get("/healthz")

    assert response.status_code == 200


async def test_jobs_that_cannot_be_kept_take_nobody_out_of_service(tmp_path: Path) -> None:
    # Every replica would be taken out at once, with all that needs no jobs.
    folder = tmp_path / "data"
    folder.write_text("a file in its place")
    async with running(plain_settings(data_dir=folder)) as client:
        refused = await client.post(JOBS_URL, json={"rows": [{"contexts": ["a b"], "answer": "a b."}]})
        probes = [await client.get(path) for path in ("/healthz", "/readyz")]

    assert refused.status_code == 503
    assert [probe.status_code for probe in probes] == [200, 200]


async def test_a_database_that_is_away_takes_nobody_out_of_service(tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    settings = plain_settings(database_url="postgresql://u@127.0.0.1:1/jobs", data_dir=tmp_path)
    async with running(settings) as client:
        probes = [await client.get(path) for path in ("/healthz", "/readyz")]

    assert [probe.status_code for probe in probes] == [200, 200]
    assert probes[1].json()["jobs"] == {
        "state": "unavailable",
        "detail": "the PostgreSQL database of jobs cannot be reached",
    }
