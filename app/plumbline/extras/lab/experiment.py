"""Settings of an experiment: corpora x chunkings x retrievers x blends, defaults filled in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from plumbline.extras.lab.chunkings import AnyChunking
from plumbline.extras.lab.corpora import AnyCorpus
from plumbline.extras.lab.retrievers import AnyRetriever
from plumbline.retrieval.conventions import Conventions, as_dict

# Names of files are made of them, with dots between: none in them, and no separator.
NAME_PATTERN = r"^[A-Za-z0-9_-]{1,40}$"
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]


class _FileTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ExperimentTable(_FileTable):
    """`[experiment]`: measures of every system, and the comparison of systems."""

    name: Name = Field("experiment", description="Name of the experiment, and of the results folder by default")
    measures: tuple[str, ...] = Field(
        ("ndcg@10", "map", "precision@20", "recall@100"), min_length=1, description="As in `plumbline evaluate`"
    )
    depth: int = Field(1_000, ge=1, le=100_000, description="Documents kept for each query")
    preset: str = Field("trec_eval", description="Conventions of the measures, as in `plumbline evaluate`")
    seed: int = Field(0, ge=0, le=2**32 - 1, description="Random seed of intervals, tests and folds")
    resamples: int | None = Field(
        None, ge=0, le=1_000_000, description="Of intervals and tests; default: as `plumbline evaluate` and `compare`"
    )
    baseline: Name | None = Field(None, description="A retriever or a blend; default: the first retriever")
    test: Literal["randomization", "t"] = Field("randomization", description="As in `plumbline compare`")
    correction: Literal["holm", "bonferroni", "bh", "none"] = Field(
        "holm", description="Over the comparisons of a corpus by a measure"
    )


class Blend(_FileTable):
    """`[blends.NAME]`: several retrievers' runs of one corpus and chunking, fused."""

    parts: tuple[Name, ...] = Field(min_length=2, max_length=10, description="Retrievers, by name")
    method: str = Field("rrf", description="As in `plumbline fuse`")
    norm: str | None = Field(None, description="Normalisation; default: min-max for methods that read scores")
    weights: dict[Name, float] | None = Field(None, description="One for each part; default: 1 each")
    params: dict[str, float] = Field({}, description="Such as k of rrf")
    missing: Literal["zero", "min"] = Field("zero", description="Score of a document that a part did not find")
    tune: str | None = Field(None, description="Measure for which weights are tuned, cross-validated over queries")
    folds: int = Field(5, ge=2, description="Folds of the cross-validation")
    step: float = Field(0.1, gt=0, le=1, description="Step of the grid of weights")

    def recipe(self) -> dict[str, Any]:
        """Return the arguments of `plumbline.retrieval.fuse.fuse` besides runs, depth and name."""
        weights = None if self.weights is None else [self.weights[part] for part in self.parts]
        kept = {"method": self.method, "norm": self.norm, "params": self.params, "missing": self.missing}
        return {**kept, "weights": weights}


class Answers(_FileTable):
    """`[answers]`: a user's endpoint answers from the retrieved contexts, and a running service scores the answers."""

    url: str = Field(pattern=r"^https?://", description="Takes POST {question, contexts}, gives {answer}")
    k: int = Field(5, ge=1, le=50, description="Contexts of a question: the best chunk of k documents")
    service: str | None = Field(
        None,
        pattern=r"^https?://",
        description="URL of the scoring service; default: PLUMBLINE_URL. Its key: PLUMBLINE_API_KEY",
    )
    systems: tuple[str, ...] = Field((), description="Retrievers, blends or whole systems; all when empty")
    timeout_seconds: float = Field(60.0, gt=0, le=3_600)
    in_flight: int = Field(4, ge=1, le=64, description="Maximum concurrent requests to the endpoint")
    key_variable: str | None = Field(None, description="Environment variable with the endpoint's bearer token")
    tiers: tuple[Literal["llm", "detector", "embedding", "lexical"], ...] = Field(
        (), description="Tiers; default: the service's"
    )
    references: str | None = Field(
        None, description="Rows with a query's `id` and the correct answer, `reference`, for token F1 and exact match"
    )


@dataclass(frozen=True, slots=True)
class Planned:
    """One system to measure: a retriever (no parts) or a blend, on a corpus with one chunking."""

    corpus: str
    chunking: str
    retriever: str
    parts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.corpus}.{self.chunking}.{self.retriever}"

    @property
    def part_names(self) -> tuple[str, ...]:
        return tuple(f"{self.corpus}.{self.chunking}.{part}" for part in self.parts)

    def goes_by(self, name: str) -> bool:
        return name in {self.name, self.corpus, self.chunking, self.retriever}


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment file, read and checked.

    `conventions`: the preset's, but for `[conventions]`. `base`: the folder to which its paths are relative.
    """

    table: ExperimentTable
    conventions: Conventions
    corpora: Mapping[str, AnyCorpus]
    chunkings: Mapping[str, AnyChunking]
    retrievers: Mapping[str, AnyRetriever]
    blends: Mapping[str, Blend]
    answers: Answers | None
    base: Path

    @property
    def baseline(self) -> str:
        return self.table.baseline or next(iter(self.retrievers))

    def systems(self) -> Iterator[Planned]:
        """Yield every system, in the order of the file; a blend after its parts."""
        for corpus in self.corpora:
            for chunking in self.chunkings:
                for retriever in self.retrievers:
                    yield Planned(corpus, chunking, retriever)
                for name, blend in self.blends.items():
                    yield Planned(corpus, chunking, name, blend.parts)

    def baseline_of(self, corpus: str) -> str:
        """Return the baseline system of a corpus: the baseline on the first chunking."""
        return f"{corpus}.{next(iter(self.chunkings))}.{self.baseline}"

    def settings(self) -> dict[str, Any]:
        """Return all settings as JSON values, by table, without what a settings class keeps secret."""
        tables = {"corpora": self.corpora, "chunkings": self.chunkings, "retrievers": self.retrievers}
        return {
            "experiment": {**self.table.model_dump(mode="json"), "baseline": self.baseline},
            "conventions": as_dict(self.conventions),
            **{
                title: {name: each.model_dump(mode="json") for name, each in named.items()}
                for title, named in tables.items()
            },
            "blends": {name: blend.model_dump(mode="json") for name, blend in self.blends.items()},
            "answers": None if self.answers is None else self.answers.model_dump(mode="json"),
        }


class ProgressReporter(Protocol):
    """Receiver of an experiment's progress. `name`: a system or a corpus; `stage`: the step it is at."""

    def steps(self, total: int) -> None:
        """Set the number of systems."""

    def stage(self, name: str, stage: str, done: int = 0, total: int = 0) -> None:
        """Report a stage; `total` is 0 if unknown."""

    def done(self, name: str, *, was_there: bool) -> None:
        """Report a system that is done, now or in an earlier run."""

    def failed(self, name: str, detail: str) -> None:
        """Report a system that failed, and why."""
