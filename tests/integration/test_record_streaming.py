"""Data files that are large or cut off."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import Record, RecordProblem
from tests.making.record_files import json_lines, mills, read_all, write_file

HEADER = "custom_id,question,contexts,answer\n"


def test_truncated_gzip_is_told_behind_the_rows_before_the_break(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.jsonl.gz", json_lines(mills(20_000)))
    path.write_bytes(path.read_bytes()[:-2_000])
    records: list[Record | RecordProblem] = []

    with pytest.raises(InvalidInput) as told, RecordReader(path) as reader:
        records.extend(reader)

    assert len(records) > 10_000
    assert [each.row for each in records] == list(range(len(records)))
    assert "a.jsonl.gz: the gzip data ends too early, after " in str(told.value)


def test_gzip_with_a_damaged_byte_is_told(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.csv.gz", HEADER + "1,q,c,a\n" * 50_000)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))

    with pytest.raises(InvalidInput, match=r"the gzip data is broken|ends too early"):
        read_all(path)


@pytest.mark.parametrize(("name", "count"), [("a.jsonl", 8_000), ("a.csv", 8_000)])
def test_many_rows_pass_through_a_few_megabytes(tmp_path: Path, name: str, count: int) -> None:
    row = json.dumps({"contexts": ["The mill was built in 1890."], "answer": "It dates from 1890."})
    text = {
        "a.jsonl": f"{row}\n" * count,
        "a.csv": "contexts,answer\n" + "The mill was built in 1890.,It dates from 1890.\n" * count,
    }[name]
    path = write_file(tmp_path, name, text)
    del text

    tracemalloc.start()
    with RecordReader(path) as reader:
        read = sum(isinstance(each, Record) for each in reader)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert read == count
    # All records together would take 5 megabytes
    assert peak < 3 * 1024 * 1024


def test_reading_records_loads_no_model_library_and_no_web_framework() -> None:
    heavy = ("numpy", "torch", "fastapi", "pydantic", "sklearn", "scipy", "pyarrow", "starlette")
    folder = Path("app") / "plumbline" / "rows" / "records"
    # The table of results reads what the wire's models say of a result
    readers = [path.stem for path in folder.glob("[a-z]*.py") if path.stem != "result_table"]
    modules = ", ".join(f"plumbline.rows.records.{name}" for name in readers)
    code = f"import sys, plumbline.rows.records, {modules}; print([name for name in {heavy} if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
