"""`plumbline score`, run whole in this process with tier lexical: files in, files out, codes."""

import csv
import gzip
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from plumbline.cli.main import main
from tests.making.cases import load_cases
from tests.making.score_files import comparable, read_rows, sample_row, score, write_rows

ROOT = Path(__file__).parents[2]
LEXICAL = ("--tiers", "lexical", "--quiet")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "data.jsonl", [sample_row(number) for number in range(12)])


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_each_row_has_its_line_in_input_order_and_nothing_else_is_left_but_the_state(
    tmp_path: Path, data: Path
) -> None:
    out = tmp_path / "out.jsonl"

    assert score(data, "-o", out, *LEXICAL) == 0

    rows = read_rows(out)
    assert [(row["row"], row["custom_id"]) for row in rows] == [(n, f"q{n}") for n in range(12)]
    assert all(row["result"]["tier"] == "lexical" and row["result"]["id"] == row["custom_id"] for row in rows)
    assert {path.name for path in tmp_path.iterdir()} == {"data.jsonl", "out.jsonl", "out.jsonl.state"}


def test_a_bad_line_is_reported_by_number_and_costs_no_other_row(tmp_path: Path) -> None:
    rows: list[dict[str, Any] | str] = [sample_row(number, context_words=200) for number in range(41)]
    rows[20] = '{"custom_id": "q20", "contexts": ["cut off'
    data, out = write_rows(tmp_path / "data.jsonl", rows), tmp_path / "out.jsonl"

    assert score(data, "-o", out, *LEXICAL) == 0

    written = read_rows(out)
    bad = written.pop(20)
    assert (bad["row"], bad["line"], bad["error"]["status"]) == (20, 21, 422)
    assert len(written) == 40
    assert all(row["result"]["status"] == "judged" for row in written)


@pytest.mark.parametrize("concurrency", [1, 3, 64])
def test_how_many_are_under_way_changes_nothing_in_the_results(tmp_path: Path, data: Path, concurrency: int) -> None:
    assert score(data, "-o", tmp_path / "a.jsonl", *LEXICAL) == 0
    assert score(data, "-o", tmp_path / "b.jsonl", *LEXICAL, "--concurrency", concurrency) == 0

    assert comparable(tmp_path / "a.jsonl") == comparable(tmp_path / "b.jsonl")


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_tables_hold_what_the_lines_hold(tmp_path: Path, data: Path, form: str) -> None:
    lines, table = tmp_path / "out.jsonl", tmp_path / f"out.{form}"
    assert score(data, "-o", lines, *LEXICAL) == 0
    assert score(data, "-o", table, *LEXICAL) == 0

    expected = [(row["custom_id"], row["result"]["faithfulness"]) for row in read_rows(lines)]
    assert read_table(table, form) == expected
    rest = {f"{table.name}.state", f"{table.name}.lines.gz"}
    assert {path.name for path in tmp_path.glob(f"out.{form}*")} == {table.name, *rest}
    assert score(data, "-o", table, *LEXICAL, "--fail-under", "faithfulness=0.99") == 1


def read_table(path: Path, form: str) -> list[tuple[str, float]]:
    import csv

    with path.open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file, delimiter="," if form == "csv" else "\t"))
    return [(row["custom_id"], float(row["faithfulness"])) for row in found]


def test_rows_come_from_standard_input_and_go_to_standard_output(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert score(data, "-o", tmp_path / "out.jsonl", *LEXICAL) == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data.read_bytes())))

    assert score("-", "-o", "-", *LEXICAL) == 0

    found = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert [row["result"]["faithfulness"] for row in found] == [
        row["result"]["faithfulness"] for row in read_rows(tmp_path / "out.jsonl")
    ]


def test_columns_are_named_by_preset_or_one_by_one(tmp_path: Path) -> None:
    ragas = [{"user_input": "q?", "retrieved_contexts": ["It rains."], "response": "It rains."}]
    own = [{"resp": "It rains.", "c1": "It rains.", "c2": "It snows.", "n": 7}]
    joined = [{"answer": "It rains.", "contexts": "It rains.|It snows."}]
    for name, rows, options in (
        ("ragas", ragas, ["--columns", "ragas"]),
        ("own", own, ["--column", "answer=resp", "--column", "contexts=c1,c2", "--column", "custom_id=n"]),
        ("joined", joined, ["--context-separator", "|"]),
    ):
        data = write_rows(tmp_path / f"{name}.jsonl", rows)
        assert score(data, "-o", tmp_path / f"{name}.out.jsonl", *LEXICAL, *options) == 0
        (row,) = read_rows(tmp_path / f"{name}.out.jsonl")
        assert row["result"]["contexts_used"] == [0]
        assert row["result"]["scores"]["contexts_used_share"] == (1.0 if name == "ragas" else 0.5)
        assert row["custom_id"] == ("7" if name == "own" else "0")


