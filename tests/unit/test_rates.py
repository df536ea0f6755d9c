"""Rates corrected by labels, and thresholds with a promise."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from plumbline.cli.main import main
from plumbline.ground.errors import InvalidInput
from plumbline.rows.report.labelled_rates import RateTally, RowLabel
from plumbline.rows.report.rates import choose_threshold, estimate_rate
from tests.making.cases import load_cases

RNG_SEED = 20
# 40 labelled rows and 160 others, made of sines.
UNFAITHFUL = (np.arange(40) % 4 == 0).astype(float)
SCORES = 1 - np.round((np.sin(np.arange(40) * 1.7) + 1) / 2 * 0.5 + 0.4 * UNFAITHFUL, 3)
OTHERS = 1 - np.round((np.cos(np.arange(160) * 0.9) + 1) / 2, 3)


def population(share: float, rows: int = 2_000) -> tuple[np.ndarray, np.ndarray]:
    """Answers of which this share is unfaithful, with scores that tell them apart in part."""
    rng = np.random.default_rng(RNG_SEED)
    unfaithful = np.zeros(rows, dtype=int)
    unfaithful[: round(share * rows)] = 1
    return unfaithful, np.clip(rng.normal(0.75 - 0.45 * unfaithful, 0.2), 0, 1)


def test_the_point_is_that_of_ppi_py() -> None:
    found = estimate_rate(UNFAITHFUL, SCORES, OTHERS)

    # ppi_mean_pointestimate of ppi-python 0.2.3 with the same numbers, power tuned by it.
    assert found.corrected.share == pytest.approx(0.33199816, abs=1e-8)
    # Wilson's interval of 10 of 40, by hand: (.25 + 1.9208/40 -+ 1.96 sqrt(.1875/40 + .9604/1600)) / (1 + 3.8416/40).
    assert (found.labels_only.low, found.labels_only.high) == pytest.approx((0.1419, 0.4019), abs=5e-5)


@pytest.mark.parametrize("share", [0.5, 0.1, 0.05])
def test_the_interval_holds_the_true_share_and_is_narrower_than_that_of_the_labels(share: float) -> None:
    unfaithful, scores = population(share)
    rng = np.random.default_rng(RNG_SEED)
    held, width, plain = 0, 0.0, 0.0
    for _ in range(200):
        drawn = rng.permutation(len(scores))
        chosen, rest = drawn[:100], drawn[100:]
        found = estimate_rate(unfaithful[chosen], scores[chosen], scores[rest])
        held += found.corrected.low <= share <= found.corrected.high
        width += found.corrected.high - found.corrected.low
        plain += found.labels_only.high - found.labels_only.low

    assert held >= 0.93 * 200
    # The fewer unfaithful answers there are, the less the scores can tell of their number.
    assert width < (0.95 if share < 0.1 else 0.85) * plain


def test_labels_drawn_by_score_are_refused() -> None:
    unfaithful, scores = population(0.2)
    rng = np.random.default_rng(RNG_SEED)
    # The less a row scores, the likelier it is labelled.
    chance = np.clip(0.3 - 0.28 * scores, 0.02, 1)
    drawn = rng.random(len(scores)) < chance

    with pytest.raises(InvalidInput, match="not drawn at random"):
        estimate_rate(unfaithful[drawn], scores[drawn], scores[~drawn])


def test_too_few_labels_are_refused() -> None:
    with pytest.raises(InvalidInput, match="29 labels"):
        estimate_rate([0] * 29, [0.9] * 29, [0.9] * 100)


def test_a_promise_is_kept_in_nineteen_of_twenty_draws() -> None:
    unfaithful, scores = population(0.2)
    rng = np.random.default_rng(RNG_SEED)
    broken = promised = 0
    for _ in range(100):
        chosen = rng.permutation(len(scores))[:200]
        found = choose_threshold(unfaithful[chosen], scores[chosen], scores, risk=0.1, confidence=0.95)
        if found.threshold is not None:
            promised += 1
            broken += bool(unfaithful[scores >= found.threshold].mean() > 0.1)

    assert promised > 75
    assert broken <= 0.05 * 100


def test_without_enough_labels_there_is_no_threshold_but_a_number() -> None:
    unfaithful, scores = population(0.1)

    found = choose_threshold(unfaithful[::50], scores[::50], scores, risk=0.05, confidence=0.95)

    # 59 faithful ones in a row are the least: .95^59 < .05.
    assert found.threshold is None
    assert found.more_labels >= 59


def _files(folder: Path, *, label: str = "label") -> tuple[str, str]:
    unfaithful, scores = population(0.2, rows=400)
    template = json.loads(Path("tests/data/result_line.json").read_text(encoding="utf-8"))
    lines = []
    for row, score in enumerate(scores):
        template["result"]["faithfulness"] = round(float(score), 4)
        lines.append(json.dumps({**template, "custom_id": f"r{row}", "row": row}))
    results, labels = folder / "results.jsonl", folder / "labels.jsonl"
    results.write_text("\n".join(lines), encoding="utf-8")
    chosen = np.random.default_rng(3).permutation(400)[:100]
    written = [json.dumps({"custom_id": f"r{row}", label: 1 - int(unfaithful[row])}) for row in chosen]
    labels.write_text("\n".join(written), encoding="utf-8")
    return str(results), str(labels)


def test_the_command_tells_rate_labels_and_threshold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, labels = _files(tmp_path)

    assert main(["rate", results, "--labels", labels, "--width", "0.05", "--risk", "0.1", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["tier"], found["rows"], found["labels"]) == ("lexical", 400, 100)
    assert found["estimate"]["corrected"]["low"] <= 0.2 <= found["estimate"]["corrected"]["high"]
    assert found["labels_for_width"] > 100
    assert found["promise"]["threshold"] is not None

    assert main(["rate", results, "--labels", labels, "--risk", "0.1"]) == 0
    told = capsys.readouterr().out
    assert "tier lexical: 400 rows with a score, 100 of them labelled" in told
    assert (
        f"at most 10% unfaithful with confidence 95%: scores from --threshold {found['promise']['threshold']:.6g} on"
        in told
    )


@pytest.mark.parametrize(("line", "told"), load_cases("rates", "wrong_labels"))
def test_labels_that_cannot_be_taken_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, told: str
) -> None:
    results, labels = _files(tmp_path)
    Path(labels).write_text(line, encoding="utf-8")

    assert main(["rate", results, "--labels", labels]) == 2
    assert told in capsys.readouterr().err


def test_the_report_tells_the_rate_where_labels_exist_and_else_that_its_means_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, labels = _files(tmp_path)
    main(["rate", results, "--labels", labels, "--json"])
    (rate,) = json.loads(capsys.readouterr().out)

    assert main(["report", results, "--labels", labels, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rates"] == [rate]
    assert main(["report", results, "--labels", labels]) == 0
    page = capsys.readouterr().out
    assert f"{rate['estimate']['corrected']['share']:.1%} of the answers are unfaithful" in page
    assert "None of these means is the share" not in page
    assert main(["report", results]) == 0
    assert "None of these means is the share" in capsys.readouterr().out


def test_decisions_are_compared_with_labels_by_row_and_by_sentence() -> None:
    labels: dict[str | int, RowLabel] = {f"r{row}": RowLabel(int(row % 4 > 0)) for row in range(40)}
    labels["r0"] = RowLabel(0, {"ann": [1]})
    tally = RateTally(labels)
    for row in range(80):
        # Faults are every fourth row; every eighth passes all the same, and row 1 fails without one.
        decided = row % 4 != 0 or row % 8 == 0
        tally.add(f"r{row}", "llm", row % 4 / 4, decided and row != 1, sentences={0: True, 1: row % 4 > 1})

    (rate,) = tally.rates()
    found = rate.agreement

    assert found is not None
    assert (found.faithful_passed, found.faithful_failed) == (29, 1)
    assert (found.unfaithful_passed, found.unfaithful_failed) == (5, 5)
    # Observed 34/40; by chance .75 * 34/40 + .25 * 6/40 = .675.
    assert found.kappa == pytest.approx((0.85 - 0.675) / 0.325)
    assert found.base_rate == 0.25
    assert found.sensitivity is not None
    # Wilson's interval of 5 of 10, by hand: .5 -+ 1.96 sqrt(.025 + .09604) / 1.38416.
    assert (found.sensitivity.low, found.sensitivity.high) == pytest.approx((0.2366, 0.7634), abs=5e-5)
    assert found.disagreements == ["r0", "r1", "r8", "r16", "r24", "r32"]
    # Of unfaithful rows, only that whose sentences were marked: 30 faithful rows and it, two sentences each.
    by_sentence = rate.sentences
    assert by_sentence is not None
    assert (by_sentence.unfaithful_failed, by_sentence.unfaithful_passed) == (1, 0)
    assert (by_sentence.faithful_passed, by_sentence.faithful_failed) == (51, 10)


def test_what_is_drawn_is_filled_in_and_holds_the_truth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, labels = _files(tmp_path)
    unfaithful, _ = population(0.2, rows=400)

    assert main(["rate", results, "--draw", "80"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 80
    Path(labels).write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    assert main(["rate", results, "--labels", labels]) == 2
    assert "labels.jsonl:1: Expected `bool | int | float | str`, got `null`" in capsys.readouterr().err
    filled = [{**line, "label": 1 - int(unfaithful[int(line["custom_id"][1:])])} for line in lines]
    Path(labels).write_text("\n".join(json.dumps(line) for line in filled), encoding="utf-8")
    assert main(["rate", results, "--labels", labels, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["estimate"]["corrected"]["low"] <= 0.2 <= found["estimate"]["corrected"]["high"]
    Path(labels).write_text(json.dumps({**filled[0], "weight": 2.0}), encoding="utf-8")
    assert main(["rate", results, "--labels", labels]) == 2
    assert "labels.jsonl:1: has a weight" in capsys.readouterr().err


def test_both_thresholds_leave_the_rest_to_a_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, labels = _files(tmp_path)

    assert main(["rate", "threshold", results, "--labels", labels, "--risk", "0.15", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    scores = [
        json.loads(line)["result"]["faithfulness"] for line in Path(results).read_text(encoding="utf-8").splitlines()
    ]
    passing, blocked = found["promise"]["threshold"], found["block"]["threshold"]
    below = passing if passing is not None else 2.0
    above = blocked if blocked is not None else -1.0
    assert found["judge_rows"] == sum(above < score < below for score in scores)
    assert passing is not None
    assert main(["rate", "threshold", results, "--labels", labels, "--risk", "0.15"]) == 0
    assert f"left for a judge: {found['judge_rows']} rows" in capsys.readouterr().out


def _decided_files(folder: Path, rows: int = 400) -> list[str]:
    """Rows of a decision model, every eighth refuted, every second labelled; it is right where it is sure."""
    random = np.random.default_rng(5)
    template = json.loads(Path("tests/data/result_line.json").read_text(encoding="utf-8"))
    results, labels = [], []
    for row, support in enumerate(np.round(random.beta(0.6, 0.6, rows), 4)):
        flags = ["check_refutes"] if row % 8 == 0 else []
        claims = [
            {**template["result"]["claims"][0], "support": min(support, 0.5) if flags else support, "flags": flags}
        ]
        result = {**template["result"], "tier": "llm", "claims": claims, "flags": [], "faithfulness": 0.5}
        result["trace"] = {"judge": {"model": "decision-1", "calls": 1, "kind": "systemone"}}
        results.append({**template, "custom_id": f"r{row}", "row": row, "result": result})
        labels.append({"custom_id": f"r{row}", "label": int(random.random() < support)})
    paths = [folder / "results.jsonl", folder / "labels.jsonl"]
    for path, lines in zip(paths, (results, labels[::2]), strict=True):
        path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return ["rate", "threshold", str(paths[0]), "--labels", str(paths[1])]


@pytest.mark.parametrize("left", [0.2, 0.4])
def test_bounds_of_a_decision_model_leave_the_share_that_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], left: float
) -> None:
    command = [*_decided_files(tmp_path), "--left", str(left)]

    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(command) == 0
    *_, said, setting = capsys.readouterr().out.splitlines()

    bounds = json.loads(setting.removeprefix("PLUMBLINE_LLM_BOUNDS='").removesuffix("'"))["decision-1"]
    assert bounds == {name: found[name] for name in ("fails", "passes", "share")}
    assert bounds["fails"] <= 0.5 <= bounds["passes"]
    # A row more or less than what the bound asks for.
    assert left - 1 / 400 <= found["share"] <= left
    assert f"left for a chat judge: {found['share']:.1%} of the rows" in said
    # Clopper and Pearson: with this share of wrong ones so few are seen in one of twenty draws.
    for side in (found["passed"], found["failed"]):
        assert binom.cdf(side["wrong"], side["labels"], side["at_most"]) == pytest.approx(0.05)


def test_bounds_are_of_one_model_and_say_what_the_check_leaves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = _decided_files(tmp_path)

    assert main([*command, "--left", "0.02"]) == 0
    said = capsys.readouterr().out
    assert "pass from 0.5 on" in said
    assert "12.5% of the rows, more than 2%: the check refutes so many" in said
    results = Path(command[2])
    for wrong, told in (('"flags": []', '"flags": ["escalated"]'), ("decision-1", "other")):
        text = results.read_text(encoding="utf-8")
        results.write_text(text.replace(wrong, told, 1 if wrong == "decision-1" else -1), encoding="utf-8")
        assert main([*command, "--left", "0.2"]) == 2
        assert ("escalation" if wrong.startswith('"') else "2 decision models") in capsys.readouterr().err
        results.write_text(text, encoding="utf-8")
    assert main(command) == 2
    assert "expected --risk" in capsys.readouterr().err


@pytest.mark.parametrize(("bad", "code"), [(0, 0), (1, 1)])
def test_the_gate_of_a_promise_is_the_exact_binomial_tail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bad: int, code: int
) -> None:
    template = json.loads(Path("tests/data/result_line.json").read_text(encoding="utf-8"))
    results, labels = tmp_path / "results.jsonl", tmp_path / "labels.jsonl"
    results.write_text(
        "\n".join(json.dumps({**template, "custom_id": f"r{row}", "row": row}) for row in range(59)), encoding="utf-8"
    )
    labels.write_text(
        "\n".join(json.dumps({"custom_id": f"r{row}", "label": int(row >= bad)}) for row in range(59)), encoding="utf-8"
    )

    # All 59 pass: .95^59 = .0485, and .95^59 + 59 * .05 * .95^58 = .199.
    assert main(["report", str(results), "--labels", str(labels), "--max-risk", "0.05"]) == code
    assert f"got {bad} of 59 labelled rows that pass" in capsys.readouterr().err
    assert main(["report", str(results), "--max-risk", "0.05"]) == 1
    assert "no labels; give --labels" in capsys.readouterr().err
