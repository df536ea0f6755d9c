"""Settings of an experiment, corpora x chunkings x retrievers x blends, read from TOML; errors name table and key."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from plumbline.extras.lab.chunkings import AnyChunking, SentencesChunking, TokensChunking, WholeChunking
from plumbline.extras.lab.corpus import AnyCorpus, BeirCorpus, FolderCorpus, RowsCorpus
from plumbline.extras.lab.keyword import KeywordSettings
from plumbline.extras.lab.retriever import OwnRetriever
from plumbline.extras.lab.vectors import DenseSettings, SparseSettings
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import read_file
from plumbline.retrieval.conventions import build_conventions
from plumbline.retrieval.fusion import resolve
from plumbline.retrieval.ids import select_id_rule
from plumbline.retrieval.measure import nearest, parse_measures

# File names are made of names with dots between: no dot in them, and no separator.
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,40}$")]
AnyRetriever: TypeAlias = Annotated[
    KeywordSettings | DenseSettings | SparseSettings | OwnRetriever, Field(discriminator="kind")
]


class ExperimentTable(BaseModel):
    """`[experiment]`: measures of every system, and the comparison of systems."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name | None = Field(None, description="Of the results folder; default: the file's")
    measures: tuple[str, ...] = Field(("ndcg@10", "map", "precision@20", "recall@100"), min_length=1)
    depth: int = Field(1_000, ge=1, le=100_000, description="Documents kept for each query")
    preset: str = Field("trec_eval", description="Conventions of the measures")
    seed: int = Field(0, ge=0, le=2**32 - 1, description="Of intervals and tests")
    resamples: int | None = Field(None, ge=0, le=1_000_000, description="Default: 1,000 intervals, 10,000 tests")
    baseline: Name | None = Field(None, description="A retriever or a blend; default: the first retriever")
    test: Literal["randomization", "t"] = "randomization"
    correction: Literal["holm", "bonferroni", "bh", "none"] = "holm"


class Blend(BaseModel):
    """`[blends.NAME]`: several retrievers' runs of one corpus and chunking, fused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    parts: tuple[Name, ...] = Field(min_length=2, max_length=10, description="Retrievers, by name")
    method: str = "rrf"
    norm: str | None = None
    weights: dict[Name, float] | None = Field(None, description="One for each part; default: 1 each")
    params: dict[str, float] = Field({}, description="Such as k of rrf")
    missing: Literal["zero", "min"] = "zero"

    def recipe(self) -> dict[str, Any]:
        """Return the arguments of `plumbline.retrieval.fusion.fuse` besides runs, depth and name."""
        weights = None if self.weights is None else [self.weights[part] for part in self.parts]
        return {**self.model_dump(include={"method", "norm", "params", "missing"}), "weights": weights}


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


class Experiment(BaseModel):
    """An experiment file, read and checked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    experiment: ExperimentTable = ExperimentTable()
    conventions: dict[str, Any] = Field({}, description="Overrides of the preset's conventions")
    corpora: dict[Name, AnyCorpus] = Field(min_length=1)
    chunkings: dict[Name, AnyChunking] = Field({"whole": WholeChunking(kind="whole")}, min_length=1)
    retrievers: dict[Name, AnyRetriever] = Field(min_length=1)
    blends: dict[Name, Blend] = {}

    @property
    def baseline(self) -> str:
        return self.experiment.baseline or next(iter(self.retrievers))

    def systems(self) -> Iterator[Planned]:
        """Yield every system, in the order of the file; a blend after its parts."""
        for corpus in self.corpora:
            for chunking in self.chunkings:
                for retriever in self.retrievers:
                    yield Planned(corpus, chunking, retriever)
                for name, blend in self.blends.items():
                    yield Planned(corpus, chunking, name, blend.parts)


def read_experiment(path: Path) -> Experiment:
    """Read an experiment file.

    Raises:
        InvalidInput: it cannot be read, is no TOML, or has a value that is refused; names the table and the key.
    """
    with _error_place(path.name):
        try:
            tables = tomllib.loads(read_file(path).decode("utf-8"))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidInput(f"is no TOML: {error}") from None
        return build_experiment(tables)


