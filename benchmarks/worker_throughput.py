"""How many rows a second three workers on one PostgreSQL get through when scoring costs nothing.

    python benchmarks/worker_throughput.py [--rows 100000]

Each worker is a process; ends with one JSON line.
"""

import argparse
import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from plumbline.judging.ports.exchange import Usage
from plumbline.rows.jobs.chunk_run import Pace
from plumbline.rows.jobs.job import Lease
from plumbline.rows.jobs.worker import Worker
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import RowStatus, ScoredRow
from tests.making.job_rows import TENANT, rows_of, submitted
from tests.running.job_stores import PostgresStores
from tests.running.postgres_server import PostgresServer

WORKERS, LINE_BYTES = 3, 2_000


class Free:
    """Scores at once, with a line as long as a result's."""

    async def score(self, row: Record | RecordProblem) -> ScoredRow:
        """A line of the usual length."""
        line = json.dumps({"row": row.row, "text": "x" * LINE_BYTES}).encode()
        return ScoredRow(row.row, line, RowStatus.JUDGED, "lexical", is_degraded=False, usage=Usage())

    def crashed(self, row: Record | RecordProblem, crash_count: int) -> ScoredRow:
        """Nothing dies here."""
        raise AssertionError((row.row, crash_count))


def free_of(_: Lease) -> Free:
    """The same for all jobs."""
    return Free()


def work(url: str, folder: str) -> None:
    """One worker, until it is ended."""

    async def run() -> None:
        store = PostgresStores(url, Path(folder), schema="plumbline").open()
        await Worker(store, free_of, Pace()).run()

    asyncio.run(run())


async def run(rows: int) -> dict[str, object]:
    """Figures of one job."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:
        store = PostgresStores(server.url, Path(folder), schema="plumbline").open()
        await store.jobs(TENANT, before=None, limit=1)
        workers = [context.Process(target=work, args=(server.url, folder), daemon=True) for _ in range(WORKERS)]
        for each in workers:
            each.start()
        await asyncio.sleep(10)
        started = time.monotonic()
        job = await submitted(store, rows_of(rows))
        taken = time.monotonic()
        while not (await store.get(TENANT, job.id)).state.is_ended:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        ended = time.monotonic()
        for each in workers:
            each.kill()
        await store.close()
    seconds = ended - taken
    return {
        "rows": rows,
        "submit_seconds": round(taken - started, 2),
        "seconds": round(seconds, 2),
        "rows_a_second": round(rows / seconds),
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args()
    print(json.dumps(asyncio.run(run(options.rows))))


if __name__ == "__main__":
    main()
