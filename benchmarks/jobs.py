"""How fast a job is beside the tier called in process, and whether its memory stays flat.

    python benchmarks/jobs.py [--rows 20000] [--in-process 5000] [--words 60]

Short rows (three contexts, two sentences of answer) by tier `lexical`, through the embedded store and its
worker in this process. The last line is one JSON object; memory is the process's resident set, in MiB.
"""

import argparse
import asyncio
import json
import random
import resource
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from plumbline.assembly import build, make_plan
from plumbline.ground.settings import Settings
from plumbline.judging.scoring import Scorer
from plumbline.judging.text.sample import Sample
from plumbline.judging.tiers.tier import JudgeOptions, TierName
from plumbline.rows.jobs.chunk_run import Pace
from plumbline.rows.jobs.job import NewJob
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.jobs.submission import Upload
from plumbline.rows.jobs.worker import Worker
from plumbline.rows.row_scorer import job_row_scorers

# fmt: off
WORDS = [
    "harbour", "bridge", "council", "opened", "tower", "market", "river", "north", "school", "library", "museum",
    "station", "engine", "garden", "winter", "plan", "report", "member", "budget", "signal", "island", "lantern",
    "vessel", "theatre", "archive", "morning", "district", "railway", "bishop", "painter",
]
# fmt: on
OPTIONS = b'{"tiers": ["lexical"]}'


def row(number: int, words: int) -> dict[str, object]:
    """A short row; the same for the same number."""
    chance = random.Random(number)  # noqa: S311
    contexts = [" ".join(chance.choices(WORDS, k=words)) + "." for _ in range(3)]
    first = " ".join(contexts[0].split()[:12])
    second = " ".join(chance.choices(WORDS, k=12))
    return {
        "custom_id": f"q{number}",
        "question": "What was opened?",
        "contexts": contexts,
        "answer": f"{first.capitalize()}. {second.capitalize()}.",
    }


def resident_mib() -> float:
    """What the process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return round(pages * resource.getpagesize() / 2**20, 1)


def bytes_of(folder: Path) -> int:
    """What the files of a folder hold."""
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


async def in_process(scorer: Scorer, rows: int, words: int) -> float:
    """Rows a second of the scorer in a plain loop."""
    samples = [row(number, words) for number in range(rows)]
    options = JudgeOptions(tiers=(TierName.LEXICAL,), threshold=0.5, deadline_seconds=60)
    started = time.perf_counter()
    for each in samples:
        await scorer.score(
            Sample(str(each["question"]), tuple(each["contexts"]), str(each["answer"])),  # type: ignore[arg-type]
            options,
        )
    return rows / (time.perf_counter() - started)


async def as_job(scorer: Scorer, settings: Settings, folder: Path, rows: int, words: int) -> dict[str, object]:
    """The same rows as a job: rates with and without the reading of the upload, memory by tenths of the job."""
    store = JobStore.in_folder(folder)
    path = store.new_upload()
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            file.write(json.dumps(row(number, words), ensure_ascii=False) + "\n")
    rows_of = job_row_scorers(scorer, settings, judge_names=())
    worker = Worker(store, lambda lease: rows_of(lease.tenant, lease.options), Pace())
    running = asyncio.create_task(worker.run())
    submitted = time.perf_counter()
    job = (await store.submit(NewJob("", OPTIONS), Upload(path, "jsonl"))).job
    took = time.perf_counter() - submitted
    began = 0.0
    memory: list[float] = []
    while not (now := await store.get("", job.id)).state.is_ended:
        began = began or (time.perf_counter() if now.counts.done else 0.0)
        if now.total and now.counts.done >= now.total * (len(memory) + 1) / 10:
            memory.append(resident_mib())
        await asyncio.sleep(0.25)
    ended = time.perf_counter()
    await worker.stop(1.0)
    await running
    assert now.counts.done == rows, now
    await store.close()
    size = await asyncio.to_thread(bytes_of, folder)
    return {
        "submit_seconds": round(took, 3),
        "rows_a_second": round(rows / (ended - submitted), 1),
        "rows_a_second_while_scoring": round(rows / (ended - began), 1),
        "resident_mib": memory,
        "bytes_a_row_on_disk": round(size / rows),
    }


async def run(rows: int, alone: int, words: int) -> dict[str, object]:
    """In process, as a job, in process again."""
    settings = Settings(warm_up=False)
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            scorer = build(make_plan(settings), stack).scorer
            await in_process(scorer, 500, words)
            before = await in_process(scorer, alone, words)
            job = await as_job(scorer, settings, Path(folder), rows, words)
            after = await in_process(scorer, alone, words)
    rate = float(str(job["rows_a_second"]))
    return {
        "rows": rows,
        "in_process_rows_a_second": [round(before, 1), round(after, 1)],
        **job,
        "in_process_by_job": round((before + after) / 2 / rate, 3),
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--in-process", type=int, default=5_000)
    parser.add_argument("--words", type=int, default=60, help="words of each of the three contexts")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(run(options.rows, options.in_process, options.words))))


if __name__ == "__main__":
    main()
