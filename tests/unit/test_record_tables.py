"""CSV and TSV as records: what cells may hold, and what a broken row costs."""

from contextlib import closing
from pathlib import Path

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.record import BadRow
from plumbline.rows.records.table_rows import TableRows
from tests.making.cases import load_cases
from tests.making.record_files import read_all, write_file

HEADER = "custom_id,question,contexts,answer\n"


def test_cells_hold_quotes_separators_and_line_ends(tmp_path: Path) -> None:
    cells = '7,"What, then?","[""a, b"", ""c""]","He said ""no"".\r\nThen, nothing."\r\n'

    ((record,), problems) = read_all(write_file(tmp_path, "a.csv", "\ufeff" + HEADER.replace("\n", "\r\n") + cells))

    assert problems == []
    assert record.custom_id == "7"
    assert record.sample.question == "What, then?"
    assert record.sample.contexts == ("a, b", "c")
    assert record.sample.answer == 'He said "no".\r\nThen, nothing.'


def test_the_line_of_a_row_counts_the_lines_inside_of_cells(tmp_path: Path) -> None:
    text = HEADER + '1,q,c,"one\ntwo\nthree"\n2,q,c\n3,q,c,a\n'

    records, (problem,) = read_all(write_file(tmp_path, "a.csv", text))

    assert [each.custom_id for each in records] == ["1", "3"]
    assert str(problem) == "row 1 (line 5): 3 cells; expected 4, as the header has"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        *((line.encode(), said) for line, said in load_cases("record_tables", "bad_lines")),
        (b"2,q,c,\xff", "text that is not UTF-8; expected text saved as UTF-8, or its encoding named: --encoding"),
    ],
)
def test_a_bad_line_of_a_table_costs_no_other(tmp_path: Path, line: bytes, said: str) -> None:
    data = HEADER.encode() + b"1,q,c,a\n" + line + b"\n3,q,c,a\n"

    records, (problem,) = read_all(write_file(tmp_path, "a.csv", data))

    assert [each.custom_id for each in records] == ["1", "3"]
    assert said in str(problem)


def test_a_quoted_cell_beyond_the_limit_is_given_up(tmp_path: Path) -> None:
    text = 'a,b\n1,"open\n' + "2,x\n" * 1_000

    with closing(TableRows(write_file(tmp_path, "a.csv", text), max_bytes=1_000)) as source:
        rows = list(source)

    assert len(rows) == 1_001
    assert isinstance(rows[0].fields, BadRow)
    assert rows[1].fields == {"a": "2", "b": "x"}


@pytest.mark.parametrize(("text", "said"), load_cases("record_tables", "headless"))
def test_a_table_without_a_header_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_all(write_file(tmp_path, "a.csv", text))

    assert said in str(refused.value)
