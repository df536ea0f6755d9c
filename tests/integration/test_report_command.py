"""`plumbline report`: whole files out, bad lines told by number, one line for what the user can fix."""

import gzip
import json
from pathlib import Path

import pytest

from plumbline.cli.main import main
from plumbline.schemas.report import ReportSummary
from tests.making.cases import load_cases
from tests.making.result_rows import error_line, scored_line
from tests.reading.report_html import Page

GOOD = [scored_line("a", 0.25, row=0), scored_line("b", 1.0, row=1), error_line("c", row=2)]
# However few rows were judged
ANY = ("--min-judged", "0")


def written(path: Path, lines: list[bytes]) -> Path:
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return written(tmp_path / "results.jsonl", GOOD)


def test_a_page_is_written_whole(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.html"
    target.write_text("the one before")

    code = main(["report", str(results), "-o", str(target), *ANY])

    page = Page(target.read_text(encoding="utf-8"))
    assert code == 0
    assert page.named("html") == [{"lang": "en"}]
    assert "results.jsonl" in page.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "results.jsonl"]
    assert capsys.readouterr() == ("", "")


def test_language_and_title_are_chosen(results: Path, tmp_path: Path) -> None:
    main(["report", str(results), "-o", str(tmp_path / "r.html"), "--lang", "zh", "--title", "夜间 <b>"])

    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert page.named("html") == [{"lang": "zh-Hans"}]
    assert "夜间 <b>" in page.text


