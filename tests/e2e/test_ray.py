"""Ray itself, on this machine: the scores of a file are those in process, and a killed run goes on where it was.

Needs the extra `ray`, which `make test` does not install: `pip install -e '.[offline,dev,ray]'`, then this file.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plumbline.extras.cluster.score_batch import BatchScorer
from plumbline.ground.settings import Settings
from plumbline.rows.records.reading import RecordReader
from plumbline.schemas.evaluation import EvaluationOptions
from tests.doubles.scripted_faults import hang
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest, completion
from tests.making.cluster_files import BRIDGE, bridge_rows, timeless, write_lines
from tests.running.service import JUDGE_KEY, claim, judge_settings, plain_settings, verdicts

ROOT = Path(__file__).parents[2]
_HAS_RAY = find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not _HAS_RAY, reason="Ray is not installed: pip install -e '.[ray]'")
# As /proc/net/tcp has them: 127.0.0.1, the same as an IPv6 address, and ::1.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
LISTENS = "0A"
# Ray takes 10 to 30 s to start on two cores, more on busy ones.
slow = pytest.mark.timeout(400)


@contextlib.asynccontextmanager
async def scoring(*arguments: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The driver as a process, killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.running.cluster_entry",
        *arguments,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'app'}:{ROOT}", "PLUMBLINE_WARM_UP": "false", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def outcome_of(*arguments: str, **environment: str) -> dict[str, Any]:
    async with scoring(*arguments, **environment) as process:
        out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-2_000:]
    outcome: dict[str, Any] = json.loads(out.splitlines()[-1])
    return outcome


def lines_of(outcome: Mapping[str, Any]) -> list[str]:
    return [timeless(line) for file in outcome["files"] for line in Path(file).read_bytes().splitlines()]


def in_process(paths: list[Path], options: EvaluationOptions, settings: Settings | None = None) -> list[str]:
    lines = []
    with BatchScorer(settings or plain_settings(), options) as scorer:
        for path in paths:
            with RecordReader(path) as rows:
                lines += [timeless(row.line) for row in scorer.score(rows)]
    return lines


def listening(processes: set[int]) -> set[str]:
    """The addresses on which any of them listens, as Linux writes them."""
    links = []
    for process in processes:
        with contextlib.suppress(OSError):
            links += [os.readlink(each) for each in Path(f"/proc/{process}/fd").iterdir()]
    sockets = [line.split() for table in ("tcp", "tcp6") for line in Path("/proc/net", table).read_text().splitlines()]
    return {row[1].partition(":")[0] for row in sockets if row[3] == LISTENS and f"socket:[{row[9]}]" in links}


def files_below(folder: str) -> dict[str, bytes]:
    """What every file in a folder holds."""
    return {str(path): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def processes_of_ray() -> Iterator[int]:
    """Those of this user that Ray started, by their command lines."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            if b"/ray/core/src/ray/" in command or command.startswith(b"ray::"):
                yield int(entry.name)


@needs_ray
@slow
async def test_the_scores_are_those_in_process_byte_for_byte_and_nothing_is_left_behind(
    tmp_path: Path, judge: ScriptedJudge
) -> None:
    rows: list[object] = [*bridge_rows(25), '{"broken', bridge_rows(3)[2], {"contexts": [], "answer": BRIDGE}]
    lines = write_lines(tmp_path / "a.jsonl", rows)
    table = tmp_path / "b.parquet"
    pq.write_table(pa.Table.from_pylist(bridge_rows(12, named=False)), table)
    options = EvaluationOptions(tiers=["lexical"])
    before = set(processes_of_ray())

    arguments = (f"{tmp_path}/*.*", "-o", str(tmp_path / "out"), "--options", options.model_dump_json())
    outcome = await outcome_of(*arguments, "--block-rows", "7")

    assert lines_of(outcome) == in_process([lines, table], options)
    assert (outcome["summary"]["rows"], outcome["summary"]["errors"], len(outcome["files"])) == (40, 2, 6)
    # Some notice a moment later that what started them has ended.
    await judge.wait_until(lambda: set(processes_of_ray()) <= before, deadline_seconds=120)


def told(rows: range, request: RecordedRequest) -> bool:
    return any(f"Bridge {number} was" in request.prompt for number in rows)


