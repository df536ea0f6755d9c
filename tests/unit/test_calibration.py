"""Calibration: the file, the table and the curve."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from app.errors import CalibrationError
from app.judges.calibration import Calibration, CalibrationTable, load_calibrations, sigmoid
from app.judges.tier import TierName

SOURCE = {"data": "labels", "rows": 10, "date": "2026-01-01", "command": "fit"}
ENTRY: dict[str, Any] = {
    "tier": "lexical", "model": "m", "language": "en", "midpoint": 0.6, "floor": 0.2, "slope": 5.0, "source": SOURCE,
}  # fmt: skip


def _write(path: Path, *entries: dict[str, Any], version: int = 1) -> Path:
    path.write_text(json.dumps({"version": version, "entries": entries}), encoding="utf-8")
    return path


def _curve(*, midpoint: float = 0.6, floor: float = 0.2, slope: float = 5.0) -> Calibration:
    return Calibration(
        tier=TierName.LEXICAL, model="m", language="en", midpoint=midpoint, floor=floor, slope=slope
    )  # fmt: skip


def test_a_file_gives_its_entries(tmp_path: Path) -> None:
    table = load_calibrations(_write(tmp_path / "c.json", ENTRY))

    entry = table.find(tier=TierName.LEXICAL, model="m", language="en")

    assert entry.is_fitted
    assert (entry.midpoint, entry.floor, entry.slope) == (0.6, 0.2, 5.0)


def test_the_built_in_file_loads() -> None:
    assert load_calibrations(None).entries


@pytest.mark.parametrize(
    ("tier", "model", "language"),
    [(TierName.EMBEDDING, "m", "en"), (TierName.LEXICAL, "other", "en"), (TierName.LEXICAL, "m", "zh")],
)
def test_another_tier_model_or_language_gets_defaults_that_are_not_fitted(
    tmp_path: Path, tier: TierName, model: str, language: Any
) -> None:
    table = load_calibrations(_write(tmp_path / "c.json", ENTRY))

    entry = table.find(tier=tier, model=model, language=language)

    assert not entry.is_fitted
    assert entry.reliability == ()
    assert entry.support(0.5) == 0.5


def test_the_default_reaches_two_and_ninety_eight_hundredths_at_its_ends() -> None:
    default = CalibrationTable(()).find(tier=TierName.LEXICAL, model="m", language="en")

    # 1 / (1 + e^-4) = 0.98201; at 0 the gate is closed.
    assert default.support(1.0) == pytest.approx(0.98201, abs=1e-5)
    assert default.support(0.0) == 0.0


@pytest.mark.parametrize(
    ("raw", "support"),
    [
        (0.6, 0.5),  # the midpoint
        (1.0, 0.880797),  # 1 / (1 + e^-2)
        (0.4, 0.268941),  # the gate is just open: 1 / (1 + e^1)
        (0.3, 0.0912130),  # half open: 0.5 / (1 + e^1.5)
        (0.2, 0.0),  # the floor
        (0.0, 0.0),
        (-1.0, 0.0),
    ],
)
def test_support_is_a_sigmoid_behind_a_gate(raw: float, support: float) -> None:
    assert _curve().support(raw) == pytest.approx(support, abs=1e-6)


def test_a_floor_above_the_midpoint_divides_by_nothing() -> None:
    assert 0.0 <= _curve(midpoint=0.2, floor=0.6).support(0.3) <= 1.0
    assert 0.0 <= _curve(midpoint=0.2, floor=0.2).support(0.2) <= 1.0


@pytest.mark.parametrize(("x", "y"), [(0.0, 0.5), (1e9, 1.0), (-1e9, 0.0), (math.log(3), 0.75), (-math.log(3), 0.25)])
def test_the_sigmoid_does_not_overflow(x: float, y: float) -> None:
    assert sigmoid(x) == pytest.approx(y)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"slope": 0}, "entries.0.slope"),
        ({"slope": "steep"}, "entries.0.slope"),
        ({"tier": "oracle"}, "entries.0.tier"),
        ({"language": "de"}, "entries.0.language"),
        ({"midpoint": None}, "entries.0.midpoint"),
        ({"colour": "red"}, "entries.0.colour"),
        ({"source": {**SOURCE, "rows": 0}}, "entries.0.source.rows"),
        ({"reliability": [[0.1]]}, "entries.0.reliability"),
        ({"reliability": [[0.1, 1.5]]}, "entries.0.reliability"),
        ({"reliability": [[0.1, -0.5]]}, "entries.0.reliability"),
        ({"reliability": [[0.1, math.nan]]}, "entries.0.reliability"),
        ({"reliability": [[0.9, 0.9], [0.1, 0.1]]}, "entries.0.reliability"),
    ],
    ids=str,
)
def test_a_malformed_entry_is_refused_with_file_and_field(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    path = _write(tmp_path / "mine.json", {**ENTRY, **change})

    with pytest.raises(CalibrationError) as refused:
        load_calibrations(path)

    assert str(refused.value).startswith(f"{path}: {field}")


def test_another_version_of_the_file_is_refused(tmp_path: Path) -> None:
    path = _write(tmp_path / "mine.json", ENTRY, version=2)

    with pytest.raises(CalibrationError, match="version"):
        load_calibrations(path)


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
