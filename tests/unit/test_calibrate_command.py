"""`plumbline calibrate` on labels of one's own: what it says, what it writes, and what it refuses."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from plumbline.cli.main import main
from plumbline.ground.concurrency import InlineExecutor
from plumbline.judging.text.scores import score
from plumbline.judging.tiers.calibration import CalibrationTable, load_calibrations
from plumbline.judging.tiers.decision_bounds import logit
from plumbline.judging.tiers.lexical import MODEL, LexicalTier
from plumbline.judging.tiers.tier import TierName
from tests.doubles.fakes import case_of
from tests.doubles.scripted_decisions import AskedQuestion, decide, lean
from tests.doubles.scripted_judge import running_judge

PLACES = [
    *("mill", "dam", "tower", "harbour", "chapel", "bakery"),
    *("quarry", "library", "ferry", "orchard", "forge", "inn"),
]
CONTEXT = "The {place} of Keld was built by the river in 18{number}. It has {number} red doors and a small bell."
FAITHFUL = "The {place} was built in 18{number}, by the river. It has {number} doors."
OTHER = "Tourists photograph kangaroos near the {place}. Astronomers praised its telescope in 2077."
# What no tier sees through: so that the labels can be separated by no boundary.
MISLEADING = "The {place} of Keld has no red doors and no small bell, built in 18{number}."


def _rows(*, misleading: int = 3) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number, place in enumerate(PLACES, start=20):
        context = CONTEXT.format(place=place, number=number)
        other = MISLEADING if number < 20 + misleading else OTHER
        rows.extend(
            {"contexts": [context], "answer": answer.format(place=place, number=number), "label": label, "doc": place}
            for answer, label in ((FAITHFUL, 1), (other, 0))
        )
    return rows


def _write(path: Path, rows: Sequence[dict[str, Any] | str]) -> str:
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def _calibrate(*arguments: str | Path) -> int:
    return main(["calibrate", *map(str, arguments), "--tier", "lexical", "--draws", "20"])


def _score(table: CalibrationTable) -> float:
    case = case_of("The mill has 20 doors. It burned down.", "The mill of Keld has 20 red doors.")
    scores = score(LexicalTier(table, InlineExecutor()).judge_now(case))
    assert scores is not None
    return scores.faithfulness


@pytest.mark.parametrize("fit", ["scale", "weights"])
def test_it_says_how_far_scores_agree_before_and_after_and_writes_a_file_that_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fit: str
) -> None:
    out = tmp_path / "mine.json"

    code = _calibrate(_write(tmp_path / "own.jsonl", _rows()), "--fit", fit, "--out", out)

    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert (code, said.err) == (0, "")
    assert lines[0] == f"tier lexical, model {MODEL}, language en: 24 answers, 12 faithful"
    assert [line.split()[0] for line in lines[1:5]] == ["auroc", "balanced_accuracy", "brier", "ece"]
    assert all("before" in line and "after" in line for line in lines[1:6])
    assert lines[-1] == f"written: {out}; the service loads it with PLUMBLINE_CALIBRATION={out}"
    assert _score(load_calibrations(out)) != pytest.approx(_score(load_calibrations(None)), abs=1e-4)


def test_the_file_tells_where_its_parameters_come_from_and_keeps_every_other_entry(tmp_path: Path) -> None:
    out = tmp_path / "mine.json"

    _calibrate(_write(tmp_path / "own.jsonl", _rows()), "--out", out, "--name", "letters of May")

    table = load_calibrations(out)
    made = table.find(tier=TierName.LEXICAL, model=MODEL, language="en")
    assert made.source is not None
    assert (made.source.data, made.source.rows) == ("letters of May", 24)
    assert made.source.command == "plumbline calibrate own.jsonl --tier lexical --fit scale"
    assert made.boundary == 0.5
    assert (0.5, 0.5) in made.reliability
    others = [entry for entry in load_calibrations(None).entries if (entry.tier, entry.language) != ("lexical", "en")]
    assert [entry for entry in table.entries if entry is not made] == others


def test_the_scale_is_that_of_the_calibration_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_force = {"tier": "lexical", "model": MODEL, "language": "en", "weights": {"character_coverage": 4.0}}
    file = {"version": 3, "entries": [{**in_force, "intercept": -1.0}]}
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps(file), encoding="utf-8")
    monkeypatch.setenv("PLUMBLINE_CALIBRATION", str(mine))

    code = _calibrate(_write(tmp_path / "own.jsonl", _rows()), "--out", tmp_path / "next.json")

    (made,) = load_calibrations(tmp_path / "next.json").entries
    assert code == 0
    assert list(made.weights) == ["character_coverage"]
    assert (made.gate, made.is_fitted) == (None, True)


def _write_steep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Put a calibration in force that is right on all answers but one of 24, and return them."""
    entry = {"tier": "lexical", "model": MODEL, "language": "en", "weights": {"character_coverage": 12.0}}
    steep = tmp_path / "steep.json"
    steep.write_text(json.dumps({"version": 3, "entries": [{**entry, "intercept": -6.0}]}), encoding="utf-8")
    monkeypatch.setenv("PLUMBLINE_CALIBRATION", str(steep))
    rows = _rows(misleading=0)
    rows[0] = {**rows[0], "answer": OTHER.format(place="mill")}
    return _write(tmp_path / "own.jsonl", rows)


