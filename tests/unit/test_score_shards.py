"""`plumbline score --shard K/N`: each row in exactly one shard, as a run of the whole file would score it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.cli.score.options import Shard
from plumbline.ground.errors import InvalidInput
from tests.making.score_files import comparable, read_rows, sample_row, score, write_rows

LEXICAL = ("--tiers", "lexical", "--quiet", "--min-judged", "0")
ROWS = 11


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows: list[dict[str, Any] | str] = [sample_row(number) for number in range(ROWS)]
    rows[4] = "not JSON"
    # The id of row 3, which is in another shard of two, of three and of four
    rows[8] = sample_row(3)
    return write_rows(tmp_path / "data.jsonl", rows)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 20])
def test_the_shards_of_a_file_hold_the_lines_of_one_run(tmp_path: Path, data: Path, count: int) -> None:
    whole = tmp_path / "whole.jsonl"
    assert score(data, "-o", whole, *LEXICAL) == 0

    lines: dict[int, bytes] = {}
    for number in range(1, count + 1):
        out = tmp_path / f"part-{number}.jsonl"
        assert score(data, "-o", out, "--shard", f"{number}/{count}", *LEXICAL) == 0
        for line in comparable(out).splitlines():
            lines[json.loads(line)["row"]] = line

    assert [lines[row] for row in sorted(lines)] == comparable(whole).splitlines()


@given(row=st.integers(0, 10**9), count=st.integers(1, 10**6))
def test_a_row_is_in_exactly_one_shard(row: int, count: int) -> None:
    number = row % count + 1

    assert Shard(number, count).has(row)
    assert not Shard(number % count + 1, count).has(row) or count == 1


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_an_interrupted_shard_resumes_behind_its_last_line(tmp_path: Path, data: Path, kept: int) -> None:
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert score(data, "-o", whole, "--shard", "2/3", *LEXICAL) == 0
    assert score(data, "-o", out, "--shard", "2/3", *LEXICAL) == 0
    lines = out.read_bytes().splitlines(keepends=True)
    _interrupt(out, b"".join(lines[:kept]))

    assert score(data, "-o", out, "--shard", "2/3", *LEXICAL) == 0

    assert comparable(out) == comparable(whole)
    assert [row["row"] for row in read_rows(out)] == [1, 4, 7, 10]


def _interrupt(out: Path, lines: bytes) -> None:
    """Leave the files as a killed run does."""
    out.unlink()
    out.with_name(f"{out.name}.partial").write_bytes(lines)


def test_another_shard_does_not_go_on_with_the_results_of_this_one(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    assert score(data, "-o", out, "--shard", "1/4", *LEXICAL) == 0
    before = out.read_bytes()

    assert score(data, "-o", out, "--shard", "2/4", *LEXICAL) == 2

    assert "out.jsonl: was made with other options" in capsys.readouterr().err
    assert out.read_bytes() == before


def test_a_limit_is_of_the_file_and_not_of_the_shard(tmp_path: Path, data: Path) -> None:
    out = tmp_path / "out.jsonl"

    assert score(data, "-o", out, "--shard", "2/2", "--limit", "6", *LEXICAL) == 0

    assert [row["row"] for row in read_rows(out)] == [1, 3, 5]


def test_an_estimate_is_of_the_shard(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert score(data, "--estimate", "--shard", "1/4", *LEXICAL) == 0

    assert capsys.readouterr().out.startswith("3 rows: ")


@pytest.mark.parametrize("given", ["0/4", "5/4", "4", "1/2/3", "-1/4", "a/b", "1/0", "", "٢/٤", "1 /4"])
def test_a_shard_that_is_none_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    assert score(tmp_path / "absent.jsonl", "-o", tmp_path / "out.jsonl", f"--shard={given}") == 2

    assert f"--shard {given!r}: expected K/N with K from 1 to N" in capsys.readouterr().err


def test_a_shard_parses_as_it_is_written() -> None:
    assert str(Shard.parse("3/16")) == "3/16"
    with pytest.raises(InvalidInput, match="K/N"):
        Shard.parse("1/9999999999")
