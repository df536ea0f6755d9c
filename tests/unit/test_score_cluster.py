"""`plumbline score --engine ray` up to the engine itself, which `tests/e2e/test_ray.py` runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from plumbline.cli.main import main
from plumbline.extras.cluster import ray_engine
from plumbline.extras.cluster.task import ClusterOutcome, ClusterTask, Progress
from plumbline.ground.errors import ClusterUnavailable
from plumbline.ground.settings import Settings
from plumbline.rows.scored_row import RowTally

Told = Callable[[Progress], None] | None


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[ClusterTask]:
    """The tasks that the engine was given; it does nothing."""
    given: list[ClusterTask] = []

    def score(_: Settings, task: ClusterTask, *, on_progress: Told = None) -> ClusterOutcome:
        given.append(task)
        if on_progress:
            on_progress(Progress(1, 2, 10, 20))
        missing = ("block-2",) if task.workers == 7 else ()
        return ClusterOutcome(RowTally().summary(), ("a", "b"), 1, missing)

    monkeypatch.setattr(ray_engine, "score_on_ray", score)
    return given


def test_the_options_become_the_task(tasks: list[ClusterTask], capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--tiers", "lexical", "--threshold", "0.7", "--workers", "3", "--block-rows", "50", "--address", "auto"]
    options += ["--out-format", "parquet"]

    code = main(["score", "a.parquet", "b/*.jsonl", "-o", "out", "--engine", "ray", "--columns", "ragas", *options])

    [task] = tasks
    assert code == 0
    assert (task.paths, task.out_dir, task.block_format) == (("a.parquet", "b/*.jsonl"), "out", "parquet")
    assert (task.workers, task.block_rows, task.address, task.columns) == (3, 50, "auto", "ragas")
    assert (task.options.tiers, task.options.threshold) == (["lexical"], 0.7)
    assert "1 of 2 blocks, 10 of 20 rows" in capsys.readouterr().err


def test_blocks_that_are_missing_are_an_incomplete_run(
    tasks: list[ClusterTask], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", "a.jsonl", "-o", "out", "--engine", "ray", "--workers", "7", "--quiet"]) == 3
    assert "block-2" in capsys.readouterr().err
    assert tasks


def test_a_cluster_that_is_away_is_an_incomplete_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(*_: object, **__: object) -> ClusterOutcome:
        raise ClusterUnavailable("no cluster at auto")

    monkeypatch.setattr(ray_engine, "score_on_ray", away)

    assert main(["score", "a.jsonl", "-o", "out", "--engine", "ray", "--address", "auto"]) == 3
    assert capsys.readouterr().err == "plumbline: no cluster at auto\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--engine", "ray", "-o", "out", "--limit", "3"], "--limit: not with --engine"),
        (["--engine", "ray", "-o", "out", "--fail-under", "faithfulness=0.8"], "--fail-under: not with --engine"),
        (["--engine", "ray"], "-o: expected a folder"),
        (["--engine", "ray", "-o", "-"], "-o: expected a folder"),
        (["--engine", "ray", "-o", "out", "--out-format", "csv"], "expected jsonl or parquet"),
        (["--engine", "ray", "-o", "out", "--column", "answer=x"], "name answer and contexts"),
        (["second.jsonl", "-o", "out.jsonl"], "2 files: expected one, or --engine ray"),
    ],
)
def test_what_a_cluster_cannot_do_is_refused(
    tasks: list[ClusterTask], tmp_path: Path, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", str(tmp_path / "a.jsonl"), *arguments]) == 2
    assert told in capsys.readouterr().err
    assert tasks == []
