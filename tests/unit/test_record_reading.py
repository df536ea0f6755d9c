"""Data files as records: what is read, what is said of bad rows, and where reading goes on."""

import gzip
import json
from contextlib import closing
from pathlib import Path

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.json_rows import JsonLineRows, open_json
from plumbline.rows.records.reading import RecordReader, SeenIds
from plumbline.rows.records.record import BadRow
from tests.making.cases import load_cases
from tests.making.record_files import MILL, json_lines, mills, read_all, write_file


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.jsonl.gz", "A.NDJSON.GZ", "a.json", "a.json.gz"])
def test_json_is_read_by_its_suffix_plain_or_compressed(tmp_path: Path, name: str) -> None:
    rows = mills(3)
    text = json.dumps(rows, indent=1) if ".json" in name and ".jsonl" not in name else json_lines(rows)
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.lower().endswith(".gz") else text.encode())

    records, problems = read_all(path)

    assert problems == []
    assert [(each.row, each.custom_id) for each in records] == [(0, "mill-0"), (1, "mill-1"), (2, "mill-2")]
    assert records[2].sample.answer == "It has 2 wheels."
    assert records[2].sample.contexts == ("The mill was built in 1890.",)


def test_gzip_is_known_by_its_bytes_and_not_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(gzip.compress(json_lines(mills(2)).encode()))

    assert len(read_all(path)[0]) == 2


def test_a_row_without_an_id_is_called_by_its_number_and_other_fields_are_kept(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [MILL, {**MILL, "custom_id": 17, "tiers": ["lexical"]}, {**MILL, "custom_id": None}]
    records, _ = read_all(write_file(tmp_path, "a.jsonl", json_lines(rows)))

    assert [each.custom_id for each in records] == ["0", "17", "2"]
    assert records[1].extra == {"tiers": ["lexical"]}


def test_a_mark_crlf_and_blank_lines_are_no_rows(tmp_path: Path) -> None:
    text = "\ufeff\r\n" + json_lines(mills(2)).replace("\n", "\r\n \r\n")
    records, problems = read_all(write_file(tmp_path, "a.jsonl", text))

    assert ([each.row for each in records], problems) == ([0, 1], [])


def test_one_bad_line_in_the_middle_costs_no_other(tmp_path: Path) -> None:
    lines = json_lines(mills(3)).splitlines()
    lines[1] = lines[1][:30]
    records, (problem,) = read_all(write_file(tmp_path, "a.jsonl", "\n".join(lines)))

    assert [each.row for each in records] == [0, 2]
    assert (problem.row, problem.line, problem.custom_id) == (1, 2, None)
    assert str(problem).startswith("row 1 (line 2): not JSON at column ")


BAD_VALUES = load_cases("record_reading", "a_bad_value_is_named_by_row_line_and_column")
TOO_LONG = (json.dumps({"custom_id": "x" * 201}), "custom_id has 201 characters; expected at most 200")


@pytest.mark.parametrize(("fields", "said"), [*BAD_VALUES, TOO_LONG])
def test_a_bad_value_is_named_by_row_line_and_column(tmp_path: Path, fields: str, said: str) -> None:
    path = write_file(tmp_path, "a.jsonl", json_lines([MILL, {**MILL, **json.loads(fields)}, MILL]))

    records, (problem,) = read_all(path)

    assert [each.row for each in records] == [0, 2]
    assert f"row 1 (line 2): {said}" in str(problem)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        *((line.encode(), said) for line, said in load_cases("record_reading", "bad_lines")),
        (b'{"contexts": [], "answer": "\xff"}', "text that is not UTF-8; expected text saved as UTF-8"),
        (b"[" * 9_000, "JSON that is too deep"),
    ],
)
def test_a_line_that_is_no_row_is_reported(tmp_path: Path, line: bytes, said: str) -> None:
    good = json_lines([MILL]).encode()

    records, (problem,) = read_all(write_file(tmp_path, "a.jsonl", good + line + b"\n" + good))

    assert [each.row for each in records] == [0, 2]
    assert said in str(problem)


def test_a_problem_quotes_no_passage(tmp_path: Path) -> None:
    secret = {**MILL, "answer": ["our secret answer"], "contexts": ["our secret passage"]}

    _, (problem,) = read_all(write_file(tmp_path, "a.jsonl", json_lines([MILL, secret])))

    assert "secret" not in str(problem)


