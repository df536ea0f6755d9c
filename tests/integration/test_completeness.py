"""No gate is green on rows that were never judged: one table of runs, by every way in."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# pytester drops modules that its runs import; httpx2 would keep the exceptions of a dropped one.
import httpcore2  # noqa: F401
import pytest

from plumbline.cli.main import main
from plumbline.client import Plumbline, summarize
from plumbline.main import create_app
from plumbline.schemas.report import ReportSummary
from tests.doubles.fakes import WordEncoder
from tests.making.score_files import score, write_rows
from tests.running.service import plain_settings, served

pytest_plugins = ["pytester"]

FACT = "The Marlow Bridge was opened in 1931."


def rows(count: int, **fields: Any) -> list[dict[str, Any] | str]:
    return [{"custom_id": f"{fields} {n}", "contexts": [FACT], "answer": FACT, **fields} for n in range(count)]


# Rows and what is said of them: of 20 half, of 10 nine or six were not judged
RUNS = {
    "unreadable": ([*rows(10), *rows(10, answer=float("nan"))], "10 of 20 rows: 10 in error"),
    "broken": ([*rows(1), *['{"custom_id": "cut'] * 9], "1 of 10 rows: 9 in error"),
    "no contexts": ([*rows(1), *rows(9, contexts=[])], "1 of 10 rows: 9 without contexts"),
    "empty": ([*rows(4), *rows(6, answer="")], "4 of 10 rows: 6 empty"),
}
LEXICAL = ("--tiers", "lexical")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = plain_settings(data_dir=tmp_path_factory.mktemp("jobs"))
    with served(create_app(settings, encoder=WordEncoder())) as url:
        yield url


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """Return the file of a run, and the count that its gate names."""
    lines, count = RUNS[request.param]
    return write_rows(tmp_path / "rows.jsonl", lines), count


@pytest.mark.parametrize("form", ["jsonl", "csv"])
@pytest.mark.parametrize(
    "gate",
    [(), ("--fail-under", "passed_share=0.9"), ("--max-unsupported", "0.1"), ("--max-degraded", "0.02"), "baseline"],
    ids=str,
)
def test_a_run_exits_with_1_and_the_count_and_so_does_a_second_look(
    run: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, gate: tuple[str, ...] | str
) -> None:
    data, count = run
    if gate == "baseline":
        score(data, "-o", tmp_path / "before.jsonl", *LEXICAL, "--quiet")
        gate = ("--baseline", str(tmp_path / "before.jsonl"))
    written = ("--junit", tmp_path / "gates.xml", "--markdown", tmp_path / "gates.md")

    for _ in range(2):
        assert score(data, "-o", tmp_path / f"out.{form}", *LEXICAL, *gate, *written) == 1
        said = capsys.readouterr().err
        assert f"gate judged: FAILED: wanted at least 0.95, got 0.{round(eval_share(count)):04} ({count})" in said
    assert f"({count})" in (tmp_path / "gates.xml").read_text("utf-8").partition("<failure")[2]
    assert "All gates passed" not in (tmp_path / "gates.md").read_text("utf-8")
    assert score(data, "-o", tmp_path / f"out.{form}", *LEXICAL, "--min-judged", "0") == 0


def eval_share(count: str) -> float:
    judged, _, of, *_ = count.split()
    return 10_000 * int(judged) / int(of)


def test_a_service_and_a_report_say_so_too(
    run: tuple[Path, str], url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, count = run
    out, page, figures = (str(tmp_path / name) for name in ("out.jsonl", "r.html", "r.json"))

    assert score(data, "-o", out, *LEXICAL, "--url", url) == 1
    assert f"({count})" in capsys.readouterr().err
    for arguments in (["-o", page], ["-o", figures], ["--max-unsupported", "1"]):
        assert main(["report", out, *arguments]) == 1
        assert f"({count})" in capsys.readouterr().err
    assert f"({count})" in Path(page).read_text("utf-8")
    summary = ReportSummary.model_validate_json(Path(figures).read_bytes())
    assert [(gate.name, gate.passed) for gate in summary.gates] == [("judged", False)]
    assert main(["report", out, "-o", page, "--min-judged", "0"]) == 0


def test_the_report_of_a_job_and_the_summary_of_a_client_say_so_too(run: tuple[Path, str], url: str) -> None:
    data, count = run
    with Plumbline(url) as client:
        job = client.jobs.submit(data, options={"tiers": ["lexical"]})
        job.wait(poll_seconds=0.02)
        page = job.report(gates=["passed_share=0.9"]).decode()
        summary = ReportSummary.model_validate_json(job.report(format="json", gates=["passed_share=0.9"]))
        lenient = ReportSummary.model_validate_json(job.report(format="json", gates=["degraded=1", "judged=0"]))
        told = summarize(job.results(), gates=["passed_share=0.9"])

    assert f"({count})" in page
    assert "All gates passed" not in page
    assert {gate.name for gate in summary.gates if not gate.passed} == {"judged", "passed_share"}
    assert [(gate.name, gate.passed) for gate in lenient.gates] == [("degraded", True)]
    assert told.gates == summary.gates


def test_the_summary_of_evaluate_many_counts_samples_without_a_verdict(url: str) -> None:
    samples: list[dict[str, Any]] = [
        {"contexts": [FACT], "answer": FACT},
        {"contexts": [FACT]},
        {"contexts": [FACT], "answer": "?"},
    ]
    with Plumbline(url) as client:
        summary = client.evaluate_many(samples, options={"tiers": ["lexical"]}).summarize(["passed_share=0.3"])

    assert [(gate.name, gate.passed, gate.got.partition(" (")[2]) for gate in summary.gates] == [
        ("passed_share", True, ""),
        ("judged", False, "1 of 3 rows: 1 in error, 1 empty)"),
    ]


@pytest.mark.parametrize("name", ["no contexts", "empty"])
def test_the_gate_of_pytest_says_so_too(name: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    lines, count = RUNS[name]
    pytester.makepyfile(f"""
        import json, pytest
        @pytest.mark.plumbline_batch
        def test_all(plumbline):
            for row in json.loads({json.dumps(lines)!r}):
                plumbline.assert_faithful(row["answer"], row["contexts"])
    """)
    chosen = ("--plumbline-tiers=lexical", "--plumbline-gate=faithfulness=0")

    result = pytester.runpytest_inprocess("-p", "plumbline.integrations.pytest_plugin", *chosen)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["gate faithfulness: passed*", f"gate judged: FAILED: *({count})"])


@pytest.mark.parametrize("answer", ["", "I do not know."])
def test_a_run_of_which_nothing_was_judged_passes_no_gate_however_lenient(tmp_path: Path, answer: str) -> None:
    data, markdown = write_rows(tmp_path / "rows.jsonl", rows(3, answer=answer)), tmp_path / "gates.md"
    lenient = ("--max-abstained", "1", "--max-degraded", "1", "--min-judged", "0", "--markdown", markdown)

    assert score(data, "-o", tmp_path / "out.jsonl", *LEXICAL, *lenient) == 1

    assert "❌" in markdown.read_text("utf-8")
