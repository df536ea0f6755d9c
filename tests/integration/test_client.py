"""The parts of the client that need no service: what it loads, what it waits for, what a row says."""

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest

from plumbline.client import (
    AnswerUnreadable,
    AsyncJob,
    AsyncJobs,
    AsyncPlumbline,
    Busy,
    Job,
    Jobs,
    NotReached,
    Plumbline,
    Retries,
    Row,
)
from plumbline.client.batches import MAX_CHUNK_BYTES, Chunker
from plumbline.client.failures import RetryState
from plumbline.client.samples import OptionFields
from plumbline.schemas.batch import RowError, RowResult
from plumbline.schemas.evaluation import EvaluationOptions
from plumbline.schemas.problem import Problem
from tests.doubles.scripted_service import result_of

PROBLEM = {"type": "urn:x", "title": "t", "status": 422, "detail": "d", "errors": []}


def test_importing_it_loads_no_framework_no_model_and_no_numpy() -> None:
    code = "import sys, plumbline.client; print(*sorted({name.split('.')[0] for name in sys.modules}))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    heavy = {"fastapi", "starlette", "uvicorn", "torch", "numpy", "pyarrow", "sklearn", "scipy", "openai", "nltk"}
    assert heavy & set(done.stdout.split()) == set()
    assert not {"httpx2", "anyio"} & set(done.stdout.split())


def busy(retry_after: float | None) -> Busy:
    problem = Problem(type="about:blank", title="t", status=503, detail="d", instance="/", request_id=None)
    return Busy(problem, retry_after=retry_after)


def longest(seconds: float) -> float:
    return seconds


def test_waits_double_up_to_the_longest_and_end_with_the_attempts() -> None:
    patience = RetryState(Retries(attempts=6, backoff_seconds=1, longest_backoff_seconds=5, jitter=longest))

    assert [patience.wait_after(NotReached("away")) for _ in range(5)] == [1, 2, 4, 5, 5]
    with pytest.raises(NotReached, match="away"):
        patience.wait_after(NotReached("away"))


@pytest.mark.parametrize(("asked", "wait"), [(7.0, 7.5), (0.0, 0.5), (None, 0.5), (179.0, 60.5)])
def test_a_service_that_asks_to_be_left_alone_is(asked: float | None, wait: float) -> None:
    assert RetryState(Retries(backoff_seconds=0.5, jitter=longest)).wait_after(busy(asked)) == wait


def test_all_waits_together_are_bounded() -> None:
    patience = RetryState(Retries(attempts=100, total_wait_seconds=100, backoff_seconds=0, jitter=longest))

    assert patience.wait_after(busy(60)) == 60
    with pytest.raises(Busy):
        patience.wait_after(busy(60))
    patience.renew()
    assert patience.wait_after(busy(60)) == 60


def test_a_row_is_read_when_asked_and_once() -> None:
    row = Row(3, "q3", None, json.dumps({**result_of("q3", flags=["degraded"]), "mood": "good"}).encode())

    assert row.result is row.result
    assert row.result is not None
    assert row.result.flags == ["degraded"]
    assert row.problem is None
    assert row.raw["mood"] == "good"


def test_a_row_that_is_none_says_so() -> None:
    with pytest.raises(AnswerUnreadable, match="no EvaluationResult"):
        _ = Row(0, None, None, b'{"id":1}').result


def test_a_row_is_a_line_of_a_file_of_results() -> None:
    result = json.dumps(result_of("q")).encode()
    problem = json.dumps(PROBLEM).encode()

    good = RowResult.model_validate_json(Row(3, "q", None, result).to_line(row=8))
    unnamed = RowResult.model_validate_json(Row(3, None, None, result).to_line())
    bad = RowError.model_validate_json(Row(4, None, None, None, problem, line=6).to_line())
    placed = RowError.model_validate_json(Row(4, 'a"b', None, None, problem).to_line(row=9, line=11))

    assert (good.custom_id, good.row, good.result.id) == ("q", 8, "q")
    assert (unnamed.custom_id, unnamed.row) == ("3", 3)
    assert (bad.custom_id, bad.row, bad.line, bad.error.detail) == (None, 4, 6, "d")
    assert (placed.custom_id, placed.row, placed.line) == ('a"b', 9, 11)


def test_every_option_is_an_argument() -> None:
    assert set(get_type_hints(OptionFields)) == set(EvaluationOptions.model_fields)


@pytest.mark.parametrize(("sync", "other"), [(Plumbline, AsyncPlumbline), (Jobs, AsyncJobs), (Job, AsyncJob)])
def test_the_two_clients_have_one_surface(sync: type, other: type) -> None:
    # `info` is an attribute of the one and a property of the other
    internal = {"info"}

    ours, theirs = surface(sync), surface(other)
    assert ours.keys() - internal == theirs.keys() - internal
    assert {name: ours[name] for name in ours.keys() - internal} == {
        name: theirs[name] for name in theirs.keys() - internal
    }


def surface(kind: type) -> dict[str, list[tuple[str, Any, Any]]]:
    """Public names, with the names, kinds and defaults of their parameters."""
    members = {name: each for name, each in vars(kind).items() if not name.startswith("_")}
    return {name: parameters_of(each) if callable(each) else [] for name, each in members.items()}


def parameters_of(method: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(method).parameters.values()]


def test_chunks_are_bounded_in_samples_and_bytes_and_names() -> None:
    long = "x" * (MAX_CHUNK_BYTES // 2)
    given: list[dict[str, Any]] = [
        *({"custom_id": "a"}, {"custom_id": "b"}, {"custom_id": "b"}, {"custom_id": "c"}, {"custom_id": "d"}),
        *({"answer": long}, {"answer": long}, {"answer": 3 * long}, {}, {}, {}),
    ]
    chunker: Chunker[dict[str, Any]] = Chunker(max_samples=3)

    done = [*(chunker.add(each) for each in given), chunker.flush()]

    taken = [[sent.index for sent in chunk] for chunk in done if chunk]
    assert taken == [[0, 1], [2, 3, 4], [5], [6], [7], [8, 9, 10]]
    assert chunker.flush() == []