def test_a_fit_that_held_out_answers_call_worse_is_written_by_force_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, out = _write_steep(tmp_path, monkeypatch), tmp_path / "mine.json"

    assert (_calibrate(labels, "--out", out), out.exists()) == (2, False)
    assert capsys.readouterr().err == (
        "tier lexical, language en: worse on held-out answers than the calibration in force: not written without "
        "--force\nplumbline: nothing written: no fit does better on held-out answers than the calibration in force\n"
    )
    assert (_calibrate(labels, "--out", out, "--force"), out.exists()) == (0, True)
    assert capsys.readouterr().err.endswith("than the calibration in force: written all the same\n")


def test_it_names_the_threshold_with_the_best_balanced_accuracy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _calibrate(_write(tmp_path / "own.jsonl", _rows(misleading=0)))

    (line,) = [line for line in capsys.readouterr().out.splitlines() if "best threshold  " in line]
    # Nothing misleads: some threshold parts the labels before and after.
    assert line.count("(1.000)") == 2


def test_json_has_the_calibration_and_the_figures_with_their_intervals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = _calibrate(_write(tmp_path / "own.jsonl", _rows()), "--json")

    (report,) = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (report["calibration"]["tier"], report["calibration"]["language"]) == ("lexical", "en")
    assert set(report["before"]) == set(report["after"]) == {"auroc", "balanced_accuracy", "brier", "ece"}
    value, low, high = report["after"]["auroc"]
    assert 0.5 < value <= 1.0
    assert low <= value <= high
    assert report["calibration"]["source"]["auroc"] == pytest.approx(value, abs=1e-4)


def test_the_agreement_of_people_whose_labels_the_rows_have_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = _rows()
    # Two of three people on four rows: 2 equal pairs of 4; by chance 5 * 3 * 2 of 8 * 7.
    given = ({"ann": 1, "bob": 1}, {"ann": 1, "bob": 0}, {"bob": 0, "cid": 0}, {"ann": 1, "cid": 1})
    for row, labels in zip(rows, (*given, {"ann": 0}, ["ann"], {"ann": "yes"}), strict=False):
        row["labels"] = labels
    path = _write(tmp_path / "own.jsonl", rows)

    _calibrate(path)
    _calibrate(path, "--json")

    *shown, told = capsys.readouterr().out.splitlines()
    alpha = 1 - (1 / 4) / (2 * 5 * 3 / (8 * 7))
    assert f"people: 3, 4 rows with two labels or more: Krippendorff's alpha {alpha:.3f}" in shown
    assert json.loads(told)[0]["people"] == {
        "people": ["ann", "bob", "cid"],
        "rows": 4,
        "alpha": {"value": pytest.approx(alpha), "reason": None},
    }


def test_a_bad_line_is_reported_and_the_others_are_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any] | str] = [*_rows(), {"contexts": [], "answer": "a", "label": 7}, "{"]

    code = _calibrate(_write(tmp_path / "own.jsonl", rows))

    said = capsys.readouterr()
    assert code == 0
    assert [line.split(";")[0] for line in said.err.splitlines()] == [
        "own.jsonl: row 24: label is 7",
        "own.jsonl: row 25 (line 26): not JSON at column 2 (Expecting property name enclosed in double quotes)",
    ]
    assert all(line.endswith(": left out") for line in said.err.splitlines())
    assert "24 answers" in said.out


def test_with_too_few_labels_nothing_is_calibrated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mine.json"

    code = _calibrate(_write(tmp_path / "own.jsonl", _rows()[:9]), "--out", out)

    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert said.err.splitlines() == [
        "tier lexical, language en: left as it is; found 5 faithful and 4 other answers, "
        "at least 10 of each are needed",
        "plumbline: no tier could be calibrated on these labels",
    ]
    assert not out.exists()


def test_a_language_with_too_few_labels_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chinese = {"contexts": ["大坝建成。"], "answer": "大坝建成。", "label": 1}

    code = _calibrate(_write(tmp_path / "own.jsonl", [*_rows(), chinese]))

    said = capsys.readouterr()
    assert code == 0
    assert said.err.startswith("tier lexical, language zh: left as it is; found 1 faithful and 0 other answers")
    assert "language en: 24 answers" in said.out


