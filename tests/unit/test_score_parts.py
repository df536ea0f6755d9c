"""The parts of a run: its output, its scorer, its budget, what they promise one another."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plumbline.cli.score.local import score_in_order
from plumbline.cli.score.results import RunOutput, result_files
from plumbline.cli.score.run import RunLimits
from plumbline.ground.errors import InvalidInput
from plumbline.judging.ports.exchange import Usage
from plumbline.judging.text.sample import Sample
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import RowStatus, ScoredRow
from tests.making.result_rows import error_line, result_line, scored_line

LINES = [scored_line(f"q{row}", 0.5, row=row, flags=["degraded"]) for row in range(8)]


def _attempt(reason: str) -> dict[str, object]:
    return {"tier": "llm", "outcome": "failed", "reason": reason, "seconds": 0.1, "calls": 1}


def records(count: int) -> Iterator[Record]:
    return (Record(row, f"q{row}", Sample("", (), ""), {}) for row in range(count))


class GatedScorer:
    """Waits with each row until it is let through; `begun` has the rows in the order they came."""

    def __init__(self, *, cost: float | None = 0.0) -> None:
        self.begun: list[int] = []
        self.gates: dict[int, asyncio.Event] = {}
        self._cost = cost

    async def score(self, row: Record | RecordProblem) -> ScoredRow:
        self.begun.append(row.row)
        await self.gates.setdefault(row.row, asyncio.Event()).wait()
        return ScoredRow(row.row, b"", RowStatus.JUDGED, "llm", is_degraded=False, usage=Usage(cost=self._cost))

    def let(self, *rows: int) -> None:
        for row in rows:
            self.gates.setdefault(row, asyncio.Event()).set()


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def take_rows(one: GatedScorer, limits: RunLimits) -> tuple[asyncio.Task[None], list[int]]:
    """Begin to score nine rows, three at a time; return the task and the rows that are done."""
    done: list[int] = []

    async def take() -> None:
        async for each in score_in_order(one.score, records(9), limits, concurrency=3):
            done.append(each.row)  # noqa: PERF401 - looked at before the end

    return asyncio.create_task(take()), done


async def test_rows_come_in_order_and_no_more_are_under_way_than_allowed() -> None:
    one, limits = GatedScorer(), RunLimits()
    taking, done = take_rows(one, limits)
    await turns()
    assert (one.begun, done) == ([0, 1, 2], [])
    one.let(1, 2)
    await turns()
    assert (one.begun, done) == ([0, 1, 2, 3, 4], [])
    one.let(*range(9))
    await taking
    assert done == list(range(9))


async def test_a_halt_lets_what_is_under_way_finish_and_begins_nothing() -> None:
    one, limits = GatedScorer(), RunLimits()
    taking, done = take_rows(one, limits)
    await turns()
    limits.stop("interrupted")
    one.let(*range(9))
    await taking

    assert one.begun == done == [0, 1, 2]


@pytest.mark.parametrize(("cost", "begun"), [(0.4, [0, 1, 2]), (None, [0]), (0.0, list(range(9)))])
async def test_what_is_spent_ends_the_run_and_an_unknown_price_does_at_once(
    cost: float | None, begun: list[int]
) -> None:
    one, limits = GatedScorer(cost=cost), RunLimits(1.0)
    one.let(*range(9))

    scored = score_in_order(one.score, records(9), limits, concurrency=1)
    done = [each.row async for each in scored]

    assert done == one.begun == begun
    assert limits.is_stopped == (cost != 0.0)


def output_of(tmp_path: Path, *, digest: str = "d1", restart: bool = False) -> RunOutput:
    return RunOutput(result_files(tmp_path / "out.jsonl"), digest, restart=restart)


def complete(out: Path, lines: list[bytes]) -> None:
    """A run whose lines are all written."""
    with RunOutput(result_files(out), "d1") as output:
        for row, line in enumerate(lines):
            output.write(line, row)
        output.finish()


def begun(tmp_path: Path, lines: bytes) -> Path:
    """The files of a run that was killed after these bytes."""
    with output_of(tmp_path):
        pass
    partial = tmp_path / "out.jsonl.partial"
    partial.write_bytes(lines)
    return partial


def test_a_torn_line_is_dropped_and_whole_ones_stay(tmp_path: Path) -> None:
    begun(tmp_path, LINES[0] + b"\n" + LINES[1][:50])

    with output_of(tmp_path) as output:
        assert [row.row for _, row in output.rows()] == [0]
        output.write(LINES[1], 1)
        assert [row.row for _, row in output.rows()] == [0, 1]
        output.finish()
    assert (tmp_path / "out.jsonl").read_bytes() == LINES[0] + b"\n" + LINES[1] + b"\n"


def test_two_runs_do_not_write_into_one_file(tmp_path: Path) -> None:
    with output_of(tmp_path), pytest.raises(InvalidInput, match=r"out\.jsonl\.partial: another run writes to it"):
        output_of(tmp_path)

    output_of(tmp_path).close()


@pytest.mark.parametrize("line", [LINES[0], b'"text"', b"{}"])
def test_lines_with_a_row_out_of_place_are_not_resumed(tmp_path: Path, line: bytes) -> None:
    begun(tmp_path, LINES[0] + b"\n" + line + b"\n")

    with (
        output_of(tmp_path) as output,
        pytest.raises(InvalidInput, match="line 2 is not the result of a row of its own"),
    ):
        list(output.rows())


def test_results_that_were_taken_away_are_made_again(tmp_path: Path) -> None:
    with output_of(tmp_path) as output:
        output.finish()
    assert output_of(tmp_path).is_complete
    (tmp_path / "out.jsonl").unlink()

    with output_of(tmp_path) as output:
        assert not output.is_complete


def test_lines_that_nothing_is_known_of_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl.partial").write_bytes(b"mine\n")

    with pytest.raises(InvalidInput, match="lines of a run that nothing is known of"):
        output_of(tmp_path)
    assert (tmp_path / "out.jsonl.partial").read_bytes() == b"mine\n"


@pytest.mark.parametrize(
    "state", ["d2\n", '{"input": {"bytes": 10}, "choices": {"plumbline": "0.2.0"}, "version": 1}\n']
)
def test_lines_made_otherwise_or_by_another_version_are_refused_with_what_to_do(tmp_path: Path, state: str) -> None:
    partial = begun(tmp_path, LINES[0] + b"\n")
    (tmp_path / "out.jsonl.state").write_text(state)

    with pytest.raises(InvalidInput) as refused:
        output_of(tmp_path)

    assert str(refused.value) == (
        "out.jsonl.partial: was made with other options, from another input or by another version of Plumbline; "
        "--restart begins anew"
    )
    assert partial.read_bytes() == LINES[0] + b"\n"
    with output_of(tmp_path, restart=True) as output:
        assert list(output.rows()) == []


def test_a_run_without_a_row_binds_no_later_one(tmp_path: Path) -> None:
    begun(tmp_path, b"")

    with output_of(tmp_path, digest="d2") as output:
        output.write(LINES[0], 0)
    with pytest.raises(InvalidInput, match="was made with other options"):
        output_of(tmp_path)


NOT_JUDGED: dict[str, tuple[bool, dict[str, Any]]] = {
    "timed out": (True, {"status": "not_judged", "trace": {"attempts": [_attempt("timeout")]}}),
    "cross_lingual": (False, {"status": "not_judged", "trace": {"attempts": [_attempt("cross_lingual")]}}),
    "abstained": (False, {"status": "abstained"}),
}


@pytest.mark.parametrize("name", NOT_JUDGED)
def test_only_rows_without_a_verdict_for_a_passing_reason_are_retried(tmp_path: Path, name: str) -> None:
    is_retried, fields = NOT_JUDGED[name]
    complete(tmp_path / "out.jsonl", [LINES[0], result_line("q1", row=1, **fields), error_line("q2", row=2)])

    with output_of(tmp_path) as output:
        assert output.is_complete
        assert output.retry() == is_retried
        assert output.is_complete != is_retried
        assert {row.row for _, row in output.rows()} == ({0, 2} if is_retried else {0, 1, 2})


@pytest.mark.parametrize("form", ["jsonl", "csv"])
@pytest.mark.parametrize("done", range(3))
def test_a_retry_that_is_killed_anywhere_is_resumed_and_keeps_the_order(tmp_path: Path, form: str, done: int) -> None:
    out = tmp_path / f"out.{form}"
    open_rows = {row: result_line(f"q{row}", row=row, **NOT_JUDGED["timed out"][1]) for row in (1, 4)}
    complete(out, [open_rows.get(row, line) for row, line in enumerate(LINES)])
    before = out.read_bytes()

    with RunOutput(result_files(out), "d1") as output:
        assert output.retry() == 2
        for row in (1, 4)[:done]:
            output.write(LINES[row], row)
    assert out.read_bytes() == before
    if not done:
        # Killed among the kept lines
        (growing,) = tmp_path.glob("*.partial")
        growing.write_bytes(LINES[0] + b"\n" + LINES[2][:9])

    with RunOutput(result_files(out), "d1") as output:
        assert not output.is_complete
        assert {row.row for _, row in output.rows()} == set(range(8)) - set((1, 4)[done:])
        for row in (1, 4)[done:]:
            output.write(LINES[row], row)
        output.finish()
    with RunOutput(result_files(out), "d1") as output:
        assert output.is_complete
        assert [line.rstrip() for line, _ in output.rows()] == LINES
        assert not output.retry()


def test_a_restart_keeps_no_line_of_a_retry(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    complete(out, [result_line("q0", row=0, **NOT_JUDGED["timed out"][1]), LINES[1]])
    with output_of(tmp_path) as output:
        output.retry()

    with output_of(tmp_path, restart=True) as output:
        output.write(LINES[0], 0)
    with output_of(tmp_path) as output:
        assert not output.is_complete
        assert [row.row for _, row in output.rows()] == [0]