@needs_ray
@slow
async def test_a_killed_run_goes_on_with_the_blocks_that_were_not_done(tmp_path: Path, judge: ScriptedJudge) -> None:
    lines = write_lines(tmp_path / "in.jsonl", bridge_rows(24))
    judge.require_key(JUDGE_KEY)
    judge.reply_with(completion(verdicts([claim("Opened in 1931.", "supported", "was opened in 1931")])))
    is_first_run = True
    # Blocks of four: the first two are answered, the others wait until the driver is gone.
    judge.reply_when(lambda request: is_first_run and told(range(8, 24), request), hang())
    environment = {
        "PLUMBLINE_LLM_PROVIDER": "generic",
        "PLUMBLINE_LLM_BASE_URL": judge.base_url,
        "PLUMBLINE_LLM_MODEL": "judge-1",
        "PLUMBLINE_LLM_API_KEY": JUDGE_KEY,
        "PLUMBLINE_DEADLINE_SECONDS": "300",
    }
    given = (str(lines), "-o", str(tmp_path / "out"), "--options", '{"tiers": ["llm"]}', "--block-rows", "4")
    before = set(processes_of_ray())

    async with scoring(*given, **environment) as driver:
        assert driver.stdout is not None
        while json.loads(await driver.stdout.readline())["blocks_done"] < 2:
            pass
        await judge.wait_until(lambda: judge.in_flight > 0, deadline_seconds=120)
        driver.kill()
        await driver.communicate()
    # The workers end with it.
    await judge.wait_until(lambda: judge.in_flight == 0, deadline_seconds=60)
    done = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("part-*")}
    assert sorted(done) == ["part-000000-000000000000.jsonl", "part-000000-000000000004.jsonl"]
    is_first_run = False

    outcome = await outcome_of(*given, **environment)

    assert {name: (tmp_path / "out" / name).read_bytes() for name in done} == done
    assert sum(told(range(8), request) for request in judge.requests) == 8
    assert (outcome["skipped"], outcome["summary"]["rows"], outcome["summary"]["judged"]) == (2, 24, 24)
    assert [json.loads(line)["row"] for line in lines_of(outcome)] == list(range(24))

    calls = judge.calls
    again = await outcome_of(*given, **environment)
    assert (again["skipped"], judge.calls) == (6, calls)
    settings = judge_settings(judge, deadline_seconds=300)
    whole = await asyncio.to_thread(in_process, [lines], EvaluationOptions(tiers=["llm"]), settings)
    assert lines_of(outcome) == whole
    # Two of Ray's agents first try for a minute to tell the others that they are gone.
    await judge.wait_until(lambda: set(processes_of_ray()) <= before, deadline_seconds=120)


@needs_ray
@slow
async def test_it_listens_on_loopback_alone_and_writes_no_secret(tmp_path: Path) -> None:
    lines = write_lines(tmp_path / "in.jsonl", bridge_rows(2))
    given = (str(lines), "-o", str(tmp_path / "out"), "--options", '{"tiers": ["lexical"]}')
    secret = "sk-PLANTED-0001"
    before = set(processes_of_ray())

    # Not in tmp_path: Ray's sockets lie below it, and their paths have a bound.
    with tempfile.TemporaryDirectory() as logs:
        async with scoring(*given, DASHSCOPE_API_KEY=secret, RAY_TMPDIR=logs) as driver:
            assert driver.stdout is not None
            await driver.stdout.readline()
            addresses = listening({*processes_of_ray(), driver.pid} - before)
            _, errors = await driver.communicate()
        assert driver.returncode == 0, errors.decode()[-2_000:]
        written = files_below(logs)

    assert addresses
    assert addresses <= LOOPBACK
    assert written
    assert [name for name, data in written.items() if secret.encode() in data] == []


async def test_without_ray_one_line_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('not here')", encoding="utf-8")
    lines = write_lines(tmp_path / "in.jsonl", bridge_rows(1))

    async with scoring(
        str(lines), "-o", str(tmp_path / "out"), PYTHONPATH=f"{tmp_path}:{ROOT / 'app'}:{ROOT}"
    ) as process:
        _, errors = await process.communicate()

    assert process.returncode == 2
    assert errors.decode() == 'plumbline: needs Ray; install "plumbline-rag[ray]"\n'
    assert not (tmp_path / "out").exists()