def test_results_that_are_whole_are_not_made_again(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    assert score(data, "-o", out, *LEXICAL) == 0
    before = out.stat().st_mtime_ns

    assert score(data, "-o", out, "--tiers", "lexical") == 0
    assert "out.jsonl is complete" in said(capsys)
    assert out.stat().st_mtime_ns == before
    assert score(data, "-o", out, *LEXICAL, "--fail-under", "faithfulness=0.99") == 1
    assert score(data, "-o", out, *LEXICAL, "--restart") == 0
    assert out.stat().st_mtime_ns != before


@pytest.mark.parametrize(
    "changed", [["--threshold", "0.7"], ["--limit", "3"], ["--column", "answer=custom_id"], ["--no-cache"]]
)
def test_results_made_otherwise_are_neither_resumed_nor_taken_for_these(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str], changed: Sequence[str]
) -> None:
    out = tmp_path / "out.jsonl"
    assert score(data, "-o", out, *LEXICAL) == 0
    before = out.read_bytes()

    assert score(data, "-o", out, *LEXICAL, *changed) == 2

    assert said(capsys).startswith("plumbline: out.jsonl: was made with other options, from another input or")
    assert out.read_bytes() == before


def test_another_input_and_a_file_of_others_are_refused(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    assert score(data, "-o", out, *LEXICAL) == 0
    write_rows(data, [sample_row(number, seed=1) for number in range(12)])
    assert score(data, "-o", out, *LEXICAL) == 2
    assert "from another input" in said(capsys)

    (tmp_path / "notes.jsonl").write_text("mine\n")
    assert score(data, "-o", tmp_path / "notes.jsonl", *LEXICAL) == 2
    assert "is no output of this command" in said(capsys)
    assert (tmp_path / "notes.jsonl").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("options", "told"), load_cases("score_command", "what_the_user_can_fix_is_one_line_and_code_2")
)
def test_what_the_user_can_fix_is_one_line_and_code_2(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: Sequence[str], told: str
) -> None:
    monkeypatch.chdir(data.parent)

    assert score(data, "--quiet", *options) == 2

    error = said(capsys)
    assert told in error
    assert len(error.splitlines()) == 1
    assert not list(data.parent.glob("x.*"))


def test_a_program_is_told_in_json_lines(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert score(data, "-o", tmp_path / "out.jsonl", "--tiers", "lexical", "--json") == 0

    last = json.loads(said(capsys).splitlines()[-1])
    scores = [row["result"]["faithfulness"] for row in read_rows(tmp_path / "out.jsonl")]
    assert (last["event"], last["complete"], last["rows"], last["share"]) == ("ended", True, 12, 1.0)
    assert last["tier_counts"] == {"llm": 0, "embedding": 0, "lexical": 12}
    assert [(gate["name"], gate["passed"]) for gate in last["gates"]] == [("judged", True)]
    assert last["means"]["lexical"] == pytest.approx(sum(scores) / 12, abs=1e-6)
    assert last["passed"] == sum(row["result"]["passed"] for row in read_rows(tmp_path / "out.jsonl"))


def test_seed_1_token_f1_and_exact_match_have_means_in_score_and_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{**sample_row(number), "answer": "Jane Austen wrote it."} for number in range(3)]
    rows[0]["reference"], rows[1]["reference"] = "jane austen wrote it", "Jane Eyre"
    data, out = write_rows(tmp_path / "data.jsonl", rows), tmp_path / "out.jsonl"

    assert score(data, "-o", out, "--tiers", "lexical", "--json") == 0
    assert main(["report", str(out), "--format", "json"]) == 0

    shown = capsys.readouterr()
    # "jane" of 4 and of 2 words: 2 * 1/4 * 1/2 / (1/4 + 1/2) = 1/3
    expected = {"token_f1": pytest.approx((1 + 1 / 3) / 2, abs=1e-6), "exact_match": 0.5}
    assert json.loads(shown.err.splitlines()[-1])["reference_means"] == expected
    reported = json.loads(shown.out)["reference"]
    assert {name: reported[name]["mean"] for name in expected} == expected


