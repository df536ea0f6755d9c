"""Results into files: whole or not at all, resumed where they stopped, safe in a spreadsheet."""

import csv
import json
from pathlib import Path

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.result_table import RESULT_COLUMNS, flat_result, original_text, safe_text
from plumbline.rows.records.writing import ResultWriter
from tests.making.record_files import write_and_fail

RESULT: dict[str, object] = {
    "custom_id": "m1",
    "row": 4,
    "status": "judged",
    "tier": "llm",
    "faithfulness": 0.75,
    "hallucination_rate": 0.25,
    "context_utilization": 1,
    "passed": False,
    "threshold": 0.8,
    "confidence": None,
    "counts": {"supported": 3, "partial": 0, "contradicted": 1, "not_mentioned": 0, "not_a_claim": 2},
    "judge": {"model": "m", "prompt": "verify@v1.en", "calls": 1, "tokens": {"prompt": 10}},
    "usage": {"calls": 2, "prompt_tokens": 30, "completion_tokens": 5, "cost": 0.01},
    "flags": ["degraded"],
    "warnings": ["the second context was cut, 中文"],
    "claims": [{"id": "c1"}],
}


def cells_of(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter, strict=True))


@pytest.mark.parametrize(("name", "delimiter"), [("r.csv", ","), ("r.tsv", "\t")])
def test_a_table_has_one_row_a_result_under_a_fixed_header(tmp_path: Path, name: str, delimiter: str) -> None:
    path = tmp_path / name
    with ResultWriter(path) as writer:
        writer.write(RESULT)
        writer.write({"id": "m2", "status": "not_judged", "error": {"title": "Bad row", "detail": "no answer"}})

    first, second = cells_of(path, delimiter)

    assert list(first) == list(RESULT_COLUMNS)
    given = {column: cell for column, cell in first.items() if cell}
    assert given == {
        "custom_id": "m1",
        "row": "4",
        "status": "judged",
        "tier": "llm",
        "passed": "false",
        "faithfulness": "0.75",
        "hallucination_rate": "0.25",
        "context_utilization": "1.0",
        "threshold": "0.8",
        "supported": "3",
        "partial": "0",
        "contradicted": "1",
        "not_mentioned": "0",
        "not_a_claim": "2",
        "model": "m",
        "prompt": "verify@v1.en",
        "calls": "2",
        "prompt_tokens": "30",
        "completion_tokens": "5",
        "cost": "0.01",
        "flags": '["degraded"]',
        "warnings": '["the second context was cut, 中文"]',
    }
    assert (second["custom_id"], second["error"], second["flags"]) == ("m2", "no answer", "")


def test_a_result_under_its_own_name_is_flattened_alike() -> None:
    inner = {name: value for name, value in RESULT.items() if name not in {"custom_id", "row"}}

    assert flat_result({"custom_id": "m1", "row": 4, "error": None, "result": inner}) == flat_result(RESULT)


def test_json_lines_hold_the_whole_result(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with ResultWriter(path) as writer:
        writer.write(RESULT)
        writer.write({"custom_id": "m2", "faithfulness": float("nan"), "warnings": ("\u2028",)})

    first, second = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]

    assert first == RESULT
    assert second == {"custom_id": "m2", "faithfulness": None, "warnings": ["\u2028"]}


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", "＝1", "'=1", "''@x"])
def test_a_text_that_a_spreadsheet_would_run_is_neutralised(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.csv"
    with ResultWriter(path) as writer:
        writer.write({"custom_id": text, "error": text, "cost": -1.5})

    (row,) = cells_of(path)

    assert row["custom_id"] == row["error"] == f"'{text}"
    assert original_text(row["custom_id"]) == text
    assert row["cost"] == "-1.5"


@pytest.mark.parametrize("text", ["", "a=1", "'a", "'", "1-2", " =", "磨坊"])
def test_a_harmless_text_stays_as_it_is(text: str) -> None:
    assert safe_text(text) == text
    assert original_text(text) == text


@pytest.mark.parametrize("name", ["r.jsonl", "r.csv"])
def test_the_target_is_untouched_until_all_is_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("before")
    with ResultWriter(path) as writer:
        writer.write(RESULT)
        writer.flush()
        during = path.read_text()

    assert during == "before"
    assert "m1" in path.read_text(encoding="utf-8")
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_table_that_fails_leaves_nothing_and_json_lines_leave_what_to_go_on_with(tmp_path: Path) -> None:
    for name in ("r.csv", "r.jsonl"):
        write_and_fail(tmp_path / name)

    assert [each.name for each in tmp_path.iterdir()] == ["r.jsonl.partial"]


def test_a_stopped_file_is_resumed_without_its_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    (tmp_path / "r.jsonl.partial").write_text('{"custom_id":"a"}\n{"id":"b","custom_id":null}\n{"custom_id":"c"')

    with ResultWriter(path, resume=True) as writer:
        done = list(writer.written_ids())
        writer.write({"custom_id": "c"})
        now = list(writer.written_ids())

    assert (done, now) == (["a", "b"], ["a", "b", "c"])
    assert path.read_text().split("\n") == [
        '{"custom_id":"a"}',
        '{"id":"b","custom_id":null}',
        '{"custom_id":"c"}',
        "",
    ]


def test_a_torn_first_line_longer_than_a_block_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl.partial").write_text('{"custom_id":"' + "x" * 200_000)

    with ResultWriter(tmp_path / "r.jsonl", resume=True) as writer:
        assert list(writer.written_ids()) == []

    assert (tmp_path / "r.jsonl").read_bytes() == b""


def test_a_finished_file_is_gone_on_with_in_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with ResultWriter(path, resume=True) as writer:
        writer.write({"custom_id": "a"})

    write_and_fail(path, custom_id="b", resume=True)

    assert path.read_text() == '{"custom_id":"a"}\n'
    with ResultWriter(path, resume=True) as writer:
        assert list(writer.written_ids()) == ["a", "b"]


def test_what_is_no_result_is_not_resumed(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"answer": "a"}\n')

    with (
        pytest.raises(InvalidInput, match="a line is no result with a custom_id; write to a new file"),
        ResultWriter(path, resume=True) as writer,
    ):
        list(writer.written_ids())


def test_a_value_that_json_cannot_hold_leaves_no_half_line(tmp_path: Path) -> None:
    with ResultWriter(tmp_path / "r.jsonl") as writer:
        writer.write({"custom_id": "a"})
        for value in (object(), "\ud800"):
            with pytest.raises(ValueError, match="a result that JSON cannot hold"):
                writer.write({"custom_id": "b", "warnings": [value]})

    assert (tmp_path / "r.jsonl").read_text() == '{"custom_id":"a"}\n'


@pytest.mark.parametrize(
    ("name", "resume", "said"),
    [
        ("r.csv", True, "r.csv: csv cannot be resumed; write jsonl"),
        ("r.json", False, "r.json: results are written as jsonl, csv, tsv or parquet, not compressed"),
        ("r.jsonl.gz", False, "r.jsonl.gz: results are written as jsonl, csv, tsv or parquet, not compressed"),
        ("r.txt", False, "r.txt: its suffix is none of"),
        ("absent/r.csv", False, "r.csv: cannot be written (No such file"),
        (".", False, "is no file; expected the name of a new file or of one to replace"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path, name: str, resume: bool, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        ResultWriter(tmp_path / name, format="csv" if name == "." else None, resume=resume)

    assert said in str(refused.value)
