"""Settings of an experiment, one corpus x chunkings x retrievers and their blends, read from TOML."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from plumbline.extras.lab.corpus import CorpusFiles, parse_chunking
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
    """`[experiment]`: chunkings, measures of every system, and the comparison of systems."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    chunkings: tuple[str, ...] = Field(("whole",), min_length=1, description="whole, tokens-200-50, sentences-100-1")
    measures: tuple[str, ...] = Field(("ndcg@10", "map", "precision@20", "recall@100"), min_length=1)
    depth: int = Field(1_000, ge=1, le=100_000, description="Documents kept for each query")
    preset: str = Field("trec_eval", description="Conventions of the measures")
    seed: int = Field(0, ge=0, le=2**32 - 1, description="Of intervals and tests")
    resamples: int | None = Field(None, ge=0, le=1_000_000, description="Default: 1,000 intervals, 10,000 tests")
    baseline: Name | None = Field(None, description="A retriever or a blend; default: the first retriever")


class Blend(BaseModel):
    """`[blends.NAME]`: several retrievers' runs, fused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    parts: tuple[Name, ...] = Field(min_length=2, max_length=10, description="Retrievers, by name")
    method: str = "rrf"
    norm: str | None = None
    weights: dict[Name, float] | None = Field(None, description="One for each part; default: 1 each")
    params: dict[str, float] = Field({}, description="Such as k of rrf")

    def recipe(self) -> dict[str, Any]:
        weights = None if self.weights is None else [self.weights[part] for part in self.parts]
        return {**self.model_dump(include={"method", "norm", "params"}), "weights": weights}


@dataclass(frozen=True, slots=True)
class PlannedSystem:
    """A retriever or a blend with one chunking. `parts`: names of a blend's systems."""

    name: str
    chunking: str
    retriever: str
    parts: tuple[str, ...] = ()


class Experiment(BaseModel):
    """An experiment file, read and checked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    experiment: ExperimentTable = ExperimentTable()
    conventions: dict[str, Any] = Field({}, description="Overrides of the preset's conventions")
    corpus: CorpusFiles
    retrievers: dict[Name, AnyRetriever] = Field(min_length=1)
    blends: dict[Name, Blend] = {}

    @property
    def baseline(self) -> str:
        return self.experiment.baseline or next(iter(self.retrievers))

    def systems(self) -> Iterator[PlannedSystem]:
        for chunking in self.experiment.chunkings:
            suffix = f".{chunking}" if len(self.experiment.chunkings) > 1 else ""
            for retriever in self.retrievers:
                yield PlannedSystem(retriever + suffix, chunking, retriever)
            for name, blend in self.blends.items():
                yield PlannedSystem(name + suffix, chunking, name, tuple(part + suffix for part in blend.parts))


def read_experiment(path: Path) -> Experiment:
    """Read an experiment file; InvalidInput names the table and the key."""
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
    table = experiment.experiment
    with _error_place("experiment.chunkings"):
        _refuse_repeats([parse_chunking(each).name for each in table.chunkings], "chunking")
    with _error_place("experiment.measures"):
        _refuse_repeats([str(each) for each in parse_measures(table.measures)], "measure")
    with _error_place("experiment.preset"):
        build_conventions(table.preset)
    with _error_place("conventions"):
        select_id_rule(build_conventions(table.preset, **experiment.conventions))
    with _error_place("experiment.baseline"):
        _require([experiment.baseline], [*experiment.retrievers, *experiment.blends], "retriever or blend")
    for name, blend in experiment.blends.items():
        with _error_place(f"blends.{name}"):
            if name in experiment.retrievers:
                raise InvalidInput("a retriever has this name")
            _require(blend.parts, list(experiment.retrievers), "retriever")
            _refuse_repeats(blend.parts, "retriever")
            if blend.weights is not None and set(blend.weights) != set(blend.parts):
                raise InvalidInput(f"expected a weight for each of {', '.join(blend.parts)}")
            resolve(len(blend.parts), **blend.recipe())
    return experiment


@contextmanager
def _error_place(place: str) -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(str(error), place=place) from None


def _refuse_repeats(names: Iterable[str], what: str) -> None:
    names = list(names)
    if len(set(names)) < len(names):
        raise InvalidInput(f"a {what} is named twice")


def _require(words: Iterable[str], known: list[str], what: str) -> None:
    for word in words:
        if word not in known:
            raise InvalidInput(_describe_unknown(what, word, known))


def _describe_unknown(what: str, word: str, known: list[str]) -> str:
    near = nearest(word, known)
    hint = f"did you mean {near!r}?" if near else f"known are {', '.join(known)}"
    return f"there is no {what} {word[:80]!r}; {hint}"


_KIND_PLACE: Final = 2
_KINDS: Final = ("keyword", "dense", "sparse", "python")
_KEYS: Final = [
    *(key for model in (ExperimentTable, CorpusFiles, Blend) for key in model.model_fields),
    *(key for model in (KeywordSettings, DenseSettings, SparseSettings, OwnRetriever) for key in model.model_fields),
]


def _explain(error: ErrorDetails) -> InvalidInput:
    keys = [str(each) for each in error["loc"]]
    # pydantic names the kind after the name.
    if keys[0] == "retrievers" and len(keys) > _KIND_PLACE and keys[_KIND_PLACE] in _KINDS:
        del keys[_KIND_PLACE]
    place, message = ".".join(keys).removesuffix(".[key]"), error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        known = ("key", _KEYS) if len(keys) > 1 else ("table", list(Experiment.model_fields))
        message = _describe_unknown(known[0], keys[-1], known[1])
    elif error["type"].startswith("union_tag"):
        place, tag = f"{place}.kind", error.get("ctx", {}).get("tag")
        message = "is missing" if tag is None else _describe_unknown("kind", str(tag), list(_KINDS))
    elif error["type"] == "missing":
        message = "is missing"
    elif keys[-1] == "[key]":
        message = "a name has 1 to 40 of A-Z, a-z, 0-9, _ and -"
    return InvalidInput(" ".join(message.split()), place=place)
