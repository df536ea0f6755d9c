"""Files of other tools as they write them, and with the mistakes that people make: read, or one line that says what."""

import csv
import io
import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.judging.text.sample import Sample
from plumbline.rows.records.columns import ColumnMap
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import Record, RecordProblem
from tests.making.cases import load_cases
from tests.making.record_files import json_lines, read_all, write_file
from tests.making.workbooks import write_workbook

Q, A = "How old is the mill?", "It dates from 1890."
C = ["The mill was built in 1890.", "It has two wheels."]
MILL = Sample(Q, tuple(C), A)

CHAT: list[dict[str, object]] = [
    {"role": "system", "content": "Answer from the tool."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hello! Ask me."},
    {"role": "user", "content": [{"type": "text", "text": Q}]},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
    {"role": "tool", "tool_call_id": "1", "content": C[0]},
    {"role": "tool", "tool_call_id": "2", "content": C[1]},
    {"role": "assistant", "content": A},
]


def table(rows: list[list[str]], delimiter: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue()


READ: dict[str, tuple[str, str, str]] = load_cases("peers_files", "read")


@pytest.mark.parametrize("name", READ)
def test_a_file_of_a_peer_is_read_unaided(tmp_path: Path, name: str) -> None:
    file, content, preset = READ[name]

    with RecordReader(write_file(tmp_path, file, content)) as reader:
        (record,) = reader

    assert isinstance(record, Record), record
    assert replace(record.sample, context_labels=()) == MILL
    assert reader.explanation.startswith(f"read as {preset or name}: ")


def test_the_last_answer_of_chat_messages_is_read_by_the_preset(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.jsonl", json_lines([{"messages": CHAT}, {"messages": CHAT[:4]}]))

    (record,), (problem,) = read_all(path, columns="chat")

    assert replace(record.sample, context_labels=()) == MILL
    assert "row 1 (line 2): messages.tool is missing; expected a list of strings" in str(problem)


@pytest.mark.parametrize(("name", "passage"), [("halubench", "passage"), ("halueval", "knowledge")])
def test_a_benchmark_with_one_passage_a_row_is_read_unaided(tmp_path: Path, name: str, passage: str) -> None:
    row = {"id": "b-1", passage: C[0], "question": Q, "answer": A, "label": "PASS"}

    with RecordReader(write_file(tmp_path, "a.jsonl", json_lines([row]))) as reader:
        (record,) = reader

    assert isinstance(record, Record)
    assert record.sample == Sample(Q, (C[0],), A)
    assert reader.explanation.startswith(f"read as {name}: ")


REFUSED: list[tuple[str, str, str]] = load_cases("peers_files", "refused")

BAD_ROWS: list[tuple[str, str, str]] = load_cases("peers_files", "bad_rows")


@pytest.mark.parametrize(("file", "content", "said"), REFUSED)
def test_a_file_that_cannot_be_read_says_column_and_remedy_in_one_line(
    tmp_path: Path, file: str, content: str, said: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        RecordReader(write_file(tmp_path, file, content))

    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("file", "content", "said"), BAD_ROWS)
def test_a_row_that_cannot_be_read_says_row_column_and_what_was_expected(
    tmp_path: Path, file: str, content: str, said: str
) -> None:
    _, (problem,) = read_all(write_file(tmp_path, file, content))

    assert isinstance(problem, RecordProblem)
    assert said in str(problem)


SUBSETS = [chosen for count in range(4) for chosen in combinations(("question", "reference", "custom_id"), count)]


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet", "xlsx"])
@pytest.mark.parametrize("optional", SUBSETS, ids=lambda names: "+".join(names) or "none")
def test_any_subset_of_the_optional_columns_is_read(tmp_path: Path, form: str, optional: tuple[str, ...]) -> None:
    values = {"contexts": C[0], "answer": A, "question": Q, "reference": "1890", "custom_id": "m-1"}
    row = {name: value for name, value in values.items() if name in ("contexts", "answer", *optional)}
    path = tmp_path / f"a.{form}"
    if form == "parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({name: [value] for name, value in row.items()}), path)
    elif form == "xlsx":
        write_workbook(path, [list(row), list(row.values())])
    else:
        path.write_text(table([list(row), list(row.values())], "\t" if form == "tsv" else ","), encoding="utf-8")

    with RecordReader(path) as first:
        map_ = first.columns
    (record,) = read_all(path, columns=map_)[0]

    question, reference = (row.get(name) for name in ("question", "reference"))
    assert record.sample == Sample(question or "", (C[0],), A, reference)
    assert record.custom_id == row.get("custom_id", "0")


def test_a_workbook_is_read_from_its_header_on_with_numbers_and_empty_rows(tmp_path: Path) -> None:
    rows: list[list[str | float | None]] = [
        [None, None, None],
        ["id", "contexts", "answer"],
        [7, json.dumps(C), A],
        [None, None, None],
        [8.0, C[0], "1890"],
        [9, C[0], None],
    ]
    path = write_workbook(tmp_path / "a.xlsx", rows)

    records, problems = read_all(path)

    assert [(each.custom_id, each.sample.contexts) for each in records] == [
        ("7", tuple(C)),
        ("8", (C[0],)),
        ("9", (C[0],)),
    ]
    assert problems == []


def test_fields_are_read_by_paths_through_lists_and_json_in_cells(tmp_path: Path) -> None:
    row = {"run": json.dumps({"choices": [{"text": A}], "hits": C})}

    path = write_file(tmp_path, "a.jsonl", json_lines([row]))
    records, _ = read_all(path, columns=ColumnMap(answer="run.choices.0.text", contexts="run.hits"))

    assert records[0].sample == Sample("", tuple(C), A)


@pytest.mark.parametrize("cell", ['{"height": 41}', '[{"height": 41}]'])
def test_json_without_passages_in_a_cell_is_a_context_as_it_is(tmp_path: Path, cell: str) -> None:
    path = write_file(tmp_path, "a.csv", table([["contexts", "answer"], [cell, A]]))

    assert read_all(path)[0][0].sample.contexts == (cell,)
