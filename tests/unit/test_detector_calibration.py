"""`plumbline calibrate --tier detector`, with a real small model."""

import json
from pathlib import Path

import pytest

from plumbline.cli.main import main
from tests.making.small_detectors import save_detector

PROBE = '{premise = "the river", claim = "the bridge", at_least = 0.0}'


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """A file of 24 answers, every second of them about something else."""
    path = tmp_path / "labels.jsonl"
    with path.open("w") as file:
        for number in range(24):
            context = f"The bridge of Keld was built in {1900 + number} by the mayor."
            answer = context if number % 2 else f"Its railway tracks cross {number} rivers."
            file.write(json.dumps({"contexts": [context], "answer": answer, "label": number % 2}) + "\n")
    return path


def described(folder: Path, probe: str = PROBE) -> Path:
    path = folder / "mine.toml"
    path.write_text(f'model = "{save_detector(folder / "mine", "sequence")}"\npositive = 1\nprobe = [{probe}]\n')
    return path


def test_a_detector_that_fails_its_probe_is_not_calibrated(
    tmp_path: Path, labels: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = described(tmp_path, PROBE.replace("0.0", "1.0"))
    monkeypatch.setenv("PLUMBLINE_DETECTOR", str(path))
    assert main(["calibrate", str(labels), "--tier", "detector", "--draws", "20"]) == 2
    assert "for pair 1 of its probe, expected at least 1" in capsys.readouterr().err


def test_a_detector_is_calibrated_on_labels(
    tmp_path: Path, labels: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUMBLINE_DETECTOR", str(described(tmp_path)))
    code = main(["calibrate", str(labels), "--tier", "detector", "--draws", "20", "--json", "--force"])
    said = capsys.readouterr()
    assert code == 0, said.err
    (report,) = json.loads(said.out.splitlines()[-1])
    assert (report["calibration"]["tier"], report["calibration"]["model"]) == ("detector", "mine")
    assert list(report["calibration"]["weights"]) == ["logit"]


def test_calibrating_a_detector_needs_one(labels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", str(labels), "--tier", "detector"]) == 2
    assert "set PLUMBLINE_DETECTOR" in capsys.readouterr().err
