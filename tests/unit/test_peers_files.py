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
from tests.making.record_files import json_lines, read_all, write_file
from tests.making.workbooks import write_workbook

Q, A = "How old is the mill?", "It dates from 1890."
C = ["The mill was built in 1890.", "It has two wheels."]
MILL = Sample(Q, tuple(C), A)

DOCUMENTS = [{"page_content": each, "metadata": {"source": "a.pdf"}} for each in C]
DUMPED = [{"lc": 1, "type": "constructor", "id": ["Document"], "kwargs": {"page_content": each}} for each in C]
NODES = [{"node": {"id_": "n", "text": each}, "score": 0.8} for each in C]
NEW_NODES = [{"node": {"text_resource": {"text": each}}, "score": 0.8} for each in C]
SPANS = [{"document.content": each, "document.score": 0.8} for each in C]
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


LANGFUSE_CELLS = [json.dumps({"question": Q, "context": C}), json.dumps({"answer": A})]

READ: dict[str, tuple[str, str, str]] = {
    "deepeval": ("a.json", json.dumps([{"input": Q, "actual_output": A, "retrieval_context": C, "name": "t"}]), ""),
    "deepeval, its site": ("a.jsonl", json_lines([{"input": Q, "actualOutput": A, "retrievalContext": C}]), "deepeval"),
    "langchain": ("a.jsonl", json_lines([{"query": Q, "result": A, "source_documents": DOCUMENTS}]), ""),
    "langchain, dumped": ("a.jsonl", json_lines([{"query": Q, "result": A, "source_documents": DUMPED}]), "langchain"),
    "langchain_chain": ("a.jsonl", json_lines([{"input": Q, "answer": A, "context": DOCUMENTS}]), ""),
    "llamaindex": ("a.jsonl", json_lines([{"query": Q, "response": A, "source_nodes": NODES}]), ""),
    "llamaindex 0.12": ("a.jsonl", json_lines([{"query": Q, "response": A, "source_nodes": NEW_NODES}]), "llamaindex"),
    "langfuse": (
        "a.jsonl",
        json_lines([{"id": "t", "input": {"question": Q}, "output": A, "metadata": {"contexts": C}}]),
        "",
    ),
    "langfuse, CSV": ("a.csv", table([["id", "input", "output"], ["t", *LANGFUSE_CELLS]]), "langfuse"),
    "phoenix": (
        "a.jsonl",
        json_lines(
            [
                {
                    "context.span_id": "s",
                    "attributes.input.value": Q,
                    "attributes.output.value": A,
                    "attributes.retrieval.documents": SPANS,
                }
            ]
        ),
        "",
    ),
    "openai_evals": (
        "a.jsonl",
        json_lines([{"item": {"question": Q, "context": C}, "sample": {"output_text": A}, "id": "e"}]),
        "",
    ),
    "deepeval, tabs in a .csv": (
        "a.csv",
        table([["input", "actual_output", "retrieval_context"], [Q, A, json.dumps(C)]], "\t"),
        "deepeval",
    ),
    "Chinese columns": (
        "a.csv",
        table([["编号", "问题", "检索内容", "模型回答", "备注"], ["1", Q, json.dumps(C), A, ""]], ";"),
        "huggingface",
    ),
}


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


REFUSED: list[tuple[str, str, str]] = [
    # The file as a whole: the columns found, and what to name
    ("a.jsonl", json_lines([{"input": Q, "actual_output": A, "context": C}]), "its context is the wanted one, not the"),
    (
        "a.jsonl",
        json_lines([{"knowledge": C[0], "question": Q, "right_answer": A, "hallucinated_answer": "1932"}]),
        "each row has two answers: answer=right_answer or answer=hallucinated_answer; found the columns 'knowledge'",
    ),
    (
        "a.json",
        json.dumps({"data": [{"question": Q}]}),
        "take the list 'data' out of its object into a file of its own",
    ),
    ("a.csv", "question,contexts,contexts,answer\n", "a.csv:1: column 'contexts' is named twice in the header"),
    (
        "a.csv",
        "frage;kontext;antwort\nq;c;a\n",
        "found the columns 'frage', 'kontext', 'antwort'; name yours: contexts=",
    ),
    ("a.xls", "x", "a.xls: its suffix is none of .jsonl, .ndjson, .json, .csv, .tsv, .parquet, .xlsx"),
    ("a.xlsx", "question,answer", "a.xlsx: cannot be read as an Excel workbook"),
]

BAD_ROWS: list[tuple[str, str, str]] = [
    # One row: its place, its column, what was expected
    (
        "a.jsonl",
        json_lines([{"query": Q, "result": A, "source_documents": [{"metadata": {}}]}]),
        "row 0 (line 1): source_documents[0] is an object with 'metadata'; expected a string, or an object",
    ),
    (
        "a.jsonl",
        json_lines([{"input": Q, "actual_output": None, "retrieval_context": C}]),
        "row 0 (line 1): actual_output is null; expected a string, the answer",
    ),
    (
        "a.jsonl",
        json_lines([{"query": Q, "response": A, "source_nodes": [{"node": {"text": 7}}]}]),
        "row 0 (line 1): source_nodes[0].node is an object with 'text'; expected a string, or an object",
    ),
    (
        "a.jsonl",
        json_lines([{"messages": CHAT}, {"messages": "Hello"}]),
        "row 1 (line 2): messages is a string; expected a list",
    ),
    (
        "a.jsonl",
        json_lines([{"id": "t", "input": {"question": Q, "context": C}, "output": {"answer": 1890}}]),
        "row 0 (line 1): output.answer is a number; expected a string, the answer",
    ),
    (
        "a.jsonl",
        json_lines([{"input": Q, "actual_output": A, "retrieval_context": [C]}]),
        "row 0 (line 1): retrieval_context[0] is a list; expected a string",
    ),
    (
        "a.jsonl",
        json_lines([{"query": Q, "result": A, "source_documents": DOCUMENTS[0]}]),
        "row 0 (line 1): source_documents is an object; expected a list of strings",
    ),
    (
        "a.jsonl",
        json_lines(
            [
                {"item": {"question": Q, "context": C}, "sample": {"output_text": A}},
                {"item": {"question": Q, "context": C}, "sample": {"error": "rate limit"}},
            ]
        ),
        "row 1 (line 2): sample.output_text is missing; expected a string, the answer",
    ),
    (
        "a.jsonl",
        json_lines([{"knowledge": C[0], "question": Q, "answer": A}, {"question": Q, "answer": A}]),
        "row 1 (line 2): knowledge is missing; expected a list of strings",
    ),
    ("a.csv", "问题,上下文,回答\n问,料\n", "row 0 (line 2): 2 cells; expected 3, as the header has"),
    ("a.csv", f'question,contexts,answer\nq,"[""a"", ""b""",{A}\n', "contexts begins as a list and cannot be read"),
]


@pytest.mark.parametrize(("encoding", "said"), [("gbk", "text that is not UTF-8"), ("utf-16", "is UTF-16; save the")])
def test_a_file_in_another_encoding_says_to_save_it_as_utf_8(tmp_path: Path, encoding: str, said: str) -> None:
    (tmp_path / "a.csv").write_bytes("问题,上下文,回答\n甲,乙,丙\n".encode(encoding))

    with pytest.raises(InvalidInput, match=said) as refused:
        RecordReader(tmp_path / "a.csv")

    assert "UTF-8" in str(refused.value)


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
