"""CPU of tiers lexical and embedding on labelled answers: python -m benchmarks.tier_cost dev.jsonl

By turns, with the same English samples and no cache of vectors: each tier on the path of a request without HTTP, and
sentence-transformers' own batched call for the windows that tier embedding compares, in full precision on one thread.
CPU seconds of the process, all threads together, medians over the rounds; the last line is one JSON object.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.everyday import read_rows
from plumbline.assembly import build, make_plan
from plumbline.ground.concurrency import InlineExecutor
from plumbline.ground.settings import Settings
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.tiers.token_alignment import plan_comparison
from plumbline.models.encoder.encoder import ModelChoice, SharedEncoder
from plumbline.models.encoder.model_files import find_model
from plumbline.models.encoder.torch_model import load_sentence_transformer
from plumbline.rows.evaluation_wire import build_options
from plumbline.schemas.evaluation import EvaluationOptions

_DEADLINE_SECONDS = 600.0
_BATCH_SIZE = 32

Way = Callable[[Sequence[Sample]], Awaitable[None]]


async def measure(rows: Sequence[dict[str, Any]], rounds: int) -> dict[str, Any]:
    """CPU seconds a sample of each way, by precision, and the ratios of tier embedding to the library's call."""
    samples = [Sample(row.get("question") or "", tuple(row["contexts"]), row["answer"]) for row in rows]
    windows = [plan_comparison(segment(sample)).texts for sample in samples]
    network = load_sentence_transformer(find_model(None))
    settings = Settings(warm_up=False, deadline_seconds=_DEADLINE_SECONDS)
    async with AsyncExitStack() as stack:

        def tier(name: str, encoder: SharedEncoder) -> Way:
            service = build(make_plan(settings, encoder=encoder), stack, executor=InlineExecutor())
            options = build_options(EvaluationOptions.model_validate({"tiers": [name]}), settings, judge_names=())

            async def run(some: Sequence[Sample]) -> None:
                for sample in some:
                    await service.scorer.score(sample, options)

            return run

        async def library(some: Sequence[Sample]) -> None:
            torch.set_num_threads(1)
            for texts in windows[: len(some)]:
                network.encode(list(texts), batch_size=_BATCH_SIZE, show_progress_bar=False)

        encoders = [SharedEncoder(ModelChoice(precision=each), cache_bytes=0) for each in ("fp32", "bf16")]
        for encoder in encoders:
            stack.callback(encoder.close)
        ways: dict[str, Way] = {
            "lexical": tier("lexical", encoders[0]),
            "embedding, fp32": tier("embedding", encoders[0]),
            "embedding, bf16": tier("embedding", encoders[1]),
            "library": library,
        }
        for run in ways.values():
            await run(samples[:3])
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, run in ways.items():
                started = time.process_time()
                await run(samples)
                seconds[name].append((time.process_time() - started) / len(samples))
    return {
        "samples": len(samples),
        "load": round(os.getloadavg()[0], 1),
        "windows_a_sample": round(sum(map(len, windows)) / len(windows), 1),
        "cpu_ms": {name: round(1_000 * median(each), 2) for name, each in seconds.items()},
        "of_the_library": {
            name: round(median(own / theirs for own, theirs in zip(each, seconds["library"], strict=True)), 3)
            for name, each in seconds.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="JSONL with question, contexts and answer")
    parser.add_argument("--samples", type=int, default=60, help="drawn evenly from the file")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = [row for row in read_rows(options.data) if row.get("lang", "en") == "en"]
    found = asyncio.run(measure(rows[:: max(1, len(rows) // options.samples)], options.rounds))
    for name, milliseconds in found["cpu_ms"].items():
        print(f"{name}: {milliseconds} ms CPU a sample, {found['of_the_library'][name]} of the library's call")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
