"""The benchmark of agreement from the file to the last line, on rows of our own."""

import asyncio
import json
from pathlib import Path

import pytest

from benchmarks.agreement import main
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest, Step, completion
from tests.making.cases import load_cases
from tests.running.service import claim, data_of, verdicts

_PLACES = ("mill", "tower", "harbour", "library", "station")


def _rows() -> list[dict[str, object]]:
    """Ten documents of two data sets, each with an answer that repeats it and one that does not."""
    rows: list[dict[str, object]] = []
    for place, name in enumerate(_PLACES * 2):
        dataset, year = ("east", "west")[place // 5], 1810 + 7 * place
        shared = {
            "contexts": [f"The old {name} of {dataset}port was opened in {year} by the town council."],
            "dataset": dataset,
            "doc": f"{dataset}-{name}",
            "task": "qa",
            "lang": "en",
        }
        rows.append({**shared, "answer": f"The {name} was opened in {year} by the town council.", "label": 1})
        rows.append({**shared, "answer": "Wealthy merchants destroyed everything during a long war.", "label": 0})
    return rows


@pytest.fixture(autouse=True)
def downloads_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark forbids downloads for its process."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.jsonl"
    extra = [
        json.dumps({"contexts": ["a"], "answer": "b", "label": 7}),
        json.dumps({"contexts": ["港口"], "answer": "The harbour is old.", "label": 0, "dataset": "east"}),
        json.dumps({"contexts": ["港口"], "answer": "港口很老。", "label": 0, "dataset": "east"}),
    ]
    path.write_text("\n".join([*map(json.dumps, _rows()), *extra]), encoding="utf-8")
    return path


def test_a_run_ends_with_one_line_of_json_and_writes_the_same(
    labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups, out = tmp_path / "groups.json", tmp_path / "out.json"
    groups.write_text('{"ports": ["east", "west", "north"]}', encoding="utf-8")
    options = ["--lang", "en", "--draws", "50", "--groups", str(groups), "--out", str(out)]

    code = main([str(labels), "--tier", "lexical", *options])

    printed, errors = capsys.readouterr()
    report = json.loads(printed.splitlines()[-1])
    tier = report["tiers"]["lexical"]
    assert code == 0
    assert json.loads(out.read_text(encoding="utf-8")) == report
    assert "row 20: label is 7; expected 1, true, yes or faithful" in errors
    assert report["rows"] == 21
    assert report["left_out"] == {"bad_lines": 1, "other_language": 1}
    assert (tier["answered"], tier["refused"]) == (20, {"cross_lingual": 1})
    assert set(tier["by_dataset"]) == {"east", "west"}
    assert set(tier["by_group"]) == {"task qa", "ports"}
    assert tier["macro"]["auroc"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert tier["by_dataset"]["east"]["rows"] == 10
    assert set(report["baselines"]) == {"shortness", "rouge_l_precision", "seed_word_overlap"}
    assert set(tier["auroc_over_baseline"]) == set(report["baselines"])
    assert "MACRO (mean of sets)" in printed


def test_a_run_is_limited_to_some_rows_of_each_label(labels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--skip", "east", "--limit-per-label", "2", "--baselines", "none", "--draws", "5"]

    code = main([str(labels), "--tier", "lexical", *options])

    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert code == 0
    assert report["left_out"] == {"bad_lines": 1, "skipped_dataset": 12, "over_limit": 6}
    assert report["tiers"]["lexical"]["answered"] == 4
    assert report["baselines"] == {}


async def test_the_llm_tier_is_asked_at_the_address_given_and_its_calls_are_counted(
    labels: Path, capsys: pytest.CaptureFixture[str], judge: ScriptedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_KEY", "sk-own-key-000001")

    def agree_with_copies(request: RecordedRequest) -> Step:
        is_copy = "town council" in json.dumps(data_of(request)["answer"])
        quote = "by the town council" if is_copy else ""
        reply = verdicts([claim("c", "supported" if is_copy else "not_mentioned", quote)])
        return completion(reply, usage=(100, 10))

    judge.reply_with(agree_with_copies)
    where = ["--base-url", judge.base_url, "--model", "judge-1", "--api-key-env", "OWN_KEY"]
    options = ["--skip", "west", "--lang", "en", "--limit-per-label", "5", "--draws", "5", "--baselines", "none"]

    code = await asyncio.to_thread(main, [str(labels), "--tier", "llm", *where, *options])

    tier = json.loads(capsys.readouterr().out.splitlines()[-1])["tiers"]["llm"]
    assert code == 0
    assert tier["answered"] == 10
    assert tier["macro"]["auroc"]["value"] == 1.0
    assert tier["calls"] == judge.calls >= 10
    assert tier["prompt_tokens"] == 100 * tier["calls"]
    assert judge.requests[0].headers["authorization"] == "Bearer sk-own-key-000001"


@pytest.mark.parametrize(
    ("options", "said"), load_cases("agreement_benchmark", "what_the_user_can_fix_is_one_line", inner=list)
)
def test_what_the_user_can_fix_is_one_line(
    labels: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    groups = labels.with_name("groups.json")
    groups.write_text('{"ports": "east"}', encoding="utf-8")

    code = main([str(labels), "--baselines", "none", *[str(groups) if each == "GROUPS" else each for each in options]])

    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith(("row 20", "baseline"))]
    assert code == 2
    assert len(lines) == 1
    assert lines[0].startswith(said)


def test_labels_that_are_not_there_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([str(tmp_path / "none.jsonl"), "--tier", "lexical"])

    assert code == 2
    assert capsys.readouterr().err == "agreement: none.jsonl: cannot be read (No such file or directory)\n"
