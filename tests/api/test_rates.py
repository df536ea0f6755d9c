"""POST /v1/rates: the numbers of `plumbline rate`, over HTTP."""

import json
from pathlib import Path
from typing import Any

import pytest

from plumbline.cli.main import main
from plumbline.service.api.rates import RATE_EXAMPLES
from tests.running.job_service import jobs_running
from tests.unit.test_rates import _files

URL = "/v1/rates"
EXAMPLE: dict[str, Any] = RATE_EXAMPLES["rows"]["value"]


def decoded(path: str) -> list[dict[str, Any]]:
    """The lines of a file."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


async def test_the_numbers_are_those_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, labels = _files(tmp_path)
    assert main(["rate", results, "--labels", labels, "--width", "0.05", "--risk", "0.1", "--json"]) == 0
    wanted = json.loads(capsys.readouterr().out)
    rows = decoded(results)
    body = {
        "rows": [
            {
                "custom_id": row["custom_id"],
                **{name: row["result"][name] for name in ("tier", "faithfulness", "passed")},
            }
            for row in rows
        ],
        "labels": decoded(labels),
        "width": 0.05,
        "risk": 0.1,
    }

    async with jobs_running() as client:
        answer = await client.post(URL, json=body)

    assert answer.status_code == 200, answer.text
    assert answer.json() == {"rates": wanted}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"job_id": "job_x"}, "either 'rows' or 'job_id'"),
        ({"rows": None}, "either 'rows' or 'job_id'"),
        ({"labels": EXAMPLE["labels"][:29]}, "29 labels of these rows; expected 30 or more"),
        ({"labels": None}, "0 labels of these rows; expected 30 or more"),
        ({"labels": [{"custom_id": "zz", "label": 1}]}, "1 labels are of rows that the results do not have ('zz')"),
        ({"labels": [{"custom_id": "q1", "label": 1}] * 2}, "a custom_id is labelled twice"),
        ({"risk": 1.0}, "risk"),
        ({"risk": 5e-324}, "risk"),
        ({"width": 5e-324}, "width"),
        ({"labels": [{"custom_id": "q1", "label": 1, "weight": 1.7e308}]}, "weight"),
        ({"labels": [{"custom_id": "q1", "label": 2}]}, "label"),
    ],
)
async def test_what_makes_no_rate_is_refused(change: dict[str, Any], said: str) -> None:
    async with jobs_running() as client:
        answer = await client.post(URL, json={**EXAMPLE, **change})

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert said in answer.text


async def test_the_example_is_answered_and_a_job_that_is_not_there_is_not_found() -> None:
    async with jobs_running() as client:
        answer = await client.post(URL, json=EXAMPLE)
        missing = await client.post(URL, json={"job_id": "job_x"})

    assert answer.status_code == 200
    assert answer.json()["rates"][0]["labels"] == 30
    assert missing.status_code == 404
