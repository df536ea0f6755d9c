"""An experiment killed at random points and started again ends as one that nobody killed."""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from plumbline.cli.main import main
from plumbline.extras.lab.folder import load_results
from tests.making.lab_experiments import EXPERIMENT, tiny_experiment

KILLS = 5
SEED = 20
# What a clock says of a run, and no other run says again.
MEASURED_ANEW = {"latency", "built"}
pytestmark = pytest.mark.timeout(180)


def begun(experiment: Path, out: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "plumbline.cli.main", "lab", "run", str(experiment), "--out", str(out)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def killed_after(process: "subprocess.Popen[str]", lines: int) -> list[dict[str, Any]]:
    """What the run said before it was killed."""
    assert process.stderr is not None
    with process.stderr as said:
        told = [json.loads(line) for line, _ in zip(said, range(lines), strict=False)]
        process.kill()
        assert process.wait() in {-signal.SIGKILL, 0}
    return told


def unchanging(folder: Path) -> dict[str, Any]:
    """All that another run must say again: every number of the table but times and memory, and the files."""
    results = json.loads((folder / "results.json").read_text())
    results["systems"] = [
        {key: value for key, value in system.items() if key not in MEASURED_ANEW} for system in results["systems"]
    ]
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for name in ("runs", "qrels")
        for path in sorted((folder / name).iterdir())
    }
    return {"results": results, **files}


def test_a_killed_experiment_ends_with_the_same_table(tmp_path: Path) -> None:
    experiment, whole, torn = tiny_experiment(tmp_path), tmp_path / "whole", tmp_path / "torn"
    assert main(["lab", "run", str(experiment), "--out", str(whole), "--quiet"]) == 0
    chance = random.Random(SEED)  # noqa: S311
    done: set[str] = set()

    for kill in range(KILLS):
        told = killed_after(begun(experiment, torn), lines=chance.randint(1, 6) + 4 * kill)
        ended = [each for each in told if each["event"] == "done"]
        assert all(each["was_there"] for each in ended if each["name"] in done)
        done |= {each["name"] for each in ended}
    before = {path.name: path.read_bytes() for path in (torn / "steps").glob("*.json")}
    assert main(["lab", "run", str(experiment), "--out", str(torn), "--quiet"]) == 0

    assert unchanging(torn) == unchanging(whole)
    assert not list(torn.rglob("*.partial"))
    # Times of what was done are those that were taken then
    assert {path: (torn / "steps" / path).read_bytes() for path in before} == before
    assert len(load_results(torn).systems) == 5


def test_ctrl_c_ends_it_in_a_line(tmp_path: Path) -> None:
    slow = EXPERIMENT.replace(
        'Words"\n\n[retrievers.short]', 'Words"\noptions = { build_nap = 60 }\n\n[retrievers.short]'
    )
    # A shell that runs the tests behind itself ignores Ctrl-C for all its children
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = begun(tiny_experiment(tmp_path, slow), tmp_path / "out")
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.stderr is not None
    with process.stderr as said:
        next(line for line in said if '"building"' in line)
        process.send_signal(signal.SIGINT)
        rest = said.read()

    assert process.wait() == 130
    assert rest == "plumbline: stopped; finished systems are kept. Run the same command to resume.\n"
