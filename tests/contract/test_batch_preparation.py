"""Preparing batch files: the same rows give the same bytes, and what cannot be right is said in one line."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running.batch_file_runs import BAD_ROW, DAM, ROWS, Run, a_run
from tests.running.service import JUDGE_KEY


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    with a_run(tmp_path, monkeypatch) as each:
        yield each


def test_the_same_rows_give_the_same_bytes(run: Run) -> None:
    run.prepare(*ROWS)
    first = run.manifest.read_bytes(), (run.folder / "requests.jsonl").read_bytes()

    run.prepare(*ROWS)
    assert (run.manifest.read_bytes(), (run.folder / "requests.jsonl").read_bytes()) == first

    data, other = run.folder / "data.jsonl", run.folder / "other.jsonl"
    assert run.step("prepare", str(data), "-o", str(other), "--secret-of", str(run.manifest)) == 0
    assert other.read_bytes() == first[1]


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


def test_an_estimate_writes_nothing(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUMBLINE_LLM_PRICES", '{"judge-1": {"input": 2, "output": 4}}')
    run.rows(*ROWS, BAD_ROW)

    assert run.prepare(options=["--estimate", "--price-factor", "1"]) == 0

    assert [path.name for path in run.folder.iterdir()] == ["data.jsonl"]
    said = capsys.readouterr().out
    assert "6 rows: 3 to be asked, 2 decided without a judge, 0 too long for it, 1 invalid" in said
    assert "3 requests to judge-1: about " in said
    # Two sentences each: 20 + 2 * 80 tokens for every reply, at most 4,096
    found = re.search(r"about (\d+) tokens in and 540 out, at most (\d+) and 12288;", said)
    assert found is not None
    assert int(found[1]) == round(int(found[2]) * 0.72)
    assert "cost: about 0." in said


def test_requests_are_split_by_bytes_and_stale_files_go(run: Run) -> None:
    run.prepare(*ROWS)
    largest = max(map(len, (run.folder / "requests.jsonl").read_bytes().splitlines(keepends=True)))

    run.prepare(*ROWS, options=["--max-bytes", str(largest)])

    files = json.loads(run.manifest.read_text())["files"]
    assert [file["requests"] for file in files] == [1, 1, 1]
    assert all(file["bytes"] == (run.folder / file["name"]).stat().st_size <= largest for file in files)
    assert not (run.folder / "requests.jsonl").exists()


def test_a_question_that_no_line_holds_is_too_long_for_the_judge(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.prepare(*ROWS[:2])
    longest = max(map(len, (run.folder / "requests.jsonl").read_bytes().splitlines()))
    huge = {"custom_id": "huge", "contexts": [DAM, "A lake. " * longest], "answer": DAM}
    assert run.prepare(ROWS[0], huge, options=["--max-bytes", str(longest + 1_000)]) == 0
    assert "1 too long for it" in capsys.readouterr().out

    run.submit()
    run.collect()

    result = run.results()[1]["result"]
    assert (result["tier"], result["attempts"][0]["reason"]) == ("lexical", "too_long")


def test_fields_that_a_model_refuses_can_be_left_out(run: Run) -> None:
    run.prepare(*ROWS, options=["--omit", "temperature", "--structure", "json_object"])

    bodies = [line["body"] for line in run.requests()]
    assert all("temperature" not in body for body in bodies)
    assert {body["response_format"]["type"] for body in bodies} == {"json_object"}


def test_the_test_model_of_dashscope_has_its_own_endpoint_and_limits(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_LLM_PROVIDER", "dashscope")
    monkeypatch.setenv("PLUMBLINE_LLM_MODEL", "batch-test-model")

    run.prepare(*ROWS)

    manifest = json.loads(run.manifest.read_text())
    assert {line["url"] for line in run.requests()} == {manifest["url"]} == {"/v1/chat/ds-test"}
    assert manifest["limits"] == {"requests": 100, "file_bytes": 1_000_000, "line_bytes": 1_000_000}
    assert {line["body"]["enable_thinking"] for line in run.requests()} == {False}
    run.submit()
    (batch,) = run.batches.batches.values()
    assert batch["endpoint"] == "/v1/chat/ds-test"
    assert batch["metadata"]["ds_name"].startswith("plumbline ")


def test_files_that_were_submitted_are_not_written_over(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.prepare(*ROWS)
    run.submit()

    assert run.prepare(*ROWS[:1]) == 2

    assert "requests.state.json: the files of this name were submitted already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"PLUMBLINE_LLM_BASE_URL": "http://127.0.0.1:9/v1"}, "the batch files were prepared for generic at "),
        ({"PLUMBLINE_LLM_BASE_URL": "", "PLUMBLINE_LLM_API_KEY": ""}, "no judge is configured"),
    ],
)
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


def test_other_prompts_are_not_taken_for_the_same(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run.prepare(*ROWS)
    run.submit()
    prompts = Path(__file__).parents[2] / "prompts"
    for file in prompts.rglob("*.toml"):
        copy = tmp_path / "prompts" / file.relative_to(prompts)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    monkeypatch.setenv("PLUMBLINE_PROMPTS_DIR", str(tmp_path / "prompts"))

    assert run.collect() == 2

    assert "the prompts are not those of the batch files" in capsys.readouterr().err


def test_files_that_were_prepared_with_the_second_version_of_the_prompts_are_still_read(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUMBLINE_PROMPTS_VERSION", "v2")
    run.prepare(*ROWS)
    run.submit()
    monkeypatch.delenv("PLUMBLINE_PROMPTS_VERSION")

    assert run.collect() == 0


@pytest.mark.parametrize("arguments", [["submit", "nothing.jsonl"], ["collect", "x.manifest.json", "-o", "r.jsonl"]])
def test_a_file_that_is_not_there_is_said_in_one_line(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(run.folder)

    assert run.step(*arguments) == 2

    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_fallback_that_is_no_tier_is_refused(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.prepare(*ROWS)

    assert run.collect(fallback="llm") == 2

    assert "--fallback: is 'llm'; expected embedding or lexical, both, or none" in capsys.readouterr().err


def test_no_file_of_a_run_is_written_over_another(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    data = run.rows(*ROWS)
    before = data.read_bytes()
    assert run.step("prepare", str(data), "-o", str(data)) == 2
    run.prepare(*ROWS)
    run.submit()
    for name in ("data.jsonl", "requests.jsonl", "requests.manifest.json"):
        assert run.step("collect", str(run.manifest), "-o", str(run.folder / name)) == 2

    assert data.read_bytes() == before
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 4
    assert said[0] == "plumbline: data.jsonl: is needed itself and would be written over; expected another --output"


def test_rows_that_need_no_judge_need_no_batch(run: Run) -> None:
    assert run.prepare(*ROWS[2:4]) == 0
    assert run.submit() == 0
    assert run.collect() == 0

    assert [line["result"]["status"] for line in run.results()] == ["empty_answer", "judged"]
    assert run.batches.files == {}


def test_an_interruption_is_one_line_and_loses_nothing(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run.prepare(*ROWS)
    run.submit()

    with monkeypatch.context() as interrupted:
        interrupted.setattr("plumbline.cli.batch_file_steps.wait_until_ended", _interrupt)
        assert run.collect("--wait") == 3
    assert capsys.readouterr().err == "interrupted; run the same command again to resume\n"

    assert run.collect("--wait", "--poll-seconds", "0") == 0
    assert len(run.results()) == len(ROWS)


async def _interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
