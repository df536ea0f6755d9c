"""Parquet files as records, with pyarrow and without."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.columns import ColumnMap
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import RecordProblem
from tests.making.record_files import MILL, mills, read_all, write_file


def parquet_file(folder: Path, rows: list[dict[str, object]], *, group_rows: int = 1_000) -> Path:
    path = folder / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=group_rows)
    return path


def test_rows_are_read_group_by_group_with_lists_as_lists(tmp_path: Path) -> None:
    records, problems = read_all(parquet_file(tmp_path, mills(7), group_rows=3))

    assert problems == []
    assert [each.custom_id for each in records] == [f"mill-{number}" for number in range(7)]
    assert records[6].sample.contexts == ("The mill was built in 1890.",)


def test_a_null_costs_its_own_row(tmp_path: Path) -> None:
    records, (problem,) = read_all(parquet_file(tmp_path, [dict(MILL), {**MILL, "answer": None}, dict(MILL)]))

    assert [each.row for each in records] == [0, 2]
    assert str(problem) == "row 1: answer is null; expected a string, the answer"


def test_text_that_is_no_utf_8_costs_its_own_row(tmp_path: Path) -> None:
    answers = pa.array([b"good", b"\xff", b"good"]).cast(pa.binary())
    broken = pa.Array.from_buffers(pa.string(), 3, answers.buffers())
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"contexts": [["c"], ["c"], ["c"]], "answer": broken}), path)

    records, (problem,) = read_all(path)

    assert [each.row for each in records] == [0, 2]
    assert "text that is not UTF-8" in problem.found


def test_a_column_of_another_type_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"contexts": [["c"]], "answer": [b"a"]}), path)

    with RecordReader(path) as reader:
        (problem,) = reader

    assert isinstance(problem, RecordProblem)
    assert problem.found == "answer is a bytes"


def test_what_is_no_parquet_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"a.parquet: cannot be read as Parquet \("):
        read_all(write_file(tmp_path, "a.parquet", "contexts,answer\n"))
    with pytest.raises(InvalidInput, match=r"absent.parquet: cannot be read as Parquet \("):
        read_all(tmp_path / "absent.parquet")


def test_columns_are_named_as_in_tables(tmp_path: Path) -> None:
    path = parquet_file(tmp_path, [{"docs": ["c"], "out": "a"}])

    with pytest.raises(InvalidInput, match=r"no column is known for contexts and answer; found the columns 'docs'"):
        RecordReader(path)
    assert read_all(path, columns=ColumnMap(contexts="docs", answer="out"))[0][0].sample.answer == "a"


def test_without_pyarrow_reading_names_the_extra(tmp_path: Path) -> None:
    path = parquet_file(tmp_path, mills(1))
    code = f"""
import sys
from pathlib import Path
sys.modules["pyarrow"] = None
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.reading import RecordReader
try:
    RecordReader(Path({str(path)!r}))
except InvalidInput as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "a.parquet: Parquet needs pyarrow; install it with: pip install 'plumbline-rag[pyarrow]'\n"
    assert [each.name for each in tmp_path.iterdir()] == ["a.parquet"]
