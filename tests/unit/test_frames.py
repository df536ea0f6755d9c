"""Data frames in, results out as frames."""

from collections.abc import Iterator
from typing import Any

import pyarrow
import pytest

from plumbline.client import Row, to_frame
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.frames import frame_records, frame_rows
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.schemas.evaluation import EvaluationResult
from tests.doubles.scripted_service import result_of
from tests.making.cases import load_cases

NAN = float("nan")
COLUMNS: dict[str, list[object]] = {
    "user_input": ["q", None],
    "retrieved_contexts": [["a", "b"], ["c"]],
    "response": ["x", "y"],
    "score": [NAN, 1.0],
}


class Series:
    """A column as pandas has it."""

    def __init__(self, values: list[object]) -> None:
        self._values = values

    def tolist(self) -> list[object]:
        return self._values


class Frame:
    """A frame as pandas and polars have it; iterated, it gives the names of its columns."""

    def __init__(self, columns: dict[str, list[object]]) -> None:
        self._columns = columns
        self.columns = list(columns)

    def __getitem__(self, name: str) -> Series:
        return Series(self._columns[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


class LazyFrame(Frame):
    """A frame of polars that is not computed yet."""

    def collect_schema(self) -> None: ...

    def collect(self) -> Frame:
        return Frame(self._columns)


def records(frame: Any) -> list[Any]:
    found = frame_records(frame)
    assert found is not None
    return list(found)


FRAMES = {
    "pandas": Frame(COLUMNS),
    "lazy": LazyFrame(COLUMNS),
    "arrow": pyarrow.table(COLUMNS),
    "batch": pyarrow.RecordBatch.from_pydict(COLUMNS),
    "columns": COLUMNS,
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_is_read_by_the_names_of_its_columns_as_a_file(name: str) -> None:
    first, second = records(FRAMES[name])

    assert isinstance(first, Record)
    assert isinstance(second, Record)
    assert (first.sample.question, first.sample.contexts, first.sample.answer) == ("q", ("a", "b"), "x")
    assert (first.custom_id, second.custom_id, second.sample.question) == ("0", "1", "")
    assert next(frame_rows(FRAMES[name]) or iter(()))["score"] is None


@pytest.mark.parametrize("samples", [[{"answer": "a"}], iter([]), {"question": "q", "contexts": ["c"], "answer": "a"}])
def test_samples_are_no_frame(samples: Any) -> None:
    assert frame_records(samples) is None


def test_a_row_that_cannot_be_read_is_a_problem_of_its_own() -> None:
    bad, good = records({"question": ["q", "q"], "contexts": [["c"], ["c"]], "answer": [None, "a"]})

    assert isinstance(good, Record)
    assert isinstance(bad, RecordProblem)
    assert str(bad) == "row 0: answer is null; expected a string, the answer"


def test_columns_that_are_not_known_are_refused_at_once() -> None:
    with pytest.raises(InvalidInput, match="no column is known for contexts and answer; found the columns 'a'"):
        frame_records({"a": [1]})


RESULT = EvaluationResult.model_validate({**result_of("r"), "passed": False, "claims": load_cases("frames", "claims")})


def test_a_result_is_a_frame_of_its_claims() -> None:
    frame = RESULT.to_frame("pyarrow")

    assert frame.column("verdict").to_pylist() == ["supported", "not_mentioned"]
    assert frame.column_names[:3] == ["id", "sentence", "text"]


def test_rows_are_a_frame_in_their_order_with_the_columns_of_a_table() -> None:
    problem = b'{"type":"urn:x","title":"Bad","status":422,"detail":"no answer"}'
    rows: list[Row[None]] = [
        Row(1, "b", None, problem_json=problem),
        Row(0, "a", None, result_json=RESULT.model_dump_json().encode()),
    ]

    frame = to_frame(rows, "pyarrow")

    assert frame.column("custom_id").to_pylist() == ["a", "b"]
    assert frame.column("passed").to_pylist() == [False, None]
    assert frame.column("error").to_pylist() == [None, "no answer"]


def test_a_library_that_is_not_installed_is_named() -> None:
    with pytest.raises(InvalidInput, match="expected pandas, polars or pyarrow"):
        to_frame([], "numpy")  # type: ignore[arg-type]
