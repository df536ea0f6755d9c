"""`plumbline retrieval`: tables, JSON and runs out of files; a bad file is exit code 2 and one line with its place."""

import gzip
import json
from pathlib import Path

import pytest

from plumbline.cli.main import main
from plumbline.retrieval import inputs
from plumbline.retrieval.text_file import ReadLimits
from tests.making.bad_files import BAD_FILES, BAD_TABLES, BOMB, GOOD_GOLD, GOOD_QRELS, GOOD_RETRIEVED, GOOD_RUN
from tests.making.cases import load_cases

QRELS = b"q1 0 d1 2\nq1 0 d2 1\nq2 0 d4 1\n"
RUN = b"q1 Q0 d1 1 9.0 tag\nq1 Q0 d3 2 8.0 tag\nq1 Q0 d2 3 7.0 tag\nq2 Q0 d9 1 5.0 tag\nq2 Q0 d4 2 4.0 tag\n"
EVALUATE, COMPARE, FUSE = (("retrieval", name) for name in ("evaluate", "compare", "fuse"))


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Judgments, and twice the same run in two folders."""
    (tmp_path / "qrels.txt").write_bytes(QRELS)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.txt.gz").write_bytes(gzip.compress(RUN, mtime=0))
    return [str(tmp_path / name) for name in ("qrels.txt", "one/run.txt.gz", "two/run.txt.gz")]


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(arguments) == 0
    return capsys.readouterr().out.splitlines()


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


def written(folder: Path, *, qrels: bytes, run: bytes) -> tuple[str, str]:
    (folder / "qrels.txt").write_bytes(qrels)
    (folder / "run.txt").write_bytes(run)
    return str(folder / "qrels.txt"), str(folder / "run.txt")


def test_runs_are_measured_as_trec_eval_would_and_told_apart(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    # mrr: 1 and 1/2; recall@1: 1 of 2, and 0.
    assert told(capsys, *EVALUATE, *files[:2], "-m", "mrr", "-m", "recall@1", "--by-query") == [
        *(f"run.txt.gz\tmrr\t{query}" for query in ("q1\t1.0000", "q2\t0.5000")),
        *(f"run.txt.gz\trecall@1\t{query}" for query in ("q1\t0.5000", "q2\t0.0000")),
        *(f"run.txt.gz\t{mean}" for mean in ("mrr\tall\t0.7500", "recall@1\tall\t0.2500")),
    ]
    assert told(capsys, *EVALUATE, *files, "-m", "mrr") == [
        f"{name}/run.txt.gz\tmrr\tall\t0.7500" for name in ("one", "two")
    ]


def test_conventions_are_options_and_stand_in_json(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    options = ["-l", "2", "-J", "--ties", "docno_asc", "--gains", "1=1,2=3", "--no-relevant", "skip", "--seed", "7"]

    found = json.loads("".join(told(capsys, *EVALUATE, *files[:2], "-m", "recip_rank", "--json", *options)))
    preset = json.loads("".join(told(capsys, *EVALUATE, *files[:2], "--json", "--preset", "pytrec_eval")))

    expected = {"rel_level": 2, "judged_only": True, "ties": "docno_asc", "gain_map": {"1": 1.0, "2": 3.0}}
    assert expected.items() <= found["conventions"].items()
    assert found["runs"][0]["measures"]["mrr"]["mean"] == 1.0
    assert preset["conventions"]["score_precision"] == "float32"


def test_a_comparison_in_csv_is_one_table(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    head, pair = told(capsys, *COMPARE, *files, "-m", "mrr", "--format", "csv")
    means = told(capsys, *COMPARE, *files, "-m", "mrr", "--format", "csv", "--table", "means")

    found = dict(zip(head.split(","), pair.split(","), strict=True))
    assert (head.split(",")[:3], float(found["p"]), float(found["diff"])) == (["measure", "a", "b"], 1.0, 0.0)
    assert (len(means), means[0].split(",")[:2]) == (3, ["label", "run"])


def test_a_fusion_is_a_run_that_can_be_read_again(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fused = tmp_path / "fused.txt"
    fused.write_text("\n".join(told(capsys, *FUSE, *files[1:])), encoding="utf-8")

    assert told(capsys, *EVALUATE, files[0], str(fused), "-m", "mrr") == ["fused.txt\tmrr\tall\t0.7500"]
    assert told(capsys, *FUSE, *files[1:], "--k", "9", "--missing", "min")[0].split()[4] == repr(0.2)
    assert main([*FUSE, *files[1:], "--method", "wsum", "--tune", files[0], "--folds", "2"]) == 0
    assert "held out" in capsys.readouterr().err


def test_the_help_lists_the_measures(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*EVALUATE, "--help"])

    assert {"ndcg[@k],", "recall_budget,"} <= set(capsys.readouterr().out.split())


def test_tables_are_measured_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = written(tmp_path, qrels=GOOD_GOLD, run=GOOD_RETRIEVED)
    worse = tmp_path / "worse.txt"
    worse.write_bytes(b"qid\tdoc_ids\nq1\t['d3']\nq2\t['d9']\n")

    # q1: 1 of 2; q2: 1 of 1.
    measured = told(capsys, *EVALUATE, *tables, "-m", "context_recall", "--preset", "seed-3")
    pair = told(capsys, *COMPARE, *tables, str(worse), "--allow-disjoint", "-m", "mrr", "--format", "csv")[-1].split(
        ","
    )

    assert measured == ["run.txt\tcontext_recall\tall\t0.7500"]
    # 1 and 1/2 against 0 and 0.
    assert (pair[:3], float(pair[3])) == (["mrr", "run.txt", "worse.txt"], 0.75)


@pytest.mark.parametrize(("arguments", "said"), load_cases("retrieval_command", "wrong_arguments", inner=list))
def test_arguments_that_are_wrong_are_one_line(
    files: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert said in refused(capsys, *EVALUATE, *(each.format(*files) for each in arguments))


@pytest.mark.parametrize("fault", BAD_FILES)
def test_a_bad_file_is_refused_with_its_line(fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part, content, number, said = BAD_FILES[fault]
    files = written(tmp_path, **{"qrels": GOOD_QRELS, "run": GOOD_RUN, part: content})

    line = refused(capsys, *EVALUATE, *files)

    assert line.startswith(f"plumbline: {part}.txt{number}: ")
    assert said in line


@pytest.mark.parametrize("fault", BAD_TABLES)
def test_a_bad_table_is_refused_with_its_line(fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part, content, number, said = BAD_TABLES[fault]
    files = written(tmp_path, **{"qrels": GOOD_GOLD, "run": GOOD_RETRIEVED, part: content})

    line = refused(capsys, *EVALUATE, *files)

    assert line.startswith(f"plumbline: {part}.txt{number}: ")
    assert said in line


@pytest.mark.parametrize(
    ("part", "content", "said"), load_cases("retrieval_command", "bad_json_is_refused_with_file_query_and_document")
)
def test_bad_json_is_refused_with_file_query_and_document(
    part: str, content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = written(tmp_path, **{"qrels": b'{"q1": {"d1": 1}}', "run": b'{"q1": {"d1": 1.5}}', part: content.encode()})

    line = refused(capsys, *EVALUATE, *files)

    assert line.startswith(f"plumbline: {said}")
    assert f"{part}.txt" in line


@pytest.mark.parametrize(
    ("content", "limits", "said"),
    [
        (BOMB, ReadLimits(max_bytes=20_000_000, max_rows=100), "run.txt: the gzip data expands to more than 250 times"),
        (BOMB, ReadLimits(max_bytes=500_000, max_rows=100), "run.txt: the gzip data expands to more than 500000 bytes"),
        (GOOD_RUN, ReadLimits(max_bytes=40, max_rows=100), "run.txt: the file is larger than 40 bytes"),
        (GOOD_RUN, ReadLimits(max_bytes=1_000, max_rows=3), "run.txt:4: more than 3 rows"),
    ],
)
def test_a_file_over_a_limit_is_refused(
    *,
    content: bytes,
    limits: ReadLimits,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(inputs, "_LIMITS", limits)

    assert said in refused(capsys, *EVALUATE, *written(tmp_path, qrels=GOOD_QRELS, run=content))
