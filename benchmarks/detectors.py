"""Cost of detectors on this machine, by size, beside tier embedding: seconds a sample, one caller and many.

    python -m benchmarks.detectors [--rows 24] [--callers 32] [--shapes 17M 68M 150M]
    python -m benchmarks.detectors --rows 64 --sentences 1 --premise 1     one short claim a sample

Networks of ModernBERT's kind with random weights and the sizes of the Ettin family, asked about each sentence of made
answers (`--sentences`) to a premise of so many sentences of 13 words (`--premise`), nine a passage; the tokenizer is
that of the bundled MiniLM. A line for each: seconds a sample with one caller at a time, samples a second with
`--callers`, their ratio (each the median of `--rounds`, which alternate), and the ratio of the seconds to tier
embedding's.
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import SegmentedSample, segment
from plumbline.judging.tiers.calibration import CalibrationTable
from plumbline.judging.tiers.detector import DetectorTier
from plumbline.judging.tiers.embedding import EmbeddingTier
from plumbline.judging.tiers.tier import JudgeOptions, Tier
from plumbline.models.detectors.description import Description, Probe
from plumbline.models.detectors.detector import LocalDetector
from plumbline.models.encoder.encoder import ModelChoice, SharedEncoder
from plumbline.models.encoder.model_files import find_model

# Layers, width, width between, heads.
SHAPES = {"17M": (7, 256, 384, 4), "68M": (19, 512, 768, 8), "150M": (22, 768, 1152, 12), "300M": (25, 1024, 1792, 16)}
_WORDS = [
    *("bridge", "river", "council", "report", "winter", "harbour", "ferry", "school", "price", "market", "garden"),
    *("doctor", "village", "road", "tower", "engine", "library", "letter", "summer", "museum", "forest", "north"),
]
_SECONDS = 600.0
# Sentences of a passage.
_PASSAGE = 9


def make_rows(count: int, *, seed: int, sentences: int = 4, premise: int = 27) -> list[SegmentedSample]:
    """Make samples of so many sentences in answer and premise; no two share a sentence."""
    draw = random.Random(seed)  # noqa: S311

    def sentence(words: int) -> str:
        return f"The {' '.join(draw.choices(_WORDS, k=words))} was {draw.randrange(1_000, 9_999)}."

    return [
        segment(
            Sample(
                question="",
                contexts=tuple(
                    " ".join(sentence(11) for _ in range(min(_PASSAGE, premise - first)))
                    for first in range(0, premise, _PASSAGE)
                ),
                answer=" ".join(sentence(9) for _ in range(sentences)),
            )
        )
        for _ in range(count)
    ]


def save_shape(folder: Path, shape: str) -> Path:
    """Save a network with random weights, and the bundled model's tokenizer."""
    import transformers  # noqa: PLC0415 - seconds of import

    layers, width, between, heads = SHAPES[shape]
    tokenizer = transformers.AutoTokenizer.from_pretrained(find_model(None).folder)
    config: Any = transformers.ModernBertConfig(
        vocab_size=50_368, hidden_size=width, intermediate_size=between, num_hidden_layers=layers,
        num_attention_heads=heads, num_labels=2, pad_token_id=0, cls_token_id=101, sep_token_id=102, bos_token_id=101,
        eos_token_id=102,
    )  # fmt: skip
    transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


async def measure(tier: Tier, options: argparse.Namespace) -> tuple[float, float]:
    """Return seconds a sample with one caller, and samples a second with many; each sample is new."""
    judging = JudgeOptions(can_wait=True)

    async def judge_all(count: int, at_once: int, seed: int) -> float:
        rows = make_rows(count, seed=seed, sentences=options.sentences, premise=options.premise)
        slots = asyncio.Semaphore(at_once)

        async def judge_one(row: SegmentedSample) -> None:
            async with slots:
                await tier.judge(row, judging, seconds=_SECONDS)

        started = time.perf_counter()
        await asyncio.gather(*map(judge_one, rows))
        return (time.perf_counter() - started) / count

    await judge_all(4, 1, seed=1)
    rounds = [
        (
            await judge_all(options.rows, 1, seed=2 + turn),
            await judge_all(max(options.rows, options.callers), options.callers, seed=1_000 + turn),
        )
        for turn in range(options.rounds)
    ]
    return median(alone for alone, _ in rounds), 1.0 / median(together for _, together in rounds)


async def main_async(options: argparse.Namespace) -> None:
    executor = ThreadPoolExecutor(2)
    table = CalibrationTable(())
    with closing(SharedEncoder(ModelChoice(backend="torch"))) as encoder:
        tier = EmbeddingTier(encoder, table, executor, max_windows=10_000)
        base, rate = await measure(tier, options)
    report("embedding", base, rate, base)
    for shape in options.shapes:
        with tempfile.TemporaryDirectory() as folder:
            probe = (Probe(premise="a", claim="b", at_least=0.0),)
            described = Description(
                model=str(save_shape(Path(folder), shape)), positive=1, max_tokens=1024, probe=probe
            )
            with closing(LocalDetector(described)) as detector:
                found = await measure(DetectorTier(detector, table, executor), options)
        report(shape, *found, base)


def report(name: str, alone: float, rate: float, base: float) -> None:
    line = {"tier": name, "seconds_alone": round(alone, 4), "samples_a_second": round(rate, 2)}
    print(json.dumps({**line, "ratio_at_once": round(rate * alone, 2), "ratio_to_embedding": round(alone / base, 1)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--callers", type=int, default=32)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--sentences", type=int, default=4)
    parser.add_argument("--premise", type=int, default=27)
    parser.add_argument("--rounds", type=int, default=1)

    asyncio.run(main_async(parser.parse_args()))


if __name__ == "__main__":
    main()
