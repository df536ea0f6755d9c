"""Requests that are small in bytes and large in work are refused, and told what to lower."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.run import Run
from plumbline.service.api import retrieval, retrieval_limits
from plumbline.service.api.retrieval_limits import (
    MAX_MEASURES,
    MAX_RUNS,
    check_evaluation,
    check_fusion,
)
from tests.running.edge_app import read_problem
from tests.running.service import plain_settings, running

URL = "/v1/retrieval"
QRELS = {"q1": {"d1": 1}}


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with running(plain_settings()) as client:
        yield client


async def refused(client: httpx2.AsyncClient, path: str, body: Mapping[str, Any]) -> str:
    response = await client.post(f"{URL}/{path}", json=body)
    return read_problem(response, 422).detail


def runs_of(count: int) -> list[dict[str, Any]]:
    return [{"name": f"run-{place}", "results": {"q1": ["d1"]}} for place in range(count)]


@pytest.mark.parametrize("path", ["evaluations", "comparisons", "fusions"])
@pytest.mark.parametrize("count", [0, MAX_RUNS + 1])
async def test_the_number_of_runs_is_bounded(client: httpx2.AsyncClient, path: str, count: int) -> None:
    said = await refused(client, path, {"qrels": QRELS, "runs": runs_of(count)})

    assert said == f"/runs: expected 1 to 50 runs, found {count}"


async def test_as_many_runs_as_allowed_are_compared(client: httpx2.AsyncClient) -> None:
    body = {"qrels": QRELS, "runs": runs_of(MAX_RUNS), "measures": ["mrr"]}

    response = await client.post(f"{URL}/comparisons", json=body)

    assert len(response.json()["comparisons"]) == 50 * 49 / 2


async def test_a_long_text_of_a_run_is_named_by_its_query(client: httpx2.AsyncClient) -> None:
    run = {"name": "a", "llm_outputs": {"q0": "d1", "q1": "x" * 200_001}}

    said = await refused(client, "evaluations", {"qrels": QRELS, "runs": [run]})

    assert said == "/runs/0/q1: the text has 200001 characters; at most 200000 are read"


async def test_the_longest_text_is_read(client: httpx2.AsyncClient) -> None:
    run = {"name": "a", "llm_outputs": {"q1": "[" * 200_000}}
    response = await client.post(f"{URL}/evaluations", json={"qrels": QRELS, "runs": [run]})

    assert response.json()["runs"][0]["unparsed"] == ["q1"]


async def test_the_number_of_measures_is_bounded(client: httpx2.AsyncClient) -> None:
    cutoffs = ",".join(map(str, range(1, MAX_MEASURES + 2)))

    said = await refused(client, "evaluations", {"qrels": QRELS, "runs": runs_of(1), "measures": [f"recall@{cutoffs}"]})

    assert said == "/measures: expected at most 200 measures, found 201"


def test_the_values_of_an_evaluation_are_bounded() -> None:
    qrels = {f"q{place}": {"d1": 1} for place in range(6_980)}

    check_evaluation(qrels, runs=50, measures=22, resamples=1_000)
    with pytest.raises(InvalidInput, match=r"^50 runs by 200 measures over 6980 queries .*; send fewer at a time"):
        check_evaluation(qrels, runs=50, measures=200, resamples=0)


@pytest.mark.parametrize("path", ["evaluations", "comparisons", "fusions"])
async def test_work_that_takes_too_long_is_refused(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(retrieval, "_MOST_SECONDS", 0.0)

    said = await refused(client, path, {"qrels": QRELS, "runs": runs_of(2)})

    assert said.startswith("this takes more than 0 s, the limit of one request; send fewer runs")


def test_runs_by_documents_of_one_query_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval_limits, "_MAX_CELLS", 9)
    runs = [Run("a", {"q1": {"d1": 1.0, "d2": 0.5}}), Run("b", {"q1": ["d3", "d4", "d5"]})]

    with pytest.raises(InvalidInput, match=r"^/runs: 2 runs have 5 documents for 'q1'; send fewer"):
        check_fusion(runs)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b'{"q":{"d":NaN}}', 400, "JSON is malformed: invalid character"),
        (b'{"q":{"d":1e999}}', 422, "/runs/0/results/.../...: Number out of range"),
        (b'{"q":{"d":-1e999}}', 422, "Number out of range"),
        (b'{"q":{"d":1' + b"0" * 400 + b"}}", 422, "wanted a finite number"),
        (b'{"q":{"caf\xe9":1}}', 400, "this cannot be read as JSON"),
    ],
)
async def test_numbers_and_bytes_that_json_has_not_are_refused(
    client: httpx2.AsyncClient, body: bytes, status: int, said: str
) -> None:
    content = b'{"qrels":{"q":{"d":1}},"runs":[{"name":"a","results":' + body + b"}]}"

    response = await client.post(f"{URL}/evaluations", content=content, headers={"content-type": "application/json"})

    assert said in read_problem(response, status).detail


async def test_the_last_of_two_equal_keys_counts(client: httpx2.AsyncClient) -> None:
    content = b"""{"qrels": {"q": {"d": 0, "d": 1}}, "measures": ["mrr"], "resamples": 0,
        "runs": [{"name": "a", "results": {"q": {"d": 1}, "q": {"e": 2, "d": 1}}}]}"""

    response = await client.post(f"{URL}/evaluations", content=content, headers={"content-type": "application/json"})

    assert response.json()["runs"][0]["measures"]["mrr"]["mean"] == 0.5
