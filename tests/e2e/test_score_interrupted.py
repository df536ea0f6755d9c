"""`plumbline score` stopped at random, politely and with kill -9: what it writes in the end is what it would have."""

import multiprocessing
import os
import random
import signal
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from tests.making.score_files import comparable, read_rows, sample_row, score, score_and_exit, write_rows

_ROWS = 200
_PARTS = 4
_POLL_SECONDS = 0.002
# Some seconds on a machine of one's own
_MOST_SECONDS = 200
pytestmark = pytest.mark.timeout(_MOST_SECONDS + 40)
# What takes seconds to import is imported once, and forked for each part
_LOADED = ["tests.making.score_files", "plumbline.cli.score.score_file", "plumbline.cli.score.local"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Rows with what a resumed run could get wrong: bad lines, blank ones, ids that come twice, far apart."""
    rows: list[dict[str, object] | str] = [sample_row(number) for number in range(_ROWS)]
    rows[60] = '{"custom_id": "cut", "contexts": ["a"'
    rows[61] = ""
    rows[120] = rows[5]
    rows[160] = {**sample_row(160), "answer": None}
    return write_rows(tmp_path / "data.jsonl", rows)


def started(data: Path, results: Path) -> ForkServerProcess:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_LOADED)
    arguments = [str(data), "-o", str(results), "--tiers", "lexical", "--quiet"]
    process = context.Process(target=score_and_exit, args=(arguments,))
    process.start()
    return process


def wait_for_bytes(path: Path, least: int, process: ForkServerProcess) -> None:
    until = time.monotonic() + _MOST_SECONDS
    while process.is_alive() and (not path.exists() or path.stat().st_size < least):
        assert time.monotonic() < until
        time.sleep(_POLL_SECONDS)


def test_a_run_stopped_again_and_again_ends_like_one_that_never_was(tmp_path: Path, data: Path) -> None:
    rng = random.Random(6)  # noqa: S311
    whole, parted = tmp_path / "whole.jsonl", tmp_path / "parted.jsonl"
    partial = tmp_path / "parted.jsonl.partial"
    assert score(data, "-o", whole, "--tiers", "lexical", "--quiet") == 0
    part_bytes = whole.stat().st_size // (_PARTS + 1)
    kinds = [signal.SIGINT, signal.SIGKILL] * (_PARTS // 2)
    rng.shuffle(kinds)
    before = b""

    for kind in kinds:
        process = started(data, parted)
        wait_for_bytes(partial, len(before) + rng.randrange(part_bytes // 4, part_bytes), process)
        os.kill(process.pid or 0, kind)
        process.join()
        assert process.exitcode == (3 if kind == signal.SIGINT else -signal.SIGKILL)
        now = partial.read_bytes()
        # a line that is there stays; a torn one is not counted as there
        assert now.startswith(before)
        assert len(now) > len(before)
        before = now[: now.rfind(b"\n") + 1]
        assert not parted.exists()

    process = started(data, parted)
    process.join()
    assert process.exitcode == 0
    assert comparable(parted) == comparable(whole)
    rows = read_rows(parted)
    assert [row["row"] for row in rows] == list(range(_ROWS - 1))
    assert [row["row"] for row in rows if "error" in row] == [60, 119, 159]
    assert not partial.exists()