def test_the_second_row_of_an_id_is_reported(tmp_path: Path) -> None:
    rows = [{**MILL, "custom_id": each} for each in ("a", "b", "a", "c", "4")] + [MILL]
    rows[4], rows[5] = {**MILL, "custom_id": "5"}, dict(MILL)

    records, problems = read_all(write_file(tmp_path, "a.jsonl", json_lines(rows)))

    assert [each.row for each in records] == [0, 1, 3, 4]
    assert str(problems[0]) == (
        "row 2 (line 3): custom_id 'a', which an earlier row has; expected one row for each custom_id"
    )
    # Row 5 has no id of its own, and an earlier one took its number
    assert problems[1].row == 5


def test_ids_beyond_the_room_for_them_are_let_through() -> None:
    seen = SeenIds(most=768)

    assert not any(seen.add(str(number)) for number in range(2_000))
    assert seen.add("0")
    assert not seen.add("1999")


def test_a_row_longer_than_the_limit_is_skipped_to_its_end(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.jsonl.gz", b'{"a":"' + b"x" * 5_000_000 + b'"}\n{"a": 1}\n')

    with closing(JsonLineRows(path, max_bytes=1_000)) as source:
        long, short = source

    assert isinstance(long.fields, BadRow)
    assert long.fields.found == "a row of more than 1000 bytes"
    assert short.fields == {"a": 1}


def test_an_array_over_the_limit_is_refused_with_the_way_to_json_lines(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.json", b'[{"a":"' + b"x" * 1_000 + b'"}]')

    with pytest.raises(InvalidInput, match=r"a.json: the file has an array of more than 1000 bytes; .*jq -c"):
        open_json(path, max_bytes=1_000)


@pytest.mark.parametrize(
    ("text", "said"), load_cases("record_reading", "an_array_that_is_none_or_is_cut_off_is_refused")
)
def test_an_array_that_is_none_or_is_cut_off_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_all(write_file(tmp_path, "a.json", text))

    assert said in str(refused.value)


def test_an_element_of_an_array_that_is_no_row_costs_no_other(tmp_path: Path) -> None:
    records, problems = read_all(write_file(tmp_path, "a.json", json.dumps([MILL, 3, {**MILL, "answer": 1}, MILL])))

    assert ([each.row for each in records], [each.row for each in problems]) == ([0, 3], [1, 2])


def test_brackets_commas_and_escapes_inside_of_text_end_no_element(tmp_path: Path) -> None:
    tricky = {**MILL, "answer": 'a "]},{[ \\" \\\\', "contexts": ["]", "\\", "\n"]}

    records, problems = read_all(write_file(tmp_path, "a.json", json.dumps([tricky, tricky])))

    assert problems[:0] == []
    assert records[0].sample.answer == tricky["answer"]
    assert records[0].sample.contexts == ("]", "\\", "\n")


@pytest.mark.parametrize(
    ("name", "format_", "said"),
    [
        ("a.docx", None, "its suffix is none of .jsonl, .ndjson, .json, .csv, .tsv, .parquet"),
        ("a.jsonl", "yaml", "there is no format 'yaml'; expected one of jsonl, json, csv, tsv, parquet"),
        ("absent.jsonl", None, "absent.jsonl: cannot be read (No such file"),
    ],
)
def test_a_file_of_no_known_form_is_refused(tmp_path: Path, name: str, format_: str | None, said: str) -> None:
    if not name.startswith("absent"):
        write_file(tmp_path, name, "")

    with pytest.raises(InvalidInput) as refused:
        RecordReader(tmp_path / name, format=format_)

    assert said in str(refused.value)


def test_a_file_without_a_good_row_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no good row among its first 100; row 0 \(line 1\): not JSON at column 1"):
        RecordReader(write_file(tmp_path, "a.jsonl", "no\nno\n"))


def test_nodes_of_llamaindex_are_read(tmp_path: Path) -> None:
    row = {"contexts": [{"node": {"text": "The kettle holds 1.7 litres."}, "score": 0.5}], "answer": "1.7 litres."}

    records, _ = read_all(write_file(tmp_path, "a.jsonl", json.dumps(row)))

    assert records[0].sample.contexts == ("The kettle holds 1.7 litres.",)


@pytest.mark.parametrize(
    "header", ["question;contexts;answer", '"question";"contexts";"answer"', "\ufeffquestion;contexts;answer"]
)
def test_a_csv_of_semicolons_is_read(tmp_path: Path, header: str) -> None:
    """Spreadsheets write them where the comma is for decimals."""
    text = f'{header}\nq;"It holds 1,7 litres; no more.";1,7 litres\nr;Steel.;Steel.\n'

    (first, second), _ = read_all(write_file(tmp_path, "a.csv", text))

    assert (first.sample.contexts, first.sample.answer) == (("It holds 1,7 litres; no more.",), "1,7 litres")
    assert second.sample.question == "r"
