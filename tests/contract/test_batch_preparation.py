"""Preparing batch files: the same rows give the same bytes, and what cannot be right is said in one line."""

import json

import pytest

from tests.making.cases import load_cases
from tests.running.batch_file_runs import BAD_ROW, ROWS, Run
from tests.running.service import JUDGE_KEY


def test_the_same_rows_give_the_same_bytes(run: Run) -> None:
    run.prepare(*ROWS)
    first = run.manifest.read_bytes(), (run.folder / "requests.jsonl").read_bytes()

    run.prepare(*ROWS)
    assert (run.manifest.read_bytes(), (run.folder / "requests.jsonl").read_bytes()) == first


def test_another_secret_makes_other_marks_and_the_secret_is_in_no_request(run: Run) -> None:
    run.prepare(*ROWS)
    first = (run.folder / "requests.jsonl").read_bytes()
    secret = json.loads(run.manifest.read_text())["secret"]
    run.manifest.unlink()

    run.prepare(*ROWS)

    assert (run.folder / "requests.jsonl").read_bytes() != first
    assert secret not in first.decode()
    assert JUDGE_KEY not in run.manifest.read_text() + first.decode()
    assert run.manifest.stat().st_mode & 0o077 == 0


def test_a_preparation_counts_its_rows_and_requests(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.prepare(*ROWS, BAD_ROW) == 0

    said = capsys.readouterr().out
    assert "6 rows: 3 to be asked, 2 without the judge, 1 invalid" in said
    assert "3 requests to judge-1" in said


def test_stale_files_go_when_fewer_are_prepared(run: Run) -> None:
    run.prepare(*ROWS, options=["--max-requests", "1"])
    assert [path.name for path in sorted(run.folder.glob("requests*.jsonl"))] == [
        "requests-2.jsonl", "requests-3.jsonl", "requests.jsonl",
    ]  # fmt: skip

    run.prepare(*ROWS)

    assert [path.name for path in run.folder.glob("requests*.jsonl")] == ["requests.jsonl"]


def test_files_that_were_submitted_are_not_written_over(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.prepare(*ROWS)
    run.submit()

    assert run.prepare(*ROWS[:1]) == 2

    assert "requests.manifest.json: the files of this name were submitted already" in capsys.readouterr().err


@pytest.mark.parametrize(("changed", "said"), load_cases("batch_preparation", "addresses"))
def test_another_address_gets_nothing(
    run: Run,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    changed: dict[str, str],
    said: str,
) -> None:
    run.prepare(*ROWS)
    for name, value in changed.items():
        monkeypatch.setenv(name, value)

    assert run.submit() == 2

    assert said in capsys.readouterr().err


def test_rows_that_were_changed_are_not_collected(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.prepare(*ROWS)
    run.submit()
    run.rows(*ROWS[:2])

    assert run.collect() == 2

    assert capsys.readouterr().err == (
        "plumbline: data.jsonl: was changed since its batch files were prepared; expected the same bytes\n"
    )
    assert not (run.folder / "results.jsonl").exists()


def test_other_prompts_are_not_taken_for_the_same(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.prepare(*ROWS)
    run.submit()
    manifest = json.loads(run.manifest.read_text())
    manifest["asked"]["prompts"]["verify_claims/v4.en"] = "0" * 64
    run.manifest.write_text(json.dumps(manifest))

    assert run.collect() == 2

    assert "settings changed since the batch files were prepared: prompts; " in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["submit", "nothing.jsonl"], ["collect", "x.manifest.json", "-o", "r.jsonl"]])
def test_a_file_that_is_not_there_is_said_in_one_line(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(run.folder)

    assert run.step(*arguments) == 2

    assert len(capsys.readouterr().err.splitlines()) == 1


def test_no_file_of_a_run_is_written_over_another(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    data = run.rows(*ROWS)
    before = data.read_bytes()
    assert run.step("prepare", str(data), "-o", str(data)) == 2
    assert run.step("prepare", str(data), "-o", str(data.with_suffix(""))) == 2
    run.prepare(*ROWS)
    run.submit()
    for name in ("data.jsonl", "requests.jsonl", "requests.manifest.json"):
        assert run.step("collect", str(run.manifest), "-o", str(run.folder / name)) == 2

    assert data.read_bytes() == before
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 5
    assert said[0] == "plumbline: data.jsonl: is needed itself and would be written over; expected another --output"


def test_replies_of_an_earlier_run_of_the_same_name_are_not_read(run: Run) -> None:
    run.whole(*ROWS)
    run.manifest.unlink()

    lines = run.whole(*ROWS)

    assert [line["result"]["tier"] for line in lines] == ["llm", "llm", None, None, "llm"]