def build_experiment(tables: Mapping[str, Any]) -> Experiment:
    """Build the experiment from its tables; InvalidInput names the table and the key."""
    try:
        experiment = Experiment.model_validate(tables)
    except ValidationError as error:
        raise _explain(error.errors(include_url=False)[0]) from None
    names = [*experiment.retrievers, *experiment.blends]
    with _error_place("experiment.measures"):
        measures = [str(each) for each in parse_measures(experiment.experiment.measures)]
        if len(set(measures)) < len(experiment.experiment.measures):
            raise InvalidInput("a measure is named twice")
    with _error_place("experiment.preset"):
        build_conventions(experiment.experiment.preset)
    with _error_place("conventions"):
        select_id_rule(build_conventions(experiment.experiment.preset, **experiment.conventions))
    with _error_place("experiment.baseline"):
        _require([experiment.baseline], names, "retriever or blend")
    for name, blend in experiment.blends.items():
        with _error_place(f"blends.{name}"):
            _require(blend.parts, list(experiment.retrievers), "retriever")
            if len(set(blend.parts)) < len(blend.parts):
                raise InvalidInput("a retriever is named twice")
            if blend.weights is not None and set(blend.weights) != set(blend.parts):
                raise InvalidInput(f"expected a weight for each of {', '.join(blend.parts)}")
            resolve(len(blend.parts), **blend.recipe())
    return experiment


@contextmanager
def _error_place(place: str) -> Iterator[None]:
    """Put the place in front of an InvalidInput."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(str(error), place=place) from None


def _require(words: Iterable[str], known: list[str], what: str) -> None:
    for word in words:
        if word not in known:
            raise InvalidInput(_describe_unknown(what, word, known))


def _describe_unknown(what: str, word: str, known: list[str]) -> str:
    near = nearest(word, known)
    hint = f"did you mean {near!r}?" if near else f"known are {', '.join(known)}"
    return f"there is no {what} {word[:80]!r}; {hint}"


_KINDS: Final[tuple[type[BaseModel], ...]] = (
    BeirCorpus, RowsCorpus, FolderCorpus, WholeChunking, TokensChunking, SentencesChunking, KeywordSettings,
    DenseSettings, SparseSettings, OwnRetriever,
)  # fmt: skip
_MODEL_BY_KIND: Final = {get_args(model.model_fields["kind"].annotation)[0]: model for model in _KINDS}
_MODEL_BY_TABLE: Final[Mapping[str, type[BaseModel]]] = {"experiment": ExperimentTable, "blends": Blend}


def _explain(error: ErrorDetails) -> InvalidInput:
    table, *keys = (str(each) for each in error["loc"])
    model: type[BaseModel] | None = _MODEL_BY_TABLE.get(table, None if keys else Experiment)
    # pydantic names the kind after the name.
    if len(keys) > 1 and table in ("corpora", "chunkings", "retrievers") and keys[1] in _MODEL_BY_KIND:
        model = _MODEL_BY_KIND[keys.pop(1)]
    place, context = ".".join([table, *keys]).removesuffix(".[key]"), error.get("ctx", {})
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        message = _describe_unknown(
            "key" if keys else "table", [table, *keys][-1], list(model.model_fields if model else ())
        )
    elif error["type"].startswith("union_tag"):
        place, known = f"{place}.kind", re.findall(r"'([^']+)'", str(context.get("expected_tags", "")))
        message = _describe_unknown("kind", str(context["tag"]), known) if "tag" in context else "is missing"
    elif error["type"] == "missing":
        message = "is missing" if keys else f"there is none; expected a table [{table}.NAME]"
    elif error["loc"][-1] == "[key]":
        message = "a name has 1 to 40 of A-Z, a-z, 0-9, _ and -"
    return InvalidInput(" ".join(message.split()), place=place)
