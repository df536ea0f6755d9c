"""Large, cut off and resumed data files."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import ReadPosition, Record, RecordProblem
from tests.making.record_files import json_lines, mills, read_all, write_file

HEADER = "custom_id,question,contexts,answer\n"


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.json", "a.csv", "a.tsv.gz"])
def test_reading_from_the_middle_gives_the_same_rest(tmp_path: Path, name: str) -> None:
    path = write_file(tmp_path, name, resumable_text(name))
    with RecordReader(path) as reader:
        whole, positions = [], [reader.position]
        for each in reader:
            whole.append(each)
            positions.append(ReadPosition(*json.loads(json.dumps(reader.position))))

    rests = []
    for position in positions:
        with RecordReader(path, start=position) as reader:
            rests.append(list(reader))

    assert rests == [whole[done:] for done in range(len(whole) + 1)]
    assert sum(isinstance(each, RecordProblem) for each in whole) == 1


def resumable_text(name: str) -> str:
    """Seven rows, one of them bad, with everything that shifts offsets: a mark, blank lines, long characters."""
    good = [
        {"contexts": ["老磨坊。"], "answer": f"第{number}。\n下一行", "custom_id": f"{number}"} for number in range(7)
    ]
    if ".jsonl" in name:
        lines = json_lines(good).splitlines()
        lines[3] = "{"
        return "\ufeff" + "\r\n\r\n".join(lines)
    if ".json" in name:
        return "\ufeff" + json.dumps(good, indent=2, ensure_ascii=False).replace('"3"', "3.5")
    delimiter = "\t" if ".tsv" in name else ","
    cells = [f'{number}{delimiter}老磨坊。{delimiter}"第{number}。\r\n下一行"' for number in range(7)]
    cells[3] = "3"
    header = delimiter.join(["custom_id", "contexts", "answer"])
    return "\ufeff" + "\r\n".join([header, *cells]) + "\r\n"


def test_an_id_from_before_the_start_is_reported_when_it_is_told(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.jsonl", json_lines([*mills(2), mills(1)[0]]))
    with RecordReader(path) as reader:
        first = next(reader)
        position = reader.position
    assert isinstance(first, Record)

    with RecordReader(path, start=position, seen_ids=[first.custom_id]) as reader:
        rest = list(reader)

    assert [type(each) for each in rest] == [Record, RecordProblem]


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


@pytest.mark.parametrize(("name", "count"), [("a.jsonl", 20_000), ("a.json", 15_000), ("a.csv", 15_000)])
def test_many_rows_pass_through_a_few_megabytes(tmp_path: Path, name: str, count: int) -> None:
    row = json.dumps({"contexts": ["The mill was built in 1890."], "answer": "It dates from 1890."})
    text = {
        "a.jsonl": f"{row}\n" * count,
        "a.json": f"[{row}" + f",{row}" * (count - 1) + "]",
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
    # The table of ids takes 2 MiB (131,072 slots grow to 262,144), a block of the file 256 KiB
    assert peak < 6 * 1024 * 1024


def test_importing_the_room_loads_no_model_library_and_no_web_framework() -> None:
    heavy = ("numpy", "torch", "fastapi", "pydantic", "sklearn", "scipy", "pyarrow", "starlette")
    folder = Path("app") / "plumbline" / "rows" / "records"
    modules = ", ".join(f"plumbline.rows.records.{path.stem}" for path in folder.glob("[a-z]*.py"))
    code = f"import sys, plumbline.rows.records, {modules}; print([name for name in {heavy} if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
