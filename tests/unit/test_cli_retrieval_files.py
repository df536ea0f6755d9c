"""Bad files on the command line: exit code 2 and one line with file and line; tables read on request."""

from pathlib import Path

import pytest

from plumbline.cli.main import main
from plumbline.retrieval import inputs
from plumbline.retrieval.text_file import ReadLimits
from tests.making.bad_files import BAD_FILES, BAD_TABLES, BOMB, GOOD_GOLD, GOOD_QRELS, GOOD_RETRIEVED, GOOD_RUN


def written(folder: Path, *, qrels: bytes, run: bytes) -> tuple[str, str]:
    (folder / "qrels.txt").write_bytes(qrels)
    (folder / "run.txt").write_bytes(run)
    return str(folder / "qrels.txt"), str(folder / "run.txt")


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    code = main(arguments)
    said = capsys.readouterr()

    assert code == 2
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


@pytest.mark.parametrize("fault", BAD_FILES)
def test_a_bad_file_is_refused_with_its_line(fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part, content, number, said = BAD_FILES[fault]
    files = written(tmp_path, **{"qrels": GOOD_QRELS, "run": GOOD_RUN, part: content})

    line = refused(["retrieval", "evaluate", *files], capsys)

    assert line.startswith(f"plumbline: {part}.txt{number}: ")
    assert said in line


@pytest.mark.parametrize(
    ("part", "content", "said"),
    [
        ("qrels", '{"q1": {"d2": 0.5}}', "qrels.txt: q1/d2: found the grade '0.5', wanted a whole number"),
        ("qrels", '{"q1": {"d2": -3000000000}}', "qrels.txt: q1/d2: found the grade '-3000000000'"),
        ("qrels", '{"q1": "d1"}', "qrels.txt: q1: wanted grades by document"),
        ("run", '{"q1": {"d2": "x"}}', "run.txt: q1/d2: found the score 'x', wanted a finite number"),
        ("run", '{"q1": ["d1", null]}', "run.txt: q1: found 'None' at rank 2"),
        ("run", '{"q1": ["d1", "d1"]}', "q1/d1: the document was retrieved twice; remove it, or set duplicates"),
        ("run", '[{"query_id": "q1", "output": "d1"}, {"query_id": "q2"}]', "run.txt:2: wanted an object"),
    ],
)
def test_bad_json_is_refused_with_file_query_and_document(
    part: str, content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = written(tmp_path, **{"qrels": b'{"q1": {"d1": 1}}', "run": b'{"q1": {"d1": 1.5}}', part: content.encode()})

    line = refused(["retrieval", "evaluate", *files], capsys)

    assert line.startswith(f"plumbline: {said}")
    assert f"{part}.txt" in line


def test_a_score_that_is_no_number_is_refused_when_runs_are_fused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = written(tmp_path, qrels=b'{"q1": {"d1": 1.5}}', run=b'{"q1": {"d1": null}}')

    assert refused(["retrieval", "fuse", good, bad], capsys).startswith(
        "plumbline: run.txt: q1/d1: found the score 'None'"
    )


@pytest.mark.parametrize("fault", BAD_TABLES)
@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_a_bad_table_is_refused_with_its_line(
    command: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part, content, number, said = BAD_TABLES[fault]
    files = written(tmp_path, **{"qrels": GOOD_GOLD, "run": GOOD_RETRIEVED, part: content})

    line = refused(["retrieval", command, "--tables", *files], capsys)

    assert line.startswith(f"plumbline: {part}.txt{number}: ")
    assert said in line


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

    assert said in refused(["retrieval", "evaluate", *written(tmp_path, qrels=GOOD_QRELS, run=content)], capsys)


def test_tables_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = written(tmp_path, qrels=GOOD_GOLD, run=GOOD_RETRIEVED)

    code = main(["retrieval", "evaluate", "--tables", *files, "-m", "context_recall", "--preset", "seed-3"])

    assert code == 0
    # q1: 1 of 2; q2: 1 of 1.
    assert capsys.readouterr().out == "run.txt\tcontext_recall\tall\t0.7500\n"


def test_tables_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = written(tmp_path, qrels=GOOD_GOLD, run=GOOD_RETRIEVED)
    (tmp_path / "worse.txt").write_bytes(b"qid\tdoc_ids\nq1\t['d3']\nq2\t['d9']\n")

    code = main(
        ["retrieval", "compare", "--tables", *files, str(tmp_path / "worse.txt"), "-m", "mrr", "--format", "csv"]
    )

    pair = capsys.readouterr().out.splitlines()[-1].split(",")
    assert code == 0
    # 1 and 1/2 against 0 and 0.
    assert (pair[:3], float(pair[3])) == (["mrr", "run.txt", "worse.txt"], 0.75)
