"""`plumbline retrieval evaluate` on TREC files."""

import gzip
import json
from pathlib import Path

import pytest

from plumbline.cli.main import main

QRELS = "q1 0 d1 2\nq1 0 d2 1\nq2 0 d4 1\n"
RUN = "q1 Q0 d1 1 9.0 tag\nq1 Q0 d3 2 8.0 tag\nq1 Q0 d2 3 7.0 tag\nq2 Q0 d9 1 5.0 tag\nq2 Q0 d4 2 4.0 tag\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "qrels.txt").write_text(QRELS, encoding="utf-8")
    (tmp_path / "run.txt.gz").write_bytes(gzip.compress(RUN.encode(), mtime=0))
    return str(tmp_path / "qrels.txt"), str(tmp_path / "run.txt.gz")


def test_a_run_is_measured_as_trec_eval_would(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["retrieval", "evaluate", *files, "-m", "mrr", "-m", "recall@1"])

    assert code == 0
    # mrr: 1 and 1/2; recall@1: 1 of 2, and 0.
    assert capsys.readouterr().out.splitlines() == ["run.txt.gz\tmrr\tall\t0.7500", "run.txt.gz\trecall@1\tall\t0.2500"]


def test_values_by_query_are_printed_on_request(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["retrieval", "evaluate", *files, "-m", "mrr", "--by-query"])

    assert capsys.readouterr().out.splitlines()[:2] == ["run.txt.gz\tmrr\tq1\t1.0000", "run.txt.gz\tmrr\tq2\t0.5000"]


def test_json_carries_the_conventions(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["retrieval", "evaluate", *files, "-m", "mrr", "--json", "--preset", "pytrec_eval"])

    said = json.loads(capsys.readouterr().out)
    assert said["conventions"]["score_precision"] == "float32"
    assert said["runs"][0]["measures"]["mrr"]["mean"] == 0.75


@pytest.mark.parametrize(
    ("qrels", "arguments", "said"),
    [
        ("q1 0 d1\n", [], "qrels.txt:1: "),
        (QRELS, ["-m", "ndgc@10"], "did you mean 'ndcg@10'"),
        (QRELS, ["--preset", "trec"], "trec_eval"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], qrels: str, arguments: list[str], said: str
) -> None:
    Path(files[0]).write_text(qrels, encoding="utf-8")

    code = main(["retrieval", "evaluate", *files, *arguments])

    error = capsys.readouterr().err
    assert code == 2
    assert said in error
    assert len(error.splitlines()) == 1


def test_a_missing_file_is_named(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["retrieval", "evaluate", files[0], "nowhere.txt"])

    assert code == 2
    assert "nowhere.txt: cannot be read" in capsys.readouterr().err


def test_identical_runs_are_compared_without_a_difference(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "twin.txt").write_text(RUN, encoding="utf-8")

    code = main(["retrieval", "compare", *files, str(tmp_path / "twin.txt"), "-m", "mrr", "--format", "csv"])

    lines = capsys.readouterr().out.splitlines()
    pair = dict(zip(lines[-2].split(","), lines[-1].split(","), strict=True))
    assert code == 0
    assert (float(pair["p"]), float(pair["diff"])) == (1.0, 0.0)


def test_fused_runs_are_written_as_a_run_that_can_be_read_again(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["retrieval", "fuse", files[1], files[1], "--method", "rrf"])
    fused = tmp_path / "fused.txt"
    fused.write_text(capsys.readouterr().out, encoding="utf-8")

    code = main(["retrieval", "evaluate", files[0], str(fused), "-m", "mrr"])

    assert code == 0
    assert capsys.readouterr().out == "fused.txt\tmrr\tall\t0.7500\n"
