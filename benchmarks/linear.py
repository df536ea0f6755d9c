"""How the CPU seconds of a sample grow with its answer, its contexts' number and their length, tier by tier.

    python benchmarks/linear.py [--tiers lexical,llm] [--plot docs/images/linear.svg]

In process through `Scorer.score`: 1, 4 and 16 times the answer's sentences, the contexts, and the contexts' sentences
of a sample of 5 contexts of 8 sentences and an answer of 5. Tier embedding with its real model, tier llm with a judge
in this process that finds everything supported, whose own time is taken off. A figure is the least of some samples, all
different. An exponent is log(growth of CPU) / log(growth of the text): 1 is linear, below it is better. Last line JSON.
"""

import argparse
import asyncio
import json
import math
import re
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.linear_plot import plot
from benchmarks.prose import ANSWER, CONTEXTS, SENTENCES, Prose, Wording, made_prose
from benchmarks.prose_words import OPENINGS
from benchmarks.service_tables import table
from plumbline.assembly import build, make_plan
from plumbline.ground.settings import Settings
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.ports.observation import Readiness, State
from plumbline.judging.sample_result import SampleStatus
from plumbline.judging.scoring import Scorer
from plumbline.judging.text.sample import Sample
from plumbline.judging.tiers.tier import JudgeOptions, TierName

FACTORS = (1, 4, 16)
AXES = ("answer length", "number of contexts", "length of contexts")
# Above this a step is said to grow faster than its text: what little a measurement on a shared machine may be off.
FASTER_THAN_LINEAR = 1.1
_SAMPLES = {TierName.LEXICAL: (15, 9, 5), TierName.EMBEDDING: (5, 3, 2), TierName.LLM: (15, 9, 5)}
_DEADLINE_SECONDS = 600.0
_DATA = re.compile(r"^\{.*\}$", re.MULTILINE)


class SupportingJudge:
    """A ChatModel that finds each sentence supported by the context that holds it. `seconds`: of CPU that it took."""

    name = "default"
    model = "supporting"
    variant = ""
    # As many as several models of 2025 read, so that 16 times the contexts go into one window.
    context_tokens = 131_072

    def __init__(self) -> None:
        self.seconds = 0.0

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        """The verdicts on what was asked."""
        started = time.thread_time()
        found = _DATA.search(request.user)
        data = json.loads(found[0]) if found else {"contexts": [], "answer": []}
        sentences = [_supported(each, data["contexts"]) for each in data["answer"] if "id" in each]
        reply = ChatReply(json.dumps({"sentences": sentences}), self.model)
        self.seconds += time.thread_time() - started
        return reply

    def readiness(self) -> Readiness:
        """Always there."""
        return Readiness(State.READY, self.model)


def _supported(sentence: dict[str, Any], contexts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    text = sentence["text"]
    core = next((text.removeprefix(each) for each in OPENINGS[1:] if text.startswith(each)), text)
    number = next((each["id"] for each in contexts if core[1:] in each["text"]), None)
    if number is None:
        # A control: no context says so.
        return {"id": sentence["id"], "claims": [{"claim": text, "verdict": "not_mentioned"}]}
    claim = {"claim": sentence["text"], "context_ids": [number], "quotes": [core], "derived": False}
    return {"id": sentence["id"], "claims": [{**claim, "reason": "The context says so.", "verdict": "supported"}]}


def shaped(prose: Prose, axis: str, factor: int, *, wording: Wording) -> Sample:
    """The sample with one of its measures so many times as large."""
    return prose.shaped(
        contexts=CONTEXTS * (factor if axis == "number of contexts" else 1),
        sentences=SENTENCES * (factor if axis == "length of contexts" else 1),
        answer=ANSWER * (factor if axis == "answer length" else 1),
        wording=wording,
    )


def exponents(seconds: Sequence[float], factors: Sequence[int] = FACTORS) -> list[float]:
    """How fast the seconds grow from step to step: log of their ratio over log of the factors' ratio."""
    steps = zip(seconds, seconds[1:], factors, factors[1:], strict=False)
    return [math.log(after / before) / math.log(larger / smaller) for before, after, smaller, larger in steps]


async def cpu_seconds(scorer: Scorer, judge: SupportingJudge, sample: Sample, tier: TierName) -> float:
    """What one sample costs this process, the judge's part taken off."""
    options = JudgeOptions((tier,), 0.5, _DEADLINE_SECONDS)
    before, judged = time.process_time(), judge.seconds
    result = await scorer.score(sample, options)
    spent = time.process_time() - before - (judge.seconds - judged)
    if result.status is not SampleStatus.JUDGED or result.tier != tier:
        raise RuntimeError(f"tier {tier} did not answer: {result.attempts}")
    return spent


async def measured(tiers: Sequence[TierName], seed: int) -> dict[str, dict[str, list[float]]]:
    """Least CPU seconds at each factor, by tier and axis."""
    prose, judge = made_prose(seed), SupportingJudge()
    plan = make_plan(Settings(warm_up=False, cache_ttl_seconds=0))
    found: dict[str, dict[str, list[float]]] = {}
    async with AsyncExitStack() as stack:
        scorer = build(plan, stack, chats={judge.name: judge}).scorer
        for tier in tiers:
            # Copies are settled at once; a judge's evidence for anything else is compared with it word by word.
            wording: Wording = "report" if tier is TierName.LLM else "paraphrase"
            await cpu_seconds(scorer, judge, prose.shaped(wording=wording), tier)
            by_axis: dict[str, list[float]] = {}
            for axis in AXES:
                by_axis[axis] = []
                for factor, count in zip(FACTORS, _SAMPLES[tier], strict=True):
                    samples = [shaped(prose, axis, factor, wording=wording) for _ in range(count)]
                    by_axis[axis].append(min([await cpu_seconds(scorer, judge, each, tier) for each in samples]))
            found[tier.value] = by_axis
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiers", default="lexical,embedding,llm", help="separated by commas (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the samples (default: %(default)s)")
    parser.add_argument("--plot", type=Path, help="SVG to write")
    options = parser.parse_args()
    found = asyncio.run(measured([TierName(name) for name in options.tiers.split(",")], options.seed))
    growth = {tier: {axis: exponents(each) for axis, each in axes.items()} for tier, axes in found.items()}
    rows: list[list[object]] = [
        [tier, axis, *(1000 * each for each in seconds), *(f"{each:.2f}" for each in growth[tier][axis])]
        for tier, axes in found.items()
        for axis, seconds in axes.items()
    ]
    print(table(["tier", "grows", *(f"{each}x, CPU ms" for each in FACTORS), "exponent 1-4", "exponent 4-16"], rows))
    if options.plot:
        options.plot.parent.mkdir(parents=True, exist_ok=True)
        options.plot.write_text(plot(found, FACTORS), encoding="utf-8")
    faster = [
        f"{tier}, {axis}"
        for tier, axes in growth.items()
        for axis, each in axes.items()
        if max(each) > FASTER_THAN_LINEAR
    ]
    print(json.dumps({"factors": FACTORS, "cpu_seconds": found, "exponents": growth, "faster_than_linear": faster}))


if __name__ == "__main__":
    main()
