"""Which column is which field: presets on small files in the forms of others, and what is said when none fits."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.judging.text.sample import Sample
from plumbline.rows.records.columns import PRESETS, ColumnMap
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import Record
from plumbline.rows.records.record_fields import context_texts
from tests.making.cases import load_cases
from tests.making.record_files import MILL, json_lines, read_all, write_file

PASSAGES = ["磨坊建于1890年。", 'It\'s the "old" mill.']
WANTED = Sample("磨坊多少年了?", tuple(PASSAGES), "建于1890年。", "1890年")

# A row of each form as its own tools write it: file name, content, custom_id, and what is left over.
FORMS: dict[str, tuple[str, str, str, dict[str, object]]] = load_cases("record_columns", "forms", inner=list)


@pytest.mark.parametrize("preset", FORMS)
@pytest.mark.parametrize("is_named", [False, True])
def test_a_form_of_others_is_read_by_name_and_known_by_its_columns(tmp_path: Path, preset: str, is_named: bool) -> None:
    name, content, custom_id, extra = FORMS[preset]
    if is_named and preset == "huggingface":
        content = content.replace("Generated Answer", "generated_answer")
    with RecordReader(write_file(tmp_path, name, content), columns=preset if is_named else None) as reader:
        (record,) = reader

    assert isinstance(record, Record), record
    assert record._replace(sample=replace(record.sample, context_labels=())) == Record(0, custom_id, WANTED, extra)
    assert reader.explanation.startswith(f"read as {preset}: question from ")
    assert "\n" not in reader.explanation


def test_a_row_of_lettucedetect_keeps_its_labels_and_says_where_the_question_is(tmp_path: Path) -> None:
    prompt = "Answer from the passages.\npassage 1: The mill was built in 1890."
    row = {
        "prompt": prompt,
        "answer": "In 1890.",
        "labels": [{"start": 3, "end": 7, "label": "conflict"}],
        "split": "train",
        "task_type": "QA",
        "dataset": "ragtruth",
        "language": "en",
    }
    with RecordReader(write_file(tmp_path, "a.jsonl", json_lines([row]))) as reader:
        (record,) = reader

    assert isinstance(record, Record)
    assert record.sample == Sample("", (prompt,), "In 1890.")
    assert set(record.extra) == {"labels", "split", "task_type", "dataset", "language"}
    assert reader.explanation == (
        "read as lettucedetect: contexts from 'prompt'; answer from 'answer'; custom_id from the row number; "
        "the whole prompt is the only context and the question stays in it; labels are kept as an extra"
    )


@pytest.mark.parametrize(
    ("row", "said"), load_cases("record_columns", "columns_that_fit_no_form_or_several_are_listed", inner=list)
)
def test_columns_that_fit_no_form_or_several_are_listed(tmp_path: Path, row: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        RecordReader(write_file(tmp_path, "a.jsonl", json_lines([row])))

    assert said in str(refused.value)
    assert str(refused.value).startswith("a.jsonl: ")
    assert re.search(r"; name yours: (--column (contexts|answer)=COLUMN ?)+, or rename the column$", str(refused.value))


def test_a_preset_without_a_needed_column_says_so(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.tsv", "qid\tquestion\tanswer\tdoc_ids\n1\tq\ta\t['d']\n")

    with pytest.raises(InvalidInput) as refused:
        RecordReader(path, columns="seed_3")

    assert "a.tsv: preset seed_3 needs 'context' or 'contexts' for contexts; doc_ids name the passages but" in str(
        refused.value
    )


def test_an_unknown_preset_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        RecordReader(write_file(tmp_path, "a.jsonl", json_lines([MILL])), columns="deepevil")

    assert f"there is no preset 'deepevil'; expected one of {', '.join(PRESETS)}" in str(refused.value)


def test_a_first_row_of_another_form_does_not_decide(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.jsonl", json_lines([{"version": 2}, MILL]))

    records, problems = read_all(path)

    assert ([each.row for each in records], [each.row for each in problems]) == ([1], [0])


def test_columns_can_be_named_with_one_context_each(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.csv", "nr,q,c1,c2,out\n5,Why?,one,,so\n6,Why?,one,two,so\n")
    columns = ColumnMap(question="q", contexts=("c1", "c2"), answer="out", custom_id="nr")

    records, _ = read_all(path, columns=columns)

    assert [each.sample.contexts for each in records] == [("one",), ("one", "two")]
    assert [each.custom_id for each in records] == ["5", "6"]


def test_columns_can_be_named_inside_of_objects(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.jsonl", json_lines([{"run": {"out": "so", "in": {"docs": ["one"]}, "ms": 3}}]))

    ((record,), _) = read_all(path, columns=ColumnMap(contexts="run.in.docs", answer="run.out"))

    assert record.sample == Sample("", ("one",), "so")
    assert record.extra == {"run": {"out": "so", "in": {"docs": ["one"]}, "ms": 3}}


def test_a_named_column_that_the_table_has_not_is_refused(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.csv", "c,out\n1,2\n")

    with pytest.raises(InvalidInput, match=r"a.csv: has no column 'docs' for contexts; found the columns 'c', 'out'"):
        RecordReader(path, columns=ColumnMap(contexts="docs", answer="out"))


def test_a_batch_line_for_another_address_is_no_sample(tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [
        {"custom_id": "a", "url": "/v1/evaluations", "body": MILL},
        {"custom_id": "b", "url": "/v1/embeddings", "body": MILL},
    ]

    _, (problem,) = read_all(write_file(tmp_path, "a.jsonl", json_lines(lines)))

    assert problem.custom_id == "b"
    assert str(problem) == "row 1 (line 2): url is '/v1/embeddings'; expected '/v1/evaluations'"


@pytest.mark.parametrize(
    ("cell", "separator", "contexts"),
    load_cases("record_columns", "the_contexts_of_a_cell_are_a_list_or_parts_or_one_text"),
)
def test_the_contexts_of_a_cell_are_a_list_or_parts_or_one_text(
    cell: str, separator: str, contexts: tuple[str, ...]
) -> None:
    assert context_texts(cell, separator or None) == contexts


@pytest.mark.parametrize("cell", ["['one', two]", "['one", '["one", 2]', "['one'] ['two']"])
def test_a_cell_that_begins_as_a_list_and_is_none_is_refused(cell: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        context_texts(cell)