def test_comparisons_by_n_grams_have_columns_means_and_gates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{**sample_row(number), "answer": "the cat is on the mat"} for number in range(2)]
    rows[0]["reference"], rows[1]["reference"] = "the cat sat on the mat", "。"
    data, out = write_rows(tmp_path / "data.jsonl", rows), tmp_path / "out.jsonl"

    wanted = ("--metrics", "gleu,bleu", "--fail-under", "gleu=0.5", "--fail-under", "bleu=0.9")
    assert score(data, "-o", out, "--tiers", "lexical", *wanted) == 1
    assert main(["report", str(out), "--format", "json"]) == 0
    assert score(data, "-o", tmp_path / "out.csv", "--tiers", "lexical", "--metrics", "gleu") == 0

    shown = capsys.readouterr()
    # 5 words, 3 pairs and 1 triple of 18 n-grams
    assert json.loads(shown.out)["reference"]["gleu"] == {"mean": 0.5, "low": None, "high": None, "rows": 1}
    assert "chrf" not in json.loads(shown.out)["reference"]
    assert read_rows(out)[1]["result"]["metrics"]["gleu"]["reason"] == "no_reference"
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        assert [row["gleu"] for row in csv.DictReader(file)] == ["0.5", ""]


def test_the_rows_that_passed_are_counted_over_all_parts_of_a_run(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    assert score(data, "-o", out, *LEXICAL, "--threshold", "0") == 0
    half = b"".join(out.read_bytes().splitlines(keepends=True)[:5])
    out.rename(tmp_path / "out.jsonl.partial").write_bytes(half)

    assert score(data, "-o", out, "--tiers", "lexical", "--threshold", "0", "--json") == 0

    last = json.loads(said(capsys).splitlines()[-1])
    assert (last["rows"], last["rows_now"], last["passed"]) == (12, 7, 12)


@pytest.mark.parametrize(("threshold", "is_warned"), [("0.5", False), ("1", True)])
def test_a_threshold_that_a_tier_cannot_reach_is_warned_of_before_the_run(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str], threshold: str, is_warned: bool
) -> None:
    assert score(data, "-o", tmp_path / "out.jsonl", "--tiers", "lexical", "--threshold", threshold) == 0

    lines = said(capsys).splitlines()
    warned = [place for place, line in enumerate(lines) if "): no answer judged there can pass" in line]
    assert bool(warned) == is_warned
    assert all(place < len(lines) - 1 for place in warned)


@pytest.mark.parametrize(("most", "code"), [("0.5", 0), ("0.4", 1)])
def test_a_share_of_rows_may_have_unsupported_claims(tmp_path: Path, most: str, code: int) -> None:
    foreign = [{**sample_row(n), "answer": "Zebras enjoy quantum jazz."} for n in range(2)]
    copied = [{**sample_row(n), "answer": sample_row(n)["contexts"][0], "custom_id": f"copy {n}"} for n in (2, 3)]
    data, junit = write_rows(tmp_path / "data.jsonl", [*foreign, *copied]), tmp_path / "gates.xml"

    # Two rows of four have one, which no gate but this one is about.
    assert score(data, "-o", tmp_path / "out.jsonl", *LEXICAL, "--max-unsupported", most, "--junit", junit) == code

    assert (b'failures="0"' in junit.read_bytes()) == (code == 0)


