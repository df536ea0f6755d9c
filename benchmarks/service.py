"""What the live service does under load: throughput, latency and CPU of tier embedding, and what others feel of it.

    python benchmarks/service.py [--only a,c] [--rounds 3] [--data FILE] [--set PLUMBLINE_EMBEDDING_THREADS=1]

    a  samples that share nothing, 1, 8 and 32 at a time, against sentence-transformers called for each
    b  20 answers to the same contexts
    c  small samples, which cannot use two cores each; how evenly equal samples wait
    d  /healthz, tier lexical and tier llm on the idle service and beside 32 samples in tier embedding
    e  small samples while one of 500 sentences is judged
    f  seconds to start, memory

`plumbline serve` runs in a process of its own on loopback, asked over HTTP from this one. Rounds of what is compared
are taken by turns; figures are medians over the rounds, percentiles of d and e over all requests. CPU seconds are those
of the service alone. Linux. Prints tables in Markdown, last one line of JSON.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.prose import made_prose, prose_of
from benchmarks.service_bare import BareLoops, bare_loops
from benchmarks.service_isolation import JUDGE_SECONDS, fairness, isolation
from benchmarks.service_load import DEADLINE_SECONDS, Caller
from benchmarks.service_process import ServiceProcess, running_service, waited_for_core
from benchmarks.service_tables import tables
from benchmarks.service_throughput import Bench, sharing, spread, unique
from tests.running.judge_process import judge_process

SCENARIOS = "abcdef"
_NEED_LOOPS = "ab"
_WARM_UP_SAMPLES = 8


async def measured(
    service: ServiceProcess, loops: BareLoops, judge_pid: int, options: argparse.Namespace
) -> dict[str, Any]:
    """The figures of each scenario asked for, by its letter."""
    prose = made_prose(options.seed) if options.data is None else prose_of(options.data, options.seed)
    caller = Caller(service)
    bench = Bench(caller, loops, prose, options.rounds)
    memory = {"after_start_mib": service.memory_mib()}
    await caller.evaluate(prose.typical(), "embedding")
    memory["after_first_answer_mib"] = service.memory_mib()
    for _ in range(_WARM_UP_SAMPLES):
        for sample, tier in (
            (prose.typical(), "embedding"),
            (prose.shaped(wording="copy"), "llm"),
            (prose.typical(), "lexical"),
        ):
            await caller.evaluate(sample, tier)
    found: dict[str, Any] = {"encoder": await caller.encoder()}
    started = time.perf_counter()
    for letter in options.only:
        if letter == "a":
            found["a"] = await unique(bench)
        elif letter == "b":
            found["b"] = await sharing(bench)
        elif letter == "c":
            found["c"] = await spread(bench, found["a"]["service"]["32"] if "a" in found else None)
        elif letter == "d":
            found["d"] = await isolation(bench, judge_pid)
        elif letter == "e":
            found["e"] = await fairness(bench)
        print(letter, f"{time.perf_counter() - started:.0f} s", json.dumps(rounded(found.get(letter))), file=sys.stderr)
    if "f" in options.only:
        memory["after_run_mib"] = service.memory_mib()
        starts = {"seconds_to_health": service.seconds_to_health, "seconds_to_ready": service.seconds_to_ready}
        found["f"] = {**starts, **memory}
    await caller.close()
    return found


@contextmanager
def scripted_judge() -> Iterator[tuple[str, int]]:
    """The address and process id of a judge that finds everything supported after 200 ms."""
    before = set(multiprocessing.active_children())
    with judge_process(latency_seconds=JUDGE_SECONDS) as judge:
        (process,) = set(multiprocessing.active_children()) - before
        yield judge.base_url, process.pid or 0


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All that the options ask for."""
    knobs: Mapping[str, str] = {
        "PLUMBLINE_DEADLINE_SECONDS": str(DEADLINE_SECONDS),
        "PLUMBLINE_LLM_PROVIDER": "generic",
        "PLUMBLINE_LLM_MODEL": "judge-1",
        "PLUMBLINE_CACHE_TTL_SECONDS": "0",
        **options.set,
    }
    started, waited = time.perf_counter(), waited_for_core()
    with (
        scripted_judge() as (address, judge_pid),
        running_service({"PLUMBLINE_LLM_BASE_URL": address, **knobs}) as service,
    ):
        if set(options.only) & set(_NEED_LOOPS):
            with bare_loops() as loops:
                found = asyncio.run(measured(service, loops, judge_pid, options))
        else:
            found = asyncio.run(measured(service, BareLoops({}), judge_pid, options))
    return {
        "rounds": options.rounds,
        "cores": len(os.sched_getaffinity(0)),
        "settings": options.set,
        "data": options.data.name if options.data else None,
        "seconds": time.perf_counter() - started,
        "driver_waited_for_core_seconds": waited_for_core() - waited,
        **found,
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=_letters, default=SCENARIOS, help="scenarios (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="of each scenario (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the samples (default: %(default)s)")
    parser.add_argument("--data", type=Path, help="JSONL with contexts and answer to take English samples from")
    parser.add_argument(
        "--set", type=_setting, action="append", default=[], help="NAME=VALUE, a setting of the service"
    )
    options = parser.parse_args()
    options.set = dict(options.set)
    # Ended from outside, it ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("service: ended by a signal"))
    found = run(options)
    print(tables(found))
    print(json.dumps(rounded(found)))


def rounded(found: Any) -> Any:
    """The same with numbers that people can read: 4 significant digits."""
    if isinstance(found, dict):
        return {name: rounded(value) for name, value in found.items()}
    return float(f"{found:.4g}") if isinstance(found, float) else found


def _letters(text: str) -> str:
    letters = "".join(sorted(set(text.replace(",", ""))))
    if not letters or set(letters) - set(SCENARIOS):
        raise argparse.ArgumentTypeError(f"expected some of {','.join(SCENARIOS)}, got {text!r}")
    return letters


def _setting(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.startswith("PLUMBLINE_"):
        raise argparse.ArgumentTypeError(f"expected PLUMBLINE_NAME=VALUE, got {text!r}")
    return name, value


if __name__ == "__main__":
    main()