@pytest.mark.parametrize("arguments", [["-o", "r.json"], ["-o", "r.txt", "--format", "json"]])
def test_json_is_the_summary(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    main(["report", str(results), *arguments])

    summary = ReportSummary.model_validate_json((tmp_path / arguments[1]).read_bytes())
    assert (summary.rows, summary.tiers[0].scores.faithfulness.mean) == (3, 0.625)


def test_without_a_target_it_goes_to_standard_output(results: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    main(["report", str(results), "--format", "json", "--worst", "1"])

    assert [row["custom_id"] for row in json.loads(capsysbinary.readouterr().out)["worst"]] == ["a"]


def test_a_baseline_is_compared_with(results: Path, tmp_path: Path) -> None:
    before = tmp_path / "before.jsonl.gz"
    before.write_bytes(gzip.compress(scored_line("a", 0.75) + b"\n"))

    main(["report", str(results), "-o", str(tmp_path / "r.json"), "--baseline", str(before)])

    comparison = json.loads((tmp_path / "r.json").read_bytes())["comparison"]
    assert [move["difference"] for move in comparison["worse"]] == [-0.5]


def test_bad_lines_are_told_by_number_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = written(tmp_path / "results.jsonl", [GOOD[0], b"", b'{"custom_id": "PLANTED"', GOOD[1]])

    code = main(["report", str(results), "-o", str(tmp_path / "r.json"), *ANY])

    assert code == 0
    assert capsys.readouterr().err == "results.jsonl:3: not JSON: Input data was truncated: skipped\n"
    assert json.loads((tmp_path / "r.json").read_bytes())["bad_lines"] == 1


def test_many_bad_lines_do_not_flood_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = written(tmp_path / "results.jsonl", [*[b"{"] * 1_030, GOOD[0]])

    main(["report", str(results), "-o", str(tmp_path / "r.json"), *ANY])

    said = capsys.readouterr().err.splitlines()
    assert (len(said), said[-1]) == (21, "results.jsonl: 1,010 more lines skipped")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], ""),
        ([b"question,contexts,answer", b"q,c,a"], " (line 1: not JSON: JSON is malformed: invalid character (byte 0))"),
        (
            [b'{"question": "q", "contexts": [], "answer": "a"}'] * 3,
            " (line 1: no row of results: Object missing required field `custom_id`)",
        ),
    ],
)
def test_a_file_without_a_row_is_no_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[bytes], why: str
) -> None:
    results = written(tmp_path / "results.jsonl", lines)

    code = main(["report", str(results), "-o", str(tmp_path / "r.html")])

    assert code == 2
    expected = f"contains no results{why}; expected what `plumbline score DATA -o results.jsonl` writes"
    assert capsys.readouterr().err == f"plumbline: results.jsonl: {expected}\n"
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize(("arguments", "said"), load_cases("report_command", "mistakes", inner=list))
def test_what_the_user_can_fix_is_one_line(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    written(tmp_path / "empty.jsonl", [])
    written(tmp_path / "other.jsonl", [b'{"id": "other", "contexts": ["x"], "answer": "y"}'])

    code = main(["report", *(each.format(dir=tmp_path, results=results) for each in arguments)])

    error = capsys.readouterr().err
    assert code == 2
    assert said in error
    assert len(error.splitlines()) == 1


@pytest.fixture
def shards(tmp_path: Path) -> list[str]:
    """Means 0.25, 1 and, of both, 0.625; half of all rows pass."""
    parts = [[scored_line("a", 0.25, row=0), error_line("c", row=2)], [scored_line("b", 1.0, row=1)], []]
    return [str(written(tmp_path / f"part-{number}.jsonl", part)) for number, part in enumerate(parts)]


@pytest.mark.parametrize(("bound", "code", "word"), [("0.62", 0, "passed"), ("0.63", 1, "FAILED")])
def test_gates_are_judged_on_the_rows_of_all_files(
    shards: list[str], capsys: pytest.CaptureFixture[str], bound: str, code: int, word: str
) -> None:
    assert main(["report", *shards, "--fail-under", f"faithfulness={bound}", *ANY]) == code

    out, said = capsys.readouterr()
    assert f"gate faithfulness: {word}: wanted at least {bound}, got 0.625" in said
    assert out == ""


def test_rows_in_error_fail_a_run_whose_gates_pass(shards: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", *shards, "--fail-under", "faithfulness=0.5"]) == 1

    assert "gate judged: FAILED: wanted at least 0.95, got 0.6667 (2 of 3 rows: 1 in error)" in capsys.readouterr().err


def test_a_page_of_several_files_shows_their_gates(shards: list[str], tmp_path: Path) -> None:
    assert main(["report", *shards, "-o", str(tmp_path / "r.html"), "--max-degraded", "0.4", *ANY]) == 0

    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "All gates passed" in page.text
    assert "0.625" in page.text


def test_a_baseline_is_a_gate_with_max_drop_alone(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = str(written(tmp_path / "before.jsonl", [scored_line("a", 0.75)]))

    assert main(["report", str(results), "--baseline", before, "--format", "json", *ANY]) == 0
    assert main(["report", str(results), "--baseline", before, "--max-drop", "0.1", "--markdown", "-"]) == 1

    out, said = capsys.readouterr()
    assert said.startswith("gate baseline: FAILED: wanted no drop beyond 0.1, got -0.500")
    assert out.count("no drop beyond 0.1") == 1


def test_the_bad_line_of_one_of_several_files_names_its_file(
    shards: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = str(written(tmp_path / "bad.jsonl", [GOOD[1], b"{"]))

    assert main(["report", *shards, bad, "--format", "json", *ANY]) == 0

    out, said = capsys.readouterr()
    assert said == "line 2 of bad.jsonl: not JSON: Input data was truncated: skipped\n"
    assert json.loads(out)["first_bad_lines"] == [
        {"line": 2, "problem": "bad.jsonl: not JSON: Input data was truncated"}
    ]


def test_the_page_shows_what_the_scored_file_had(results: Path, tmp_path: Path) -> None:
    text = "The bridge was opened in 1931."
    rows = [
        {"id": name, "q": f"When, {name}?", "contexts": ["x", "y", f"Yes. {text}"], "answer": text} for name in "zba"
    ]
    data = written(tmp_path / "samples.jsonl", [json.dumps(each).encode() for each in rows])

    code = main(
        ["report", str(results), "--data", str(data), "--column", "question=q", "-o", str(tmp_path / "r.html"), *ANY]
    )

    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert code == 0
    assert "When, a?" in page.text
    assert "When, z?" not in page.text
    assert [name for name, _ in page.elements].count("mark") == 4
