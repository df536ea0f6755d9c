"""A run, whatever the engine: here a loop. What is done is not done again; another task is not mixed in."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from plumbline.extras.cluster.block_plan import split_file
from plumbline.extras.cluster.cluster_run import BlockWork, ClusterRun, OutputBlocks, block_words
from plumbline.extras.cluster.score_batch import BATCH_COLUMNS
from plumbline.extras.cluster.task import ClusterTask
from plumbline.ground.errors import ClusterUnavailable, ConfigurationError, InvalidInput
from plumbline.ground.settings import Settings
from plumbline.schemas.evaluation import EvaluationOptions
from tests.making.cluster_files import bridge_rows, write_lines
from tests.running.service import plain_settings

LEXICAL = EvaluationOptions(tiers=["lexical"])


def task_of(folder: Path, rows: int = 10, **fields: Any) -> ClusterTask:
    source = folder / "in.jsonl"
    if not source.exists():
        write_lines(source, bridge_rows(rows))
    given: dict[str, Any] = {
        "paths": (str(source),),
        "out_dir": str(folder / "out"),
        "options": LEXICAL,
        "block_rows": 3,
        **fields,
    }
    return ClusterTask(**given)


def begun(task: ClusterTask, settings: Settings | None = None) -> ClusterRun:
    run = ClusterRun(settings or plain_settings(), task)
    if not run.is_planned:
        run.begin([split_file(facts.place, file, run.reading, task.block_rows) for file, facts in enumerate(run.files)])
    return run


def done(run: ClusterRun, *, most: int = 1_000) -> int:
    """How many blocks were pending; at most so many are done."""
    pending = run.pending()
    work = BlockWork(run.order(workers=2))
    for block in pending[:most]:
        (outcome,) = work({"block": [json.dumps(block_words(block))]})["outcome"]
        run.take(outcome)
    if pending[:most]:
        work.close()
    return len(pending)


def lines_in(files: tuple[str, ...]) -> list[dict[str, Any]]:
    return [json.loads(line) for file in files for line in Path(file).read_bytes().splitlines()]


def test_the_output_in_order_has_every_row_once(tmp_path: Path) -> None:
    run = begun(task_of(tmp_path))
    done(run)

    outcome = run.outcome()

    assert [line["row"] for line in lines_in(outcome.files)] == list(range(10))
    assert [Path(file).name for file in outcome.files][-1] == "part-000000-000000000009.jsonl"
    assert (outcome.summary.rows, outcome.summary.judged, outcome.summary.tiers.lexical) == (10, 10, 10)
    assert (outcome.skipped, outcome.unfinished) == (0, ())


def test_what_is_done_is_not_done_again_and_still_counted(tmp_path: Path) -> None:
    task = task_of(tmp_path)
    done(begun(task), most=2)
    before = {each.name: each.stat().st_mtime_ns for each in (tmp_path / "out").glob("part-*")}
    assert len(before) == 2

    second = begun(task)
    assert done(second) == 2

    outcome = second.outcome()
    after = {each.name: each.stat().st_mtime_ns for each in (tmp_path / "out").glob("part-*")}
    assert {name: after[name] for name in before} == before
    assert (outcome.summary.rows, outcome.skipped, len(after)) == (10, 2, 4)


def test_a_second_try_of_a_block_that_has_its_file_says_what_was_counted(tmp_path: Path) -> None:
    run = begun(task_of(tmp_path))
    blocks = run.pending()
    done(run)

    work = BlockWork(run.order(workers=1))

    assert work.done(blocks[0])["summary"] == work.done(blocks[0])["summary"]
    assert work.done(blocks[0])["block"] == "part-000000-000000000000.jsonl"


def test_a_block_whose_process_ended_three_times_is_given_up_and_named(tmp_path: Path) -> None:
    task = task_of(tmp_path)
    run = begun(task)
    first, *_ = run.pending()
    order = run.order(workers=1)
    output = OutputBlocks(order.out_dir, "jsonl")
    # Three processes began it, and none wrote it.
    assert [output.may_begin(first, order.run) for _ in range(4)] == [True, True, True, False]

    told = BlockWork(order).done(first)
    run.take(json.dumps(told))
    done_by_others = [block for block in run.pending() if block != first]
    work = BlockWork(replace(order))
    for block in done_by_others:
        run.take(json.dumps(work.done(block)))
    work.close()

    outcome = run.outcome()
    assert outcome.unfinished == ("part-000000-000000000000.jsonl",)
    assert outcome.summary.rows == 7
    # Another run tries again.
    assert done(begun(task)) == 1


def test_blocks_that_nobody_answered_for_are_no_success(tmp_path: Path) -> None:
    run = begun(task_of(tmp_path))
    done(run, most=1)

    with pytest.raises(ClusterUnavailable, match="3 of 4 blocks got lost"):
        run.outcome()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"options": EvaluationOptions(tiers=["lexical"], threshold=0.9)}, "threshold was not given and is 0.9"),
        ({"block_rows": 4}, "block_rows was 3 and is 4"),
        ({"columns": "plumbline"}, "columns was not given and is plumbline"),
        ({"block_format": "parquet"}, "block_format was jsonl and is parquet"),
    ],
)
def test_a_folder_of_another_task_is_refused(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    task = task_of(tmp_path)
    begun(task)

    with pytest.raises(InvalidInput, match=f"of another run: {named}; name a new folder"):
        begun(replace(task, **changes))


def test_a_folder_of_changed_rows_or_settings_is_refused(tmp_path: Path) -> None:
    task = task_of(tmp_path)
    begun(task)
    with pytest.raises(InvalidInput, match=r"threshold was not given and is 0\.7; name a new folder"):
        begun(task, plain_settings(threshold=0.7))

    write_lines(tmp_path / "in.jsonl", bridge_rows(11))

    with pytest.raises(InvalidInput, match="the input files changed; name a new folder"):
        begun(task)


def test_limits_of_speed_may_change_between_runs(tmp_path: Path) -> None:
    task = task_of(tmp_path)
    begun(task)

    assert begun(replace(task, workers=3, cpus_per_worker=0.5), plain_settings(llm_rpm=5)).is_planned


def test_a_folder_with_files_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")

    with pytest.raises(InvalidInput, match="holds files and no manifest"):
        begun(task_of(tmp_path))


def test_parquet_has_the_columns_and_the_line(tmp_path: Path) -> None:
    run = begun(task_of(tmp_path, block_format="parquet"))
    done(run)

    table = pq.read_table(run.outcome().files[0])

    assert tuple(table.column_names) == BATCH_COLUMNS
    assert [json.loads(line)["row"] for line in table["line"].to_pylist()] == table["row"].to_pylist() == [0, 1, 2]
    # The folder as a whole, as an engine reads it: what is ours is left out.
    assert pq.read_table(tmp_path / "out").num_rows == 10


def test_a_folder_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    run = begun(task_of(tmp_path))
    (tmp_path / "out" / "_plumbline" / "begun").write_text("a file where a folder should be")

    with pytest.raises(ConfigurationError, match="out: cannot be written"):
        done(run, most=1)


@pytest.mark.parametrize("wrong", [{"block_rows": 0}, {"workers": 0}, {"cpus_per_worker": 0.0}, {"paths": ()}])
def test_a_task_that_makes_no_sense_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        begun(task_of(tmp_path, **wrong))