def test_gates_are_judged_told_and_written(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, junit, markdown = tmp_path / "out.jsonl", tmp_path / "gates.xml", tmp_path / "gates.md"
    written = ("--junit", junit, "--markdown", markdown)

    code = score(data, "-o", out, *LEXICAL, "--fail-under", "faithfulness=1", "--max-degraded", 0, *written)

    assert code == 1
    assert [line.split(":")[:2] for line in said(capsys).splitlines()] == [["gate faithfulness", " FAILED"]]
    assert b"<failure" in junit.read_bytes()
    assert "faithfulness" in markdown.read_text(encoding="utf-8")
    assert score(data, "-o", out, *LEXICAL, "--fail-under", "faithfulness=0.01", "--junit", junit) == 0
    assert b'failures="0"' in junit.read_bytes()


def test_a_baseline_that_was_better_fails_and_an_equal_one_does_not(tmp_path: Path, data: Path) -> None:
    before = tmp_path / "before.jsonl"
    assert score(data, "-o", before, *LEXICAL) == 0
    worse = write_rows(
        tmp_path / "worse.jsonl", [{**sample_row(n), "answer": "Nothing of it is so."} for n in range(12)]
    )

    assert score(data, "-o", tmp_path / "same.jsonl", *LEXICAL, "--baseline", before, "--max-drop", "0.02") == 0
    assert score(worse, "-o", tmp_path / "out.jsonl", *LEXICAL, "--baseline", before, "--max-drop", "0.02") == 1
    assert score(worse, "-o", tmp_path / "out.jsonl", *LEXICAL, "--baseline", before, "--max-drop", "1") == 0


def test_a_file_that_is_cut_off_is_scored_up_to_there_and_not_called_complete(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = gzip.compress(b"".join(data.read_bytes() for _ in range(200)), mtime=0)
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    options = (cut, "-o", tmp_path / "out.jsonl", *LEXICAL, "--fail-under", "faithfulness=1")

    assert score(*options) == 3

    assert "the gzip data ends too early" in said(capsys)
    rows = read_rows(tmp_path / "out.jsonl.partial")
    assert [row["row"] for row in rows] == list(range(len(rows)))
    assert len(rows) >= 12
    assert score(*options) == 3
    assert len(read_rows(tmp_path / "out.jsonl.partial")) == len(rows)


def test_a_terminal_is_shown_one_line_and_then_the_summary(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)

    assert score(data, "-o", tmp_path / "out.jsonl", "--tiers", "lexical") == 0

    shown = terminal.getvalue()
    assert "\r\x1b[K0 rows 0.0/s" in shown
    assert re.search(r"\n?12 rows: 12 passed; faithfulness lexical 0\.\d{3}; 0:0\d\nlowest: q\d+: passed, .*\n$", shown)


def test_reasons_and_warnings_are_in_the_language_asked_for_and_nothing_else_changes(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "data.jsonl", [{**sample_row(0), "answer": "Zebras jumped over Quito 77 times."}])
    english, chinese = tmp_path / "en.jsonl", tmp_path / "zh.jsonl"

    assert score(data, "-o", english, *LEXICAL) == 0
    assert score(data, "-o", chinese, *LEXICAL, "--lang", "zh") == 0

    first, second = (read_rows(path)[0]["result"]["claims"][0]["reason"] for path in (english, chinese))
    assert first.startswith("in no context: ")
    assert second.startswith("不在任何上下文中：")
    assert comparable(chinese).replace(second.encode(), first.encode()) == comparable(english)


@pytest.mark.parametrize("page", ["metrics.md", "metrics.zh.md"])
def test_the_criteria_of_the_guide_are_read_from_their_file(page: str, tmp_path: Path, data: Path) -> None:
    (criteria,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "how-to" / page).read_text("utf-8"), re.DOTALL)
    (tmp_path / "criteria.toml").write_text(criteria, encoding="utf-8")

    assert score(data, "-o", tmp_path / "out.jsonl", *LEXICAL, "--criteria", tmp_path / "criteria.toml") == 0

    metrics = read_rows(tmp_path / "out.jsonl")[0]["result"]["metrics"]
    assert {name: each["reason"] for name, each in metrics.items()} == dict.fromkeys(
        ("criterion_formal", "criterion_names_price"), "not_by_tier_lexical"
    )


@pytest.mark.parametrize(
    ("criteria", "said"),
    [
        ("name = 1", r"expected tables \[\[criteria\]\]"),
        ("[[criteria]]\nname = 'a b'\nquestion = 'q'\nlabels = {a = 1, b = 0}", "--criteria: 0 name String should"),
        ("[[criteria", "is not TOML in UTF-8"),
        (None, "cannot be read"),
    ],
)
def test_a_wrong_file_of_criteria_is_one_line(
    criteria: str | None, said: str, tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if criteria is not None:
        (tmp_path / "criteria.toml").write_text(criteria, encoding="utf-8")

    assert score(data, "-o", tmp_path / "out.jsonl", *LEXICAL, "--criteria", tmp_path / "criteria.toml") == 2

    assert re.search(said, capsys.readouterr().err)