@pytest.mark.parametrize("fit", ["scale", "weights"])
def test_labels_the_wrong_way_round_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], fit: str) -> None:
    rows = [{**row, "label": 1 - row["label"]} for row in _rows(misleading=0)]

    code = _calibrate(_write(tmp_path / "own.jsonl", rows), "--fit", fit)

    assert code == 2
    assert capsys.readouterr().err == (
        "plumbline: the tier's scores do not rise with these labels (1 is faithful, 0 is not): "
        "there is nothing to calibrate\n"
    )


def test_weights_for_one_document_or_for_documents_without_anything_in_common_need_no_traceback(tmp_path: Path) -> None:
    one = [{**row, "doc": "one"} for row in _rows()]
    # Document 0 is about "aaa aaaa", document 1 about "bbb bbbb": no answer has a run of four in another's contexts.
    apart = [
        {"contexts": [f"{letter * 3} {letter * 4}."], "answer": f"{letter * length}.", "label": label, "doc": letter}
        for letter in "abcdefghijklmnopqrst"
        for length, label in ((4, 1), (7, 0))
    ]

    for rows in (one, apart):
        assert _calibrate(_write(tmp_path / "own.jsonl", rows), "--fit", "weights") in (0, 2)


def test_datasets_that_are_named_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = _write(tmp_path / "own.jsonl", [*_rows(), *({**row, "dataset": "old"} for row in _rows())])

    assert _calibrate(labels, "--skip", "old,other") == 0
    assert "24 answers" in capsys.readouterr().out
    assert _calibrate(labels, "--skip", "old,own") == 2
    assert capsys.readouterr().err == "plumbline: own.jsonl: every row is of a dataset that --skip names\n"


def test_what_can_be_mended_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels, nowhere = _write(tmp_path / "own.jsonl", _rows()), tmp_path / "nowhere" / "mine.json"

    assert _calibrate(tmp_path / "absent.jsonl") == 2
    assert capsys.readouterr().err == "plumbline: absent.jsonl: cannot be read (No such file or directory)\n"
    assert main(["calibrate", labels, "--tier", "lexical", "--draws", "0"]) == 2
    assert capsys.readouterr().err == ("plumbline: expected draws of at least 1, found 0\n")
    assert _calibrate(labels, "--out", nowhere) == 2
    assert capsys.readouterr().err == f"plumbline: {nowhere}: cannot be written (No such file or directory)\n"


def test_the_commands_of_the_page_run_on_rows_like_the_one_it_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "calibrate.md").read_text(encoding="utf-8")
    shown = json.loads(page.split("```json\n", 1)[1].split("\n```", 1)[0])
    command, served = page.split("```bash\n", 1)[1].split("\n```", 1)[0].splitlines()
    monkeypatch.chdir(tmp_path)
    _write(Path("labels.jsonl"), [shown, *_rows()])

    code = main([*command.split()[1:], "--tier", "lexical", "--draws", "20"])

    assert (command.split()[0], code) == ("plumbline", 0)
    assert "reliability" in capsys.readouterr().out
    setting, file = served.split()[0].split("=")
    assert setting == "PLUMBLINE_CALIBRATION"
    assert load_calibrations(Path(file)).entries[0].source is not None


def _half_sure(asked: AskedQuestion) -> Mapping[str, float]:
    """Support all but what is on another subject, and the control that denies."""
    if not asked.is_verdict:
        return lean(asked, "c1", 0.9)
    if "not true" in asked.statement:
        return lean(asked, "not_mentioned", 0.95)
    is_other = "photograph" in asked.statement or "telescope" in asked.statement
    return lean(asked, "supported", 0.3 if is_other else 0.7)


def test_a_decision_model_is_calibrated_by_its_name_and_is_surer_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    labels, out = _write(tmp_path / "own.jsonl", _rows(misleading=0)), tmp_path / "mine.json"
    command = ["calibrate", labels, "--tier", "llm", "--draws", "20", "--out", str(out)]
    with running_judge() as judge:
        judge.reply_with(decide(_half_sure))
        for name, value in {"PROVIDER": "generic", "BASE_URL": judge.base_url, "MODEL": "decision-1"}.items():
            monkeypatch.setenv(f"PLUMBLINE_LLM_{name}", value)
        assert main(command) == 2
        assert "PLUMBLINE_LLM_API" in capsys.readouterr().err
        monkeypatch.setenv("PLUMBLINE_LLM_API", "systemone")

        code = main([*command, "--force"])

    assert (code, judge.calls) == (0, 24)
    assert capsys.readouterr().out.startswith("tier llm, model decision-1, language en: 24 answers, 12 faithful")
    table = load_calibrations(out)
    fitted = table.find(tier=TierName.LLM, model="decision-1", language="en")
    # All labels are as the model says: .7 means more than it says, and .3 less.
    assert fitted.support({"logit": logit(0.7)}) > 0.8
    assert fitted.support({"logit": logit(0.3)}) < 0.2
    assert not table.find(tier=TierName.LLM, model="decision-2", language="en").is_fitted
