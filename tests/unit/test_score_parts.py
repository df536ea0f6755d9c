"""The parts of a run: its journal, its state, its scorer, its budget, what they promise one another."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from plumbline.cli.score.local import score_in_order
from plumbline.cli.score.output import Journal, RunOutput, RunState, load_state, outcome_of, result_files, save_state
from plumbline.cli.score.run import Budget, StopSignal
from plumbline.cli.score.source import InputFile, identify_file
from plumbline.ground.errors import InvalidInput
from plumbline.judging.ports.exchange import Usage
from plumbline.judging.text.sample import Sample
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.report.result_lines import ResultRow, read_line
from plumbline.rows.run_identity import Choice
from plumbline.rows.scored_row import RowStatus, ScoredRow
from tests.making.result_rows import error_line, scored_line

INPUT = InputFile(10, 5, "abc")
LINES = [scored_line(f"q{row}", 0.5, row=row, flags=["degraded"]) for row in range(8)]


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


async def test_rows_come_in_order_and_no_more_are_under_way_than_allowed() -> None:
    one, stop = GatedScorer(), StopSignal()
    done: list[int] = []

    async def take() -> None:
        scored = score_in_order(one.score, records(9), stop, Budget(None, stop), concurrency=3)
        async for each in scored:
            done.append(each.row)  # noqa: PERF401 - looked at before the end

    taking = asyncio.create_task(take())
    await turns()
    assert (one.begun, done) == ([0, 1, 2], [])
    one.let(1, 2)
    await turns()
    assert (one.begun, done) == ([0, 1, 2, 3, 4], [])
    one.let(*range(9))
    await taking
    assert done == list(range(9))


async def test_a_halt_lets_what_is_under_way_finish_and_begins_nothing() -> None:
    one, stop = GatedScorer(), StopSignal()
    done: list[int] = []

    async def take() -> None:
        scored = score_in_order(one.score, records(9), stop, Budget(None, stop), concurrency=3)
        async for each in scored:
            done.append(each.row)  # noqa: PERF401 - looked at before the end

    taking = asyncio.create_task(take())
    await turns()
    stop.set("interrupted")
    one.let(*range(9))
    await taking

    assert one.begun == done == [0, 1, 2]


@pytest.mark.parametrize(("cost", "begun"), [(0.4, [0, 1, 2]), (None, [0]), (0.0, list(range(9)))])
async def test_what_is_spent_ends_the_run_and_an_unknown_price_does_at_once(
    cost: float | None, begun: list[int]
) -> None:
    one, stop = GatedScorer(cost=cost), StopSignal()
    one.let(*range(9))

    scored = score_in_order(one.score, records(9), stop, Budget(1.0, stop), concurrency=1)
    done = [each.row async for each in scored]

    assert done == one.begun == begun
    assert stop.is_set == (cost != 0.0)


def test_a_line_is_read_back_as_what_was_counted_of_it() -> None:
    row, error = read_line(LINES[7]), read_line(error_line("q1", row=1))

    assert isinstance(row, ResultRow)
    assert isinstance(error, ResultRow)
    found = outcome_of(row)
    assert (found.row, found.status, found.tier, found.is_degraded) == (7, RowStatus.JUDGED, "llm", True)
    assert (found.usage.calls, found.usage.cost) == (1, 0.25)
    assert outcome_of(error).status is RowStatus.INVALID


def test_a_torn_line_is_dropped_and_whole_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "x.partial"
    path.write_bytes(LINES[0] + b"\n" + LINES[1][:50])

    with closing(Journal(path)) as journal:
        assert [row.row for row in journal.written()] == [0]
        journal.write(LINES[1])
        assert [row.row for row in journal.written()] == [0, 1]


def test_two_runs_do_not_write_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "x.partial"
    with closing(Journal(path)), pytest.raises(InvalidInput, match=r"x\.partial: another run writes to it"):
        Journal(path)

    Journal(path).close()


@pytest.mark.parametrize("line", [LINES[3], b'"text"', b"{}"])
def test_a_journal_with_a_row_out_of_place_is_not_gone_on_with(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "x.partial"
    path.write_bytes(LINES[0] + b"\n" + line + b"\n")

    with closing(Journal(path)) as journal, pytest.raises(InvalidInput, match="line 2 is not the result of row 1"):
        list(journal.written())


def test_a_state_is_kept_whole_and_tells_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "x.state"
    state = RunState(INPUT, {"tiers": ["llm"], "threshold": 0.5, "limit": None})
    assert load_state(path) is None
    save_state(state, path)
    assert load_state(path) == state
    assert [each.name for each in tmp_path.iterdir()] == ["x.state"]

    other = RunState(InputFile(10, 9, "abd"), {"tiers": ["llm", "lexical"], "threshold": 0.5, "limit": 7})
    assert state.differences(other) == [
        "the input has other content",
        "tiers was llm and is llm,lexical",
        "limit was not given and is 7",
    ]
    assert state.differences(RunState(InputFile(10, 6, "abc"), state.choices)) == []


def test_a_damaged_state_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.state").write_text('{"input": 7}')

    with pytest.raises(InvalidInput, match=r"x\.state: is no state of a run"):
        load_state(tmp_path / "x.state")


def test_an_input_is_known_by_its_content_whatever_its_date(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("one\n")
    first = identify_file(path)
    assert identify_file(path, InputFile(first.bytes, first.modified_ns, "not read")).digest == "not read"
    assert identify_file(path, InputFile(first.bytes, 1, "read")).digest == first.digest


def data_in(tmp_path: Path) -> Path:
    """A file of the size and date of INPUT."""
    path = tmp_path / "data.jsonl"
    path.write_text("0123456789")
    os.utime(path, ns=(INPUT.modified_ns, INPUT.modified_ns))
    return path


def output_of(tmp_path: Path, *, restart: bool = False) -> RunOutput:
    return RunOutput(result_files(tmp_path / "out.jsonl"), data_in(tmp_path), {}, restart=restart)


def test_results_that_were_changed_by_hand_are_not_taken_for_the_runs(tmp_path: Path) -> None:
    with output_of(tmp_path) as output:
        assert output.journal is not None
        output.journal.write(LINES[0])
        output.finish()
    with output_of(tmp_path) as output:
        assert output.state.is_complete
        assert output.result_lines == tmp_path / "out.jsonl"
    (tmp_path / "out.jsonl").write_bytes(b"")

    with pytest.raises(InvalidInput, match="was changed since it was written"):
        output_of(tmp_path)
    with output_of(tmp_path, restart=True) as output:
        assert not output.state.is_complete


def test_results_that_were_taken_away_are_made_again(tmp_path: Path) -> None:
    with output_of(tmp_path) as output:
        output.finish()
    (tmp_path / "out.jsonl").unlink()

    with output_of(tmp_path) as output:
        assert not output.state.is_complete


def test_a_run_killed_between_its_last_line_and_the_name_of_the_results_is_finished(tmp_path: Path) -> None:
    with output_of(tmp_path) as output:
        assert output.journal is not None
        output.journal.write(LINES[0])
        complete = replace(output.state, is_complete=True, result_bytes=output.journal.size())
        save_state(complete, output.files.state)

    with output_of(tmp_path) as output:
        assert not output.state.is_complete
        assert output.journal is not None
        assert [row.row for row in output.journal.written()] == [0]
        output.finish()
    assert (tmp_path / "out.jsonl").read_bytes() == LINES[0] + b"\n"


def test_lines_that_nothing_is_known_of_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl.partial").write_bytes(b"mine\n")

    with pytest.raises(InvalidInput, match="lines of a run that nothing is known of"):
        output_of(tmp_path)
    assert (tmp_path / "out.jsonl.partial").read_bytes() == b"mine\n"


STATE_OF_0_1_0 = (
    b'{"input":{"bytes":10,"modified_ns":5,"digest":"abc"},"choices":{"format":"jsonl","column of answer":["answer"],'
    b'"context separator":null,"limit":null,"tiers":["lexical"],"judges":null,"samples":1,"escalation":null,'
    b'"cache":"use","plumbline":"0.1.0","threshold":0.5,"deadline":60.0,"calibration":"0f3c","precision":"float32",'
    b'"limits of a row":["20"]},"position":[1,20,1],"is_complete":false,"result_bytes":0,"version":1}\n'
)


def test_a_half_made_output_of_another_version_is_refused_in_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl.state").write_bytes(STATE_OF_0_1_0)
    (tmp_path / "out.jsonl.partial").write_bytes(LINES[0] + b"\n")
    files = result_files(tmp_path / "out.jsonl")
    data = data_in(tmp_path)
    now: Mapping[str, Choice] = {"tiers": ["lexical"], "plumbline": "9.9"}

    with pytest.raises(InvalidInput) as refused:
        RunOutput(files, data, now)

    assert str(refused.value) == (
        "out.jsonl: is half made from something else: plumbline was 0.1.0 and is 9.9; --restart begins anew"
    )
    assert (tmp_path / "out.jsonl.partial").read_bytes() == LINES[0] + b"\n"
    with RunOutput(files, data, now, restart=True) as output:
        assert output.state.choices == now


def test_a_run_without_a_row_binds_no_later_one(tmp_path: Path) -> None:
    files, data = result_files(tmp_path / "out.jsonl"), data_in(tmp_path)
    with RunOutput(files, data, {"service": "http://mistyped"}):
        pass

    with RunOutput(files, data, {"service": "http://right"}) as output:
        assert output.state.choices == {"service": "http://right"}
