"""Runs as jobs in a store, scored by a script, for pages that show them."""

import json
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from plumbline.judging.ports.exchange import Usage
from plumbline.rows.jobs.job import Job, NewJob
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.jobs.submission import Upload
from plumbline.rows.scored_row import RowStatus, ScoredRow
from tests.making.result_rows import scored_line, unsure_line

CONTEXT = "The Marlow Bridge was opened in 1931. It carries two railway tracks."
ANSWER = "The bridge was opened in 1931."

Score = Callable[[int], float]


async def make_run(
    store: JobStore,
    rows: int,
    *,
    name: str | None = "nightly",
    tenant: str = "",
    score: Score = lambda row: 1.0 if row % 4 else 0.25,
    tier: Callable[[int], str] = lambda _: "lexical",
    answers: Sequence[str] = (ANSWER,),
    left: int = 0,
    unsure: Collection[int] = (),
    **new: Any,
) -> Job:
    """A job of so many rows, all scored but the last `left`; of those in `unsure` the tier cannot tell."""
    upload = store.new_upload()
    with upload.open("w", encoding="utf-8") as file:
        for row in range(rows):
            sample = {"question": "When?", "contexts": [CONTEXT], "answer": answers[row % len(answers)]}
            file.write(json.dumps({"custom_id": f"q{row}", **sample}) + "\n")
    submission = await store.submit(NewJob(tenant, b"{}", name, **new), Upload(upload, "jsonl"))
    await _work(store, rows - left, lambda row: _scored(row, score(row), tier(row), answers, is_unsure=row in unsure))
    return await store.get(tenant, submission.job.id)


async def work_on(folder: Path, *, left: int) -> None:
    """Another process scores all rows of the jobs in the folder that wait, but `left` of the last chunk."""
    store = JobStore.in_folder(folder)
    lease = await store.lease()
    assert lease is not None
    waiting = [pending.row.row for pending in await store.rows(lease)]
    await store.commit(lease, [_scored(row, 1.0, "lexical", [ANSWER]) for row in waiting[:-left]], is_done=False)
    await store.release(lease)
    await store.close()


async def _work(store: JobStore, until: int, score: Callable[[int], ScoredRow]) -> None:
    while (lease := await store.lease()) is not None:
        waiting = [pending.row.row for pending in await store.rows(lease)]
        done = [row for row in waiting if row < until]
        await store.commit(lease, [score(row) for row in done], is_done=len(done) == len(waiting))
        if len(done) < len(waiting):
            await store.release(lease)
            return


def _scored(row: int, score: float, tier: str, answers: Sequence[str], *, is_unsure: bool = False) -> ScoredRow:
    passed = None if is_unsure else score >= 0.5
    verdicts = ("supported" if score >= 0.5 else "not_mentioned",)
    write = unsure_line if is_unsure else partial(scored_line, passed=passed)
    line = write(f"q{row}", score, row=row, tier=tier, verdicts=verdicts, text=answers[row % len(answers)])
    cost = Usage(calls=1, prompt_tokens=100, completion_tokens=10, cost=0.25)
    return ScoredRow(row, line, RowStatus.JUDGED, tier, is_degraded=False, usage=cost, passed=passed)
