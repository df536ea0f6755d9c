"""Results of an experiment, as stored and reported: a row for each system."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from plumbline.extras.lab.retriever import IndexFacts
from plumbline.retrieval.compare import LatencySummary, RunComparison, Summary

# Names in `System.answers` that are counts; the others are means in [0, 1].
ANSWER_COUNTS: Final = ("questions", "answered", "judged", "abstained", "empty_answer", "not_judged", "degraded")


# Standard recall levels of TREC, for the precision-recall curve.
RECALLS: Final = tuple(tenth / 10 for tenth in range(11))


@dataclass(frozen=True, slots=True)
class Built:
    """Facts and costs of one index.

    `build_seconds`: wall time of `build`, models loaded before. `documents_per_second`: documents over build_seconds.
    `load_seconds`: wall time before `build` (imports, weights).
    """

    facts: IndexFacts
    documents: int
    build_seconds: float
    documents_per_second: float
    load_seconds: float


@dataclass(frozen=True, slots=True)
class CorpusFacts:
    """Facts of a corpus. `queries` are all searched; `unjudged` of them are in no measure.

    `judged_elsewhere`: judged documents that are not in it. `qrels_file`: relative to the results' folder, TREC format.
    `digest`: of documents, queries and judgments, whatever files they came in.
    """

    documents: int
    queries: int
    unjudged: int
    judged_elsewhere: int
    qrels_file: str
    digest: str


@dataclass(frozen=True, slots=True)
class Tuned:
    """Cross-validated weights of a blend; the run on disk is made of the held-out folds.

    As `plumbline.retrieval.fuse.Tuning`: `in_sample_score` flatters, `held_out_score` is what the table shows.
    """

    measure: str
    folds: int
    weights: Mapping[str, float]
    fold_weights: tuple[Mapping[str, float], ...]
    in_sample_score: float
    held_out_score: float
    equal_score: float


@dataclass(frozen=True, slots=True)
class System:
    """One row of the table: a corpus, a chunking, and a retriever or a blend.

    `name`: `corpus.chunking.retriever`, and the run's file name without its ending. `run_file`: relative to the
    results' folder, TREC format, documents (the best chunk speaks for its document). `latency`: milliseconds for each
    query; for a blend its parts' added up, and the fusion. `built` is None for a blend, `parts` is empty for a
    retriever. `answers`: means of the service's scores by tier, and counts (`score_answers`), if [answers] asks.
    `precision_at_recall`: mean interpolated precision at the recalls `RECALLS`; empty in results of earlier versions.
    """

    name: str
    corpus: str
    chunking: str
    retriever: str
    parts: tuple[str, ...]
    run_file: str
    measures: Mapping[str, Summary]
    latency: LatencySummary | None
    built: Built | None
    tuned: Tuned | None
    answers: Mapping[str, float | None] | None
    warnings: tuple[str, ...]
    precision_at_recall: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ExperimentResults:
    """All of it.

    `comparisons`: every system against its corpus's baseline and the same retriever on the first chunking, and every
    blend against each of its parts, by every measure; p-values corrected within a corpus and a measure.
    `settings`: the experiment file as it was read,
    defaults filled in. `machine`: what it ran on (processor, cores, Python ...). `failures`: systems that have no row,
    with one line that says why.
    """

    name: str
    measures: tuple[str, ...]
    baseline: str
    systems: tuple[System, ...]
    comparisons: tuple[RunComparison, ...]
    settings: Mapping[str, object]
    machine: Mapping[str, str]
    corpora: Mapping[str, CorpusFacts] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
