"""The client against the real service."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plumbline.client import AccessRefused, AsyncPlumbline, NotThere, Plumbline
from plumbline.main import create_app
from plumbline.schemas.batch import RowResult
from plumbline.schemas.report import ReportSummary
from tests.doubles.fakes import WordEncoder
from tests.running.batch_service import CONTEXT
from tests.running.service import plain_settings, served

KEY = "a-key-of-sixteen-characters"
LEXICAL = {"tiers": ["lexical"]}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    limits = {"max_batch_samples": 8, "max_batch_body_bytes": 20_000, "max_answer_characters": 500}
    settings = plain_settings(api_keys=KEY, data_dir=tmp_path_factory.mktemp("data"), **limits)
    with served(create_app(settings, encoder=WordEncoder())) as url:
        yield url


def sample(number: int, **fields: Any) -> dict[str, Any]:
    return {"custom_id": f"q{number}", "contexts": [CONTEXT], "answer": f"{CONTEXT} It is {number}.", **fields}


async def test_many_are_judged_whatever_the_limits_of_the_service_are(url: str) -> None:
    """Batches are larger than it takes, in samples and, with the long ones, in bytes; three samples are bad."""
    given = [sample(number) for number in range(70)]
    given[11] = sample(11, answer=5)
    given[12] = sample(12, answer="x" * 501)
    given[13] = sample(13, contexts=["x" * 30_000])
    for number in range(20, 30):
        given[number] = sample(number, contexts=["It is so. " * 400, CONTEXT])

    async with AsyncPlumbline(url, KEY) as client:
        rows = [row async for row in client.evaluate_many(given, options=LEXICAL, in_order=True)]

    assert [row.index for row in rows] == list(range(70))
    problems = {row.index: row.problem for row in rows if row.problem is not None}
    assert {index: (each.status, [error.pointer for error in each.errors]) for index, each in problems.items()} == {
        11: (422, ["/answer"]),
        12: (422, ["/answer"]),
        13: (413, []),
    }
    for row in rows:
        if row.index not in problems:
            assert row.result is not None
            assert row.result.id == row.custom_id == given[row.index]["custom_id"]
            assert row.result.claims[0].text == CONTEXT
            assert row.result.claims[-1].text == f"It is {row.index}."


async def test_a_row_is_a_line_of_a_file_of_results_to_the_byte(url: str) -> None:
    async with AsyncPlumbline(url, KEY) as client:
        [row] = [row async for row in client.evaluate_many([sample(1)], options=LEXICAL)]

    line = row.to_line(row=41)
    model = RowResult.model_validate_json(line)
    assert line == model.model_dump_json().encode()
    assert model.row == 41


def test_keys_and_options_that_are_wrong_end_it(url: str) -> None:
    with Plumbline(url, "another-key-of-sixteen") as client, pytest.raises(AccessRefused) as caught:
        list(client.evaluate_many([sample(0)]))
    assert caught.value.type == "urn:plumbline:problem:key-unknown"
    assert caught.value.request_id

    with Plumbline(url, KEY) as client, pytest.raises(Exception, match="judges"):
        list(client.evaluate_many([sample(number) for number in range(5)], options={"judges": ["nobody"]}))


def test_a_job_that_is_not_there(url: str) -> None:
    with Plumbline(url, KEY) as client, pytest.raises(NotThere):
        client.jobs.get("no-such-job")


def test_a_job_from_its_submission_to_its_report(tmp_path: Path) -> None:
    given: list[Any] = [sample(number) for number in range(50)]
    given[7] = {"custom_id": "q7", "answer": 5}
    app = create_app(plain_settings(data_dir=tmp_path / "data"), encoder=WordEncoder())
    with served(app) as url, Plumbline(url) as client:
        job = client.jobs.submit(given, options=LEXICAL, name="nightly")
        rows = list(job.results())
        info = job.wait(timeout=30)
        listed = [each.id for each in client.jobs.list()]
        report = job.report(format="json")
        job.delete()
        with pytest.raises(NotThere):
            job.refresh()

    assert [row.index for row in rows] == list(range(50))
    assert [row.index for row in rows if row.problem is not None] == [7]
    assert (info.status, info.request_counts.completed, info.request_counts.failed) == ("completed_with_errors", 49, 1)
    assert listed == [job.id]
    assert ReportSummary.model_validate_json(report).rows == 50
