"""Tier embedding under requests: samples that share nothing, answers that share their contexts, small samples."""

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.prose import Prose, tier_texts
from benchmarks.service_bare import ENDPOINT_THREADS, WAYS, BareLoops
from benchmarks.service_load import Caller, Figures, drive, medians
from plumbline.judging.text.sample import Sample

CONCURRENCIES = (1, 8, 32)
# Of each: enough that most requests find the service as busy as it will be; no more are sent after so many seconds.
_UNIQUE_SAMPLES = {1: 20, 8: 48, 32: 96}
_SMALL_SAMPLES = {1: 200, 32: 800}
_SECONDS = 8.0
_BARE_SAMPLES = 3
_ANSWERS = 20
# Of the 5 sentences of each answer, those that other answers have too.
_SHARED_SENTENCES = {"distinct_answers": 0, "shared_sentences": 4}


@dataclass(frozen=True, slots=True)
class Bench:
    """What a scenario works with: a service, the model by itself, texts, and how many rounds to take."""

    caller: Caller
    loops: BareLoops
    prose: Prose
    rounds: int

    def typical(self, count: int) -> list[Sample]:
        """So many that share nothing with each other or with any before."""
        return [self.prose.typical() for _ in range(count)]


async def unique(bench: Bench) -> dict[str, object]:
    """Scenario a: every sample has contexts of its own."""
    service, bare = _empty(CONCURRENCIES), _empty(WAYS)
    for _ in range(bench.rounds):
        for concurrency in CONCURRENCIES:
            samples = bench.typical(_UNIQUE_SAMPLES[concurrency])
            figures = await drive(bench.caller, samples, concurrency=concurrency, seconds=_SECONDS)
            service[str(concurrency)].append(figures)
        for way in WAYS:
            texts = [tier_texts(sample) for sample in bench.typical(_bare_count(way))]
            bare[way].append(bench.loops.run(way, texts))
    return _compared(service, bare)


async def sharing(bench: Bench) -> dict[str, object]:
    """Scenario b: 20 answers to the same contexts, all sentences of theirs distinct, or 80 % of them shared."""
    service = {name: _empty(CONCURRENCIES) for name in _SHARED_SENTENCES}
    bare = _empty(WAYS)
    for _ in range(bench.rounds):
        for name, shared in _SHARED_SENTENCES.items():
            for concurrency in CONCURRENCIES:
                samples = bench.prose.sharing(_ANSWERS, shared=shared)
                figures = await drive(bench.caller, samples, concurrency=concurrency, seconds=_SECONDS, is_steady=False)
                service[name][str(concurrency)].append(figures)
        texts = [tier_texts(sample) for sample in bench.prose.sharing(_ANSWERS, shared=0)]
        for way in WAYS:
            bare[way].append(bench.loops.run(way, texts[: _bare_count(way)]))
    return {name: _compared(each, bare) for name, each in service.items()}


async def spread(bench: Bench, typical_at_32: Figures | None) -> dict[str, object]:
    """Scenario c: samples too small for one to use two cores, alone and together; and how evenly equal ones wait.

    Args:
        typical_at_32: what scenario a found, where it ran.
    """
    rounds, typical = _empty(_SMALL_SAMPLES), []
    for _ in range(bench.rounds):
        for concurrency, count in _SMALL_SAMPLES.items():
            samples = [bench.prose.small() for _ in range(count)]
            figures = await drive(bench.caller, samples, concurrency=concurrency, seconds=_SECONDS)
            rounds[str(concurrency)].append(figures)
        if typical_at_32 is None:
            samples = bench.typical(_UNIQUE_SAMPLES[32])
            typical.append(await drive(bench.caller, samples, concurrency=32, seconds=_SECONDS))
    small = {concurrency: medians(figures) for concurrency, figures in rounds.items()}
    typical_figures = medians(typical) if typical_at_32 is None else typical_at_32
    return {
        "small": small,
        "throughput_32_over_1": small["32"]["samples_per_second"] / small["1"]["samples_per_second"],
        "cpu_1_over_32": small["1"]["cpu_seconds_per_sample"] / small["32"]["cpu_seconds_per_sample"],
        "p99_over_p50_small": small["32"]["p99_ms"] / small["32"]["p50_ms"],
        "p99_over_p50_typical": typical_figures["p99_ms"] / typical_figures["p50_ms"],
    }


def _bare_count(way: str) -> int:
    return ENDPOINT_THREADS if way == "threads" else _BARE_SAMPLES


def _empty(names: Iterable[object]) -> dict[str, list[Figures]]:
    return {str(name): [] for name in names}


def _compared(service: dict[str, list[Figures]], bare: dict[str, list[Figures]]) -> dict[str, object]:
    """Medians, and how many times the service's CPU seconds a sample each bare loop takes, round by round."""
    return {
        "service": {name: medians(rounds) for name, rounds in service.items()},
        "bare": {name: medians(rounds) for name, rounds in bare.items()},
        "bare_cpu_over_service": {
            concurrency: medians(
                [
                    {
                        way: bare[way][number]["cpu_seconds_per_sample"] / figures["cpu_seconds_per_sample"]
                        for way in bare
                    }
                    for number, figures in enumerate(rounds)
                ]
            )
            for concurrency, rounds in service.items()
        },
    }
