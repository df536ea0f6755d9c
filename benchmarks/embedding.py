"""What the sentence encoder makes of a core: against its library, and against the arithmetic of the processor.

    python benchmarks/embedding.py [--rounds 5] [--samples 10] [--data FILE]

By turns, with the same samples of a file: sentence-transformers a text at a time, a request at a time with its own
threads and with one, and the encoder with each backend and precision, its cache off. The share is of the limit: the
fp32 operations that the texts need, over what a product of matrices reaches in the same seconds of one core, measured
in each round. The drift is of the faithfulness of the samples, against the first way, with the calibration of fp32.
Medians over the rounds; the last line is one JSON object.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch

from benchmarks.everyday import DATA, read_rows
from plumbline.assembly import make_plan
from plumbline.ground.settings import Settings
from plumbline.judging.ports.exchange import Ledger
from plumbline.judging.ports.observation import Readiness, State
from plumbline.judging.ports.token_vectors import TokenizedTexts, TokenVectors
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.scores import score
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.tiers.embedding import EmbeddingTier
from plumbline.judging.tiers.judgement import build_judgement
from plumbline.judging.tiers.tier import JudgeOptions
from plumbline.models.encoder.encoder import Backend, ModelChoice, SharedEncoder, load
from plumbline.models.encoder.model_files import find_model
from plumbline.models.encoder.packing import Precision, TokenModel, forward_in_rows
from plumbline.models.encoder.torch_model import load_sentence_transformer

_GEMM = 1_536
_CONCURRENCY = 8
_OPENVINO: tuple[Backend, ...] = ("openvino",)


def tier_texts(sample: Sample) -> list[str]:
    """Return the texts that tier embedding reads: the sentences of the answer, then those of the contexts."""
    case = segment(sample)
    answer = [case.sentences[position].text for position in case.checkable]
    told = [each.text for sentences in case.context_sentences for each in sentences if each.kind != "markup"]
    return list(dict.fromkeys([*answer, *told]))


class PlainEncoder:
    """The model as its library runs it, a text at a time, in full precision: what all others are compared with."""

    model = "all-MiniLM-L6-v2"
    languages = frozenset({"en"})

    def __init__(self, reader: SharedEncoder) -> None:
        self._reader = reader
        self.network = load_sentence_transformer(find_model(None))
        self._special = frozenset(self.network.tokenizer.all_special_ids)

    async def read(self, texts: Sequence[str], *, seconds: float) -> TokenizedTexts:
        return await self._reader.read(texts, seconds=seconds)

    async def encode(
        self,
        reading: TokenizedTexts,
        *,
        seconds: float,
        scope: str = "",
        ledger: Ledger | None = None,
    ) -> TokenVectors:
        found = []
        for tokens in reading.tokens:
            with torch.inference_mode():
                network: Any = self.network[0].model
                raw = network(input_ids=torch.tensor([list(tokens)])).last_hidden_state[0]
            kept = [place for place, token in enumerate(tokens) if token not in self._special or token == 100]
            unit = torch.nn.functional.normalize(raw, dim=-1).numpy()
            found.append(unit[kept or range(len(tokens))])
        return TokenVectors(np.concatenate(found), np.cumsum([0, *map(len, found)]))

    def readiness(self) -> Readiness:
        return Readiness(State.READY, self.model)


@dataclass
class Way:
    """One way to encode all samples, and the CPU seconds a sample of each round."""

    name: str
    run: Callable[[Sequence[list[str]]], Awaitable[None]]
    encoder: SharedEncoder | PlainEncoder | None = None
    seconds: list[float] = field(default_factory=list)
    drift: float | None = None


def operations(lengths: Sequence[int]) -> float:
    """Multiplications and additions that texts of so many tokens need: products of matrices and attention alone."""
    config = json.loads((find_model(None).folder / "config.json").read_text(encoding="utf-8"))
    width, inner, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    return float(sum(layers * (2 * n * (4 * width**2 + 2 * width * inner) + 4 * n**2 * width) for n in lengths))


def limit() -> float:
    """fp32 operations a second of one core, as the product of two matrices reaches it."""
    torch.set_num_threads(1)
    one, other = torch.randn(_GEMM, _GEMM), torch.randn(_GEMM, _GEMM)
    one @ other
    started = time.process_time()
    for _ in range(20):
        one @ other
    return 20 * 2 * _GEMM**3 / (time.process_time() - started)


def library_way(name: str, network: Any, *, threads: int, at_once: bool) -> Way:
    async def run(requests: Sequence[list[str]]) -> None:
        torch.set_num_threads(threads)
        for texts in requests:
            for part in [texts] if at_once else [[text] for text in texts]:
                network.encode(part, output_value="token_embeddings", show_progress_bar=False)
        torch.set_num_threads(1)

    return Way(name, run)


def encoder_way(name: str, encoder: SharedEncoder) -> Way:
    async def one(texts: list[str], free: asyncio.Semaphore) -> None:
        async with free:
            await encoder.encode(await encoder.read(texts, seconds=600), seconds=600)

    async def run(requests: Sequence[list[str]]) -> None:
        free = asyncio.Semaphore(_CONCURRENCY)
        await asyncio.gather(*(one(texts, free) for texts in requests))

    return Way(name, run, encoder)


def passes_way(name: str, model: TokenModel) -> Way:
    """The passes through the model alone, of all texts together: no reading, no queue, no callers."""

    async def run(requests: Sequence[list[str]]) -> None:
        tokens = model.reader.read([text for texts in requests for text in texts]).tokens
        forward_in_rows(tokens, model.forward, budget=384, shares=model.supports_packing)

    return Way(name, run)


async def scores_with(encoder: SharedEncoder | PlainEncoder, samples: Sequence[Sample]) -> list[float]:
    """The faithfulness of each sample, with the calibration of fp32 whatever the encoder is called."""
    table = make_plan(Settings()).calibrations
    calibration = table.find(tier=EmbeddingTier.name, model=PlainEncoder.model, language="en")
    with ThreadPoolExecutor(1) as executor:
        tier = EmbeddingTier(encoder, table, executor, max_windows=10_000)
        found = []
        for sample in samples:
            case = segment(sample)
            findings = await tier.compare(case, JudgeOptions(can_wait=True), seconds=600)
            scores = score(build_judgement(case, findings, calibration))
            found.append(scores.faithfulness if scores else 0.0)
    return found


async def measure(drawn: Iterator[Sample], rounds: int, count: int) -> dict[str, Any]:
    cores = torch.get_num_threads()
    backends: list[Backend] = ["torch", *(_OPENVINO if find_spec("openvino") else ())]
    precisions: tuple[Precision, ...] = ("fp32", "bf16")
    encoders = {
        f"encoder, {backend} {precision}": SharedEncoder(
            ModelChoice(backend=backend, precision=precision),
            cache_bytes=0,
        )
        for backend in backends
        for precision in precisions
    }
    plain = PlainEncoder(next(iter(encoders.values())))
    ways = [
        library_way("library, a text at a time, 1 thread", plain.network, threads=1, at_once=False),
        library_way("library, a request at a time, 1 thread", plain.network, threads=1, at_once=True),
        library_way(f"library, a request at a time, {cores} threads", plain.network, threads=cores, at_once=True),
        *(encoder_way(name, encoder) for name, encoder in encoders.items()),
        passes_way(f"passes alone, {backends[-1]} fp32", load(ModelChoice(backend=backends[-1]), threads=1)),
    ]
    samples = list(islice(drawn, count))
    reference = await scores_with(plain, samples)
    for way in ways:
        if way.encoder:
            found = await scores_with(way.encoder, samples)
            way.drift = max(abs(one - other) for one, other in zip(reference, found, strict=True))
        await way.run([tier_texts(samples[0])])
    limits, lengths = [], []
    for _ in range(rounds):
        requests = [tier_texts(sample) for sample in islice(drawn, count)]
        reading = await plain.read([text for texts in requests for text in texts], seconds=600)
        lengths.append(sum(map(len, reading.tokens)) / count)
        needed = operations([len(tokens) for tokens in reading.tokens]) / count
        limits.append(needed / limit())
        for way in ways:
            started = time.process_time()
            await way.run(requests)
            way.seconds.append((time.process_time() - started) / count)
    for encoder in encoders.values():
        encoder.close()
    request = ways[1].seconds
    return {
        "tokens_a_sample": round(median(lengths)),
        "limit_cpu_ms": round(1_000 * median(limits), 1),
        "ways": {
            way.name: {
                "cpu_ms": round(1_000 * median(way.seconds), 1),
                "times_one_by_one": _ratio(ways[0].seconds, way.seconds),
                "times_by_request": _ratio(request, way.seconds),
                "times_by_request_all_threads": _ratio(ways[2].seconds, way.seconds),
                "share_of_limit": _ratio(limits, way.seconds),
                "drift": way.drift,
            }
            for way in ways
        },
    }


def _ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """The median of the rounds' ratios."""
    return round(median(a / b for a, b in zip(one, other, strict=True)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--data", type=Path, default=DATA / "everyday.jsonl", help="JSONL with contexts and answer")
    options = parser.parse_args()
    rows = [row for row in read_rows(options.data) if row.get("lang", "en") == "en"]
    samples = (Sample("", tuple(row["contexts"]), row["answer"]) for row in cycle(rows))
    found = asyncio.run(measure(samples, options.rounds, options.samples))
    print(f"{found['tokens_a_sample']} tokens a sample; the limit is {found['limit_cpu_ms']} ms of one core")
    print("| way | CPU ms a sample | x a text at a time | x a request | x all threads | of the limit | drift |")
    print("|---|---|---|---|---|---|---|")
    for name, row in found["ways"].items():
        drift = "" if row["drift"] is None else f"{row['drift']:.1e}"
        print(
            f"| {name} | {row['cpu_ms']} | {row['times_one_by_one']} | {row['times_by_request']} | "
            f"{row['times_by_request_all_threads']} | {row['share_of_limit']:.0%} | {drift} |"
        )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
