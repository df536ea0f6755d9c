"""What is written is read back, in every form, whatever the texts hold; and no bytes break a reader."""

import csv
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plumbline.ground.errors import InvalidInput
from plumbline.judging.text.sample import Sample
from plumbline.rows.records.columns import ColumnMap
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import ReadPosition, Record
from plumbline.rows.records.result_table import ResultTable, format_cell

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text("\"',\\[]{}\t\r\n =@-x磨", max_size=12)
# A cell of blanks says that nothing was retrieved, so a passage has a letter in it
PASSAGES = st.lists(TEXTS.map(lambda text: f"{text}a"), max_size=3)
SAMPLES = st.lists(st.builds(Sample, TEXTS, PASSAGES.map(tuple), TEXTS, st.none()), min_size=1, max_size=6)
COLUMNS = ColumnMap(question="question", contexts="contexts", answer="answer")


@contextmanager
def file_of(name: str, data: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        yield path


def rows_of(samples: list[Sample]) -> list[dict[str, object]]:
    return [{"question": each.question, "contexts": list(each.contexts), "answer": each.answer} for each in samples]


def table_of(samples: list[Sample], delimiter: str) -> bytes:
    """As the standard library writes it."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["question", "contexts", "answer"])
        writer.writerows([each.question, json.dumps(each.contexts), each.answer] for each in samples)
        file.seek(0)
        return file.read().encode("utf-8")


def samples_in(path: Path) -> list[Sample]:
    with RecordReader(path, columns=COLUMNS) as reader:
        found = list(reader)
    assert all(isinstance(each, Record) for each in found), found
    return [each.sample for each in found if isinstance(each, Record)]


@given(SAMPLES, st.booleans())
def test_json_reads_back_as_it_was_written(samples: list[Sample], is_ascii: bool) -> None:
    rows = rows_of(samples)
    lines = "".join(f"{json.dumps(row, ensure_ascii=is_ascii)}\n" for row in rows)

    with file_of("a.jsonl", lines.encode()) as path:
        assert samples_in(path) == samples
    for indent in (None, 1):
        with file_of("a.json", json.dumps(rows, ensure_ascii=is_ascii, indent=indent).encode()) as path:
            assert samples_in(path) == samples


@given(SAMPLES, st.sampled_from([("a.csv", ","), ("a.tsv", "\t")]))
def test_tables_read_back_as_the_standard_library_writes_them(samples: list[Sample], form: tuple[str, str]) -> None:
    name, delimiter = form

    with file_of(name, table_of(samples, delimiter)) as path:
        assert samples_in(path) == samples


@settings(max_examples=30)
@given(SAMPLES)
def test_parquet_reads_back_as_it_was_written(samples: list[Sample]) -> None:
    types = {"question": pa.string(), "contexts": pa.list_(pa.string()), "answer": pa.string()}
    with file_of("a.parquet", b"") as path:
        pq.write_table(pa.Table.from_pylist(rows_of(samples), schema=pa.schema(list(types.items()))), path)
        assert samples_in(path) == samples


@given(PASSAGES.filter(len))
def test_a_list_as_python_prints_it_reads_back(passages: list[str]) -> None:
    data = table_of([Sample("", (), "a")], ",").replace(b"[]", b'"' + repr(passages).replace('"', '""').encode() + b'"')

    with file_of("a.csv", data) as path:
        assert samples_in(path) == [Sample("", tuple(passages), "a")]


@given(st.binary(max_size=80), st.sampled_from(["a.jsonl", "a.json", "a.csv", "a.tsv", "a.jsonl.gz"]), st.binary())
def test_no_bytes_break_a_reader_and_positions_ascend(data: bytes, name: str, tail: bytes) -> None:
    heads = {
        "a.json": b'[{"contexts": [], "answer": "a"},',
        "a.csv": b"contexts,answer\n",
        "a.tsv": b"contexts\tanswer\n",
    }
    columns = ColumnMap(contexts="contexts", answer="answer")
    with file_of(name, heads.get(name, b"") + data + b"\n" + tail) as path:
        positions = [ReadPosition()]
        # The declared failure: broken gzip, no header, an array that is cut off
        with suppress(InvalidInput), RecordReader(path, columns=columns) as reader:
            positions += [reader.position for _ in reader]

    assert [position.row for position in positions] == list(range(len(positions)))
    assert positions == sorted(positions, key=lambda position: position.offset)


RESULTS = st.lists(
    st.fixed_dictionaries(
        {
            "custom_id": TEXTS,
            "status": st.sampled_from(["judged", "abstained"]),
            "faithfulness": st.none() | st.floats(0, 1),
            "passed": st.none() | st.booleans(),
            "warnings": st.lists(TEXTS, max_size=2),
        }
    ),
    max_size=5,
)


def original_text(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and format_cell(cell[1:]) == cell else cell


@given(RESULTS, st.sampled_from([("r.csv", ","), ("r.tsv", "\t")]))
def test_results_in_a_table_read_back(results: list[dict[str, object]], form: tuple[str, str]) -> None:
    name, delimiter = form
    with file_of("empty", b"") as beside:
        path = beside.with_name(name)
        with path.open("wb") as written:
            table = ResultTable(written, delimiter)
            for result in results:
                table.write(result)
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter=delimiter, strict=True))

    assert [original_text(row["custom_id"]) for row in rows] == [result["custom_id"] for result in results]
    assert [float(row["faithfulness"]) if row["faithfulness"] else None for row in rows] == [
        pytest.approx(result["faithfulness"], abs=0) if result["faithfulness"] is not None else None
        for result in results
    ]
    assert [json.loads(row["warnings"] or "[]") for row in rows] == [result["warnings"] for result in results]


@given(TEXTS | st.text("'=+-@\t", max_size=5))
def test_a_safe_cell_gives_its_text_back(text: str) -> None:
    assert original_text(format_cell(text)) == text
    assert not format_cell(text).startswith(("=", "+", "-", "@", "\t", "\r"))
