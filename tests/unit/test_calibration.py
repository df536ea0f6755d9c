"""Calibration: the file, the table and the sigmoid behind its gate."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from plumbline.ground.errors import CalibrationError
from plumbline.judging.text.scores import confidence
from plumbline.judging.tiers.calibration import (
    VERBATIM_SUPPORT,
    Calibration,
    CalibrationFile,
    CalibrationGate,
    CalibrationTable,
    crossing,
    highest_score,
    list_measures,
    load_calibrations,
    sigmoid,
)
from plumbline.judging.tiers.lexical import MODEL
from plumbline.judging.tiers.lexical_features import DOUBTS
from plumbline.judging.tiers.tier import TierName
from tests.making.cases import load_cases

ENTRY: dict[str, Any] = load_cases("calibration", "entry")

MODELS = (("m", -1.0), ("m@bf16", -2.0), ("n", -3.0))


def _write(path: Path, *entries: dict[str, Any], version: int | None = 3) -> Path:
    path.write_text(json.dumps({"version": version, "entries": entries}), encoding="utf-8")
    return path


def _support(coverage: float, names: float = 0.0, **change: Any) -> float:
    calibration = Calibration.model_validate({**ENTRY, **change})
    return calibration.support({"character_coverage": coverage, "unknown_names": names, "near_pairs": 9.0})


@pytest.mark.parametrize(
    ("curve", "boundary"), load_cases("calibration", "the_boundary_is_where_half_of_the_answers_are_faithful")
)
def test_the_boundary_is_where_half_of_the_answers_are_faithful(
    curve: tuple[tuple[float, float], ...], boundary: float
) -> None:
    assert crossing(curve, 0.5) == boundary
    assert Calibration.model_validate({**ENTRY, "reliability": curve}).boundary == boundary


def test_without_a_reliability_curve_the_boundary_is_the_middle() -> None:
    assert Calibration.model_validate(ENTRY).boundary == 0.5


def test_a_reduced_precision_without_an_entry_takes_that_of_the_model() -> None:
    entries = [Calibration.model_validate({**ENTRY, "model": name, "intercept": at}) for name, at in MODELS]
    table = CalibrationTable(entries)

    found = [table.find(tier=TierName.LEXICAL, model=name, language="en") for name in ("m@bf16", "n@bf16", "n")]

    assert [(entry.model, entry.intercept) for entry in found] == [("m@bf16", -2.0), ("n@bf16", -3.0), ("n", -3.0)]


def test_an_uncalibrated_model_counts_in_its_own_range_beside_the_fitted_wording() -> None:
    table = CalibrationTable([Calibration.model_validate(ENTRY)])
    default = table.find(tier=TierName.EMBEDDING, model="m", language="en")

    found = table.find_for_range(default, baseline=0.5, reads_words=True)

    # From .5 to 1 alignment counts double: 2 * 2 = 4, its middle is .5 + .7 / 2 = .85; -3 - 4 * .85 = -6.4.
    assert found.weights == {"alignment": 4.0, **ENTRY["weights"]}
    assert found.intercept == pytest.approx(-6.4)
    assert found.gate == CalibrationGate(measure="alignment", closed=0.5, open=0.75)
    assert not found.is_fitted
    # 1 / (1 + e^-(4 + 5 - 6.4)) = 0.930862; what is as far from the answer as any other text is not supported.
    near = {"alignment": 1.0, "character_coverage": 1.0, "unknown_names": 0.0}
    assert found.support(near) == pytest.approx(0.930862, abs=1e-6)
    assert found.support({**near, "alignment": 0.5}) == 0.0


def test_across_scripts_an_uncalibrated_model_counts_alone() -> None:
    table = CalibrationTable([Calibration.model_validate(ENTRY)])
    default = table.find(tier=TierName.EMBEDDING, model="m", language="en")

    found = table.find_for_range(default, baseline=0.5, reads_words=False)

    # Half-way between the baseline and 1.
    assert found.support({"alignment": 0.75}) == pytest.approx(0.5)
    assert found.support({"alignment": 0.5}) == pytest.approx(0.017986, abs=1e-6)


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    file = CalibrationFile(version=3, entries=(Calibration.model_validate(ENTRY),))
    path = tmp_path / "c.json"
    path.write_text(file.model_dump_json(), encoding="utf-8")

    assert load_calibrations(path).entries == file.entries


def test_the_built_in_file_has_an_entry_for_what_every_process_can_ask() -> None:
    table = load_calibrations(None)

    assert {(entry.tier, entry.language) for entry in table.entries} == {
        (TierName.LEXICAL, "en"),
        (TierName.LEXICAL, "zh"),
        (TierName.EMBEDDING, "en"),
    }
    assert all(entry.is_fitted and entry.reliability for entry in table.entries)
    assert all(entry.gate for entry in table.entries if entry.language == "en")


BUILT_IN = pytest.mark.parametrize(
    "entry", load_calibrations(None).entries, ids=lambda entry: f"{entry.tier}-{entry.model}-{entry.language}"
)


@BUILT_IN
def test_the_built_in_boundary_is_where_the_reliability_curve_crosses_one_half(entry: Calibration) -> None:
    assert entry.boundary == 0.5
    for hundredth in range(101):
        score = hundredth / 100
        assert (confidence(score, passed=score >= 0.5, reliability=entry.reliability) or 0.0) >= 0.5


@BUILT_IN
def test_the_built_in_bounds_are_right_in_four_of_five_decisions(entry: Calibration) -> None:
    assert entry.bounds
    for bounds in entry.bounds.values():
        assert (bounds.copied_from is None) == (bounds.copied_right is None)
        assert (bounds.covered_from is None) == (bounds.covered_right is None)
        rights = (bounds.copied_right, bounds.covered_right, bounds.fails_right)
        assert all(right is None or right >= 0.8 for right in rights)


@BUILT_IN
def test_the_built_in_reliability_rises_with_the_score(entry: Calibration) -> None:
    assert [share for _, share in entry.reliability] == sorted(share for _, share in entry.reliability)


@BUILT_IN
def test_more_of_a_measure_never_counts_against_its_sense_in_the_built_in_file(entry: Calibration) -> None:
    names = list_measures(entry.tier, entry.language)
    middle = dict.fromkeys(names, 0.5) | dict.fromkeys(DOUBTS, 0.0)
    for name in names:
        less, more = entry.support(middle), entry.support({**middle, name: 1.0})
        assert less >= more if name in DOUBTS else less <= more


def test_the_highest_score_without_a_judge_is_that_of_a_copy() -> None:
    assert highest_score(TierName.LLM) == 1.0
    assert highest_score(TierName.EMBEDDING) == highest_score(TierName.LEXICAL) == VERBATIM_SUPPORT > 0.95


@BUILT_IN
def test_in_the_built_in_file_all_is_better_than_nothing(entry: Calibration) -> None:
    names = list_measures(entry.tier, entry.language)
    bad = dict.fromkeys(names, 0.0) | {"unknown_names": 3.0, "unknown_numbers": 2.0}
    good = dict.fromkeys(names, 1.0) | {
        "near_pairs": 3.0,
        "unknown_names": 0.0,
        "unknown_numbers": 0.0,
        "negation": 0.0,
    }

    assert entry.support(bad) < 0.1
    assert entry.support(good) > 0.6


@pytest.mark.parametrize(
    ("tier", "model", "language", "first"),
    [
        (TierName.EMBEDDING, "m", "en", "alignment"),
        (TierName.EMBEDDING, "m", "zh", "alignment"),
        (TierName.LEXICAL, "other", "en", "character_coverage"),
        (TierName.LEXICAL, "m", "other", "character_coverage"),
        (TierName.LEXICAL, "m", "zh", "characters"),
    ],
)
def test_another_tier_model_or_language_gets_defaults_that_are_not_fitted(
    tmp_path: Path, tier: TierName, model: str, language: Any, first: str
) -> None:
    table = load_calibrations(_write(tmp_path / "c.json", ENTRY))

    entry = table.find(tier=tier, model=model, language=language)

    assert not entry.is_fitted
    assert (entry.reliability, entry.gate, entry.doubted) == ((), None, 0.0)
    assert entry.support({first: 0.5}) == 0.5


def test_what_is_copied_or_made_up_is_read_off_the_wording_whatever_the_model() -> None:
    table = load_calibrations(None)
    wording = table.find(tier=TierName.LEXICAL, model=MODEL, language="zh")

    assert table.find(tier=TierName.EMBEDDING, model="other", language="zh").bounds == wording.bounds != {}
    assert table.find(tier=TierName.DETECTOR, model="other", language="zh").bounds == {}


def test_the_default_reaches_two_and_ninety_eight_hundredths_at_its_ends() -> None:
    default = CalibrationTable(()).find(tier=TierName.LEXICAL, model="m", language="en")

    # 1 / (1 + e^4) and 1 / (1 + e^-4)
    assert default.support({"character_coverage": 0.0}) == pytest.approx(0.017986, abs=1e-6)
    assert default.support({"character_coverage": 1.0}) == pytest.approx(0.982014, abs=1e-6)


@pytest.mark.parametrize(
    ("coverage", "names", "support"), load_cases("calibration", "support_is_a_sigmoid_of_the_measures_behind_a_gate")
)
def test_support_is_a_sigmoid_of_the_measures_behind_a_gate(coverage: float, names: float, support: float) -> None:
    assert _support(coverage, names) == pytest.approx(support, abs=1e-6)


def test_without_a_gate_support_is_the_sigmoid_alone() -> None:
    # 1 / (1 + e^3)
    assert _support(0.0, gate=None) == pytest.approx(0.047426, abs=1e-6)


@pytest.mark.parametrize("doubt", ["unknown_names", "unknown_numbers", "negation"])
def test_no_wording_lifts_a_sentence_with_a_doubt_over_the_boundary(doubt: str) -> None:
    entry = Calibration(
        tier=TierName.LEXICAL, model="m", language="en", weights={"character_coverage": 100.0}, intercept=0.0
    )

    assert entry.support({"character_coverage": 1.0, doubt: 1.0}) < 0.5


@pytest.mark.parametrize(("x", "y"), [(0.0, 0.5), (1e9, 1.0), (-1e9, 0.0), (math.log(3), 0.75), (-math.log(3), 0.25)])
def test_the_sigmoid_does_not_overflow(x: float, y: float) -> None:
    assert sigmoid(x) == pytest.approx(y)


@pytest.mark.parametrize(
    ("change", "field"),
    load_cases("calibration", "a_malformed_entry_is_refused_with_file_and_field", inner=list),
    ids=str,
)
def test_a_malformed_entry_is_refused_with_file_and_field(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    path = _write(tmp_path / "mine.json", {**ENTRY, **change})

    with pytest.raises(CalibrationError) as refused:
        load_calibrations(path)

    assert str(refused.value).startswith(f"{path}: {field}")


@pytest.mark.parametrize("version", [1, 2, None])
def test_another_version_of_the_file_is_refused_with_what_writes_a_new_one(tmp_path: Path, version: int | None) -> None:
    path = _write(tmp_path / "mine.json", ENTRY, version=version)

    with pytest.raises(CalibrationError) as refused:
        load_calibrations(path)

    assert str(refused.value) == (f"{path}: `version` must be 3, is {version}; `plumbline calibrate` writes a new file")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe"])
def test_a_file_that_is_no_such_json_is_refused_with_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.json"
    path.write_bytes(content)

    with pytest.raises(CalibrationError) as refused:
        load_calibrations(path)

    assert str(refused.value).startswith(f"{path}: ")
    assert ": : " not in str(refused.value)


def test_a_missing_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=r"absent\.json: cannot be read"):
        load_calibrations(tmp_path / "absent.json")
