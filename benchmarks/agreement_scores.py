"""Scores of labelled rows: from the running service, and from the baselines."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.agreement_baselines import (
    rouge_l_precision,
    seed_embedding_similarity,
    seed_word_overlap,
    shortness,
)
from plumbline.assembly import Service, build_encoder
from plumbline.extras.calibration.figures import (
    DatasetRows,
    Figure,
    Scale,
    ScoredRows,
    build_figure,
    by_dataset,
    draw_figures,
    mean_over_datasets,
)
from plumbline.extras.calibration.labels import LabelledRow
from plumbline.ground.concurrency import map_concurrently
from plumbline.ground.errors import InvalidInput
from plumbline.ground.settings import Settings
from plumbline.judging.ports.exchange import Usage
from plumbline.judging.sample_result import SampleResult, SampleStatus
from plumbline.judging.text.sample import Sample
from plumbline.judging.tiers.tier import JudgeOptions, TierName
from plumbline.main import create_app
from plumbline.models.encoder.model_files import find_model
from plumbline.models.encoder.torch_model import load_sentence_transformer

_ROWS_BETWEEN_NOTES = 500


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tier said of a row: a score in [0, 1], or None and the reason."""

    score: float | None
    reason: str
    model: str
    flags: tuple[str, ...]
    usage: Usage


@dataclass(frozen=True, slots=True)
class Baseline:
    """One score a row, in order."""

    scores: list[float]
    scale: Scale
    seconds: float


async def score_rows(
    rows: Sequence[LabelledRow], tier: TierName, settings: Settings, *, concurrency: int, deadline_seconds: float
) -> list[Outcome]:
    """An outcome for each row, in order, from the service as it is served, asked for this tier alone."""
    encoder = build_encoder(settings)
    app = create_app(settings, encoder=encoder)
    options = JudgeOptions(tiers=(tier,), threshold=settings.threshold, deadline_seconds=deadline_seconds)
    outcomes: list[Outcome] = []

    async with aclosing(encoder), app.router.lifespan_context(app):
        service: Service = app.state.service

        async def score(row: LabelledRow) -> Outcome:
            try:
                return _outcome(await service.scorer.score(row.sample, options))
            except Exception as bug:
                bug.add_note(f"while row {row.row} was scored")
                raise

        async with aclosing(map_concurrently(score, rows, limit=concurrency, in_order=True)) as scored:
            async for outcome in scored:
                outcomes.append(outcome)
                if len(outcomes) % _ROWS_BETWEEN_NOTES == 0:
                    print(f"{tier}: {len(outcomes)} of {len(rows)} rows", file=sys.stderr)
    return outcomes


def baseline_scores(samples: Sequence[Sample], which: str) -> dict[str, Baseline]:
    """The baselines by name: none, those that cost nothing (`cheap`), or `all`, with the one that needs a model."""
    if which == "none":
        return {}
    found = {
        "shortness": _timed(lambda: [shortness(sample) for sample in samples], "rank"),
        "rouge_l_precision": _timed(lambda: [rouge_l_precision(sample) for sample in samples], "probability"),
        "seed_word_overlap": _timed(lambda: [seed_word_overlap(sample) for sample in samples], "probability"),
    }
    if which == "all":
        found["seed_embedding"] = _timed(lambda: seed_embedding_similarity(samples, _encode), "probability")
    return found


def _timed(work: Callable[[], list[float]], scale: Scale) -> Baseline:
    started = time.perf_counter()
    scores = work()
    return Baseline(scores, scale, round(time.perf_counter() - started, 1))


def _encode(texts: Sequence[str]) -> NDArray[np.float32]:
    """A vector a text, as the seed has it."""
    vectors = load_sentence_transformer(find_model(None)).encode(
        list(texts), normalize_embeddings=True, convert_to_numpy=True
    )
    return np.asarray(vectors, dtype=np.float32)


def _outcome(result: SampleResult) -> Outcome:
    score = result.scores.faithfulness if result.scores and result.status is SampleStatus.JUDGED else None
    reason = ""
    if score is None:
        failures = [str(attempt.reason) for attempt in result.attempts if attempt.reason]
        reason = failures[-1] if result.status is SampleStatus.NOT_JUDGED and failures else result.status.value
    return Outcome(score, reason, result.judge.model if result.judge else "", result.flags, result.usage)


def auroc_difference(first: ScoredRows, second: ScoredRows, *, draws: int = 1_000, seed: int = 0) -> Figure:
    """Return the macro AUROC of `first` minus that of `second` on the same rows, with a paired interval.

    Raises:
        InvalidInput: the rows are not the same ones.
    """
    same = (list(first.datasets), list(first.clusters)) == (list(second.datasets), list(second.clusters))
    if not same or not np.array_equal(first.labels, second.labels):
        raise InvalidInput("expected two scores of the same rows in one order, found rows that differ")
    both: list[DatasetRows] = []
    means = []
    for scored in (first, second):
        datasets = by_dataset(scored)
        both = [each for each in datasets if each.has_both_labels]
        if not both:
            return Figure(None, None, None)
        means.append(mean_over_datasets(draw_figures(datasets, draws=draws, seed=seed), both)["auroc"])
    return build_figure(means[0] - means[1], has_interval=any(each.clusters > 1 for each in both))
