"""`plumbline rate drift`: a judge that became more lenient is found, one that did not is not."""

import json
from pathlib import Path

import numpy as np
import pytest

from plumbline.cli.main import main
from plumbline.cli.rate import find_drift
from plumbline.rows.report.comparison import compare_runs
from plumbline.rows.report.result_lines import RowHead, read_head
from tests.making.result_rows import scored_line

ANCHORS, CLAIMS, RUNS = 300, 4, 60


def judged(supported: np.ndarray, rng: np.random.Generator, *, lenient: float = 0.0) -> list[RowHead]:
    """Anchors as a judge sees them that errs in 2 % of the claims, and takes this share of the others for supported."""
    seen = supported ^ (rng.random(supported.shape) < 0.02) | (rng.random(supported.shape) < lenient)
    return [
        read_head(
            json.dumps(
                {
                    "row": row,
                    "custom_id": f"a{row}",
                    "result": {
                        "status": "judged",
                        "trace": {},
                        "tier": "llm",
                        "faithfulness": float(claims.mean()),
                        "passed": bool(claims.all()),
                    },
                }
            ).encode()
        )
        for row, claims in enumerate(seen)
    ]


def alarms(*, lenient: float) -> int:
    """Runs of `RUNS` in which the judge of now is said to differ."""
    rng = np.random.default_rng(28)
    found = 0
    for _ in range(RUNS):
        supported = rng.random((ANCHORS, CLAIMS)) < 0.7
        before, now = judged(supported, rng), judged(supported, rng, lenient=lenient)
        ((_, is_drift),) = find_drift(compare_runs(before, now).comparison(), alpha=0.05)
        found += is_drift
    return found


def test_a_judge_that_lets_five_percent_more_pass_is_found_in_nine_of_ten_runs() -> None:
    # A sixth of the 30 % unsupported claims: 5 % of all.
    assert alarms(lenient=1 / 6) >= 0.9 * RUNS


def test_the_same_judge_raises_a_false_alarm_in_at_most_one_of_twenty_runs() -> None:
    assert alarms(lenient=0.0) <= 0.05 * RUNS


def _file(path: Path, scores: list[float], *, model: str) -> str:
    judge = {"model": model, "prompt": "p/v1", "prompt_digest": "d", "calls": 1}
    judge |= {"tokens": {"prompt": None, "completion": None}, "cache": None, "controls": None, "controls_right": None}
    lines = [scored_line(f"a{row}", score, row=row, trace={"judge": judge}) for row, score in enumerate(scores)]
    path.write_bytes(b"\n".join(lines))
    return str(path)


def test_the_command_ends_with_one_where_the_judge_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = _file(tmp_path / "before.jsonl", [0.5] * 20, model="one")
    same = _file(tmp_path / "same.jsonl", [0.5] * 20, model="one")
    now = _file(tmp_path / "now.jsonl", [0.9] * 8 + [0.5] * 12, model="two")

    assert main(["rate", "drift", before, same]) == 0
    assert "tier llm: no drift: 20 pairs, shift +0.000" in capsys.readouterr().out
    assert main(["rate", "drift", before, now]) == 1
    told = capsys.readouterr().out
    # Eight of .4 in twenty; all eight moves have one sign: 2 / 2^8.
    assert "tier llm: DRIFT: 20 pairs, shift +0.160" in told
    assert "p 0.00781; 8 pass now, 0 fail now, p 0.00781" in told
    assert "judge's model changed: one -> two" in told
    assert main(["rate", "drift", before, now, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["changed"] == {"model": [["one"], ["two"]]}


def test_files_that_cannot_be_compared_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = _file(tmp_path / "before.jsonl", [0.5] * 3, model="one")
    other = tmp_path / "other.jsonl"
    other.write_text("{}", encoding="utf-8")

    assert main(["rate", "drift", before, str(other)]) == 2
    assert "no row of results" in capsys.readouterr().err
    other.write_text("", encoding="utf-8")
    assert main(["rate", "drift", before, str(other)]) == 2
    assert "no row was judged in both" in capsys.readouterr().err
