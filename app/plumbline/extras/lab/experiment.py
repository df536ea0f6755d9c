"""Settings of an experiment, one corpus x chunkings x retrievers and their blends, read from TOML."""

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from pydantic import Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from plumbline.extras.lab.corpus import CorpusFiles, LabTable, parse_chunking
from plumbline.extras.lab.keyword import KeywordSettings
from plumbline.extras.lab.retriever import OwnRetriever
from plumbline.extras.lab.vectors import DenseSettings, SparseSettings
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import read_file
from plumbline.retrieval.fusion import resolve
from plumbline.retrieval.measure import parse_measures, suggest

# File names are made of names with dots between: no dot in them, and no separator.
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,40}$")]
AnyRetriever: TypeAlias = Annotated[
    KeywordSettings | DenseSettings | SparseSettings | OwnRetriever, Field(discriminator="kind")
]


class ExperimentTable(LabTable):
    """`[experiment]`: chunkings, measures of every system, and the comparison of systems."""

    chunkings: tuple[str, ...] = Field(("whole",), min_length=1, description="whole, tokens-200-50, sentences-100-1")
    measures: tuple[str, ...] = Field(("ndcg@10", "map", "precision@20", "recall@100"), min_length=1)
    depth: int = Field(1_000, ge=1, le=100_000, description="Documents kept for each query")


class Blend(LabTable):
    """`[blends.NAME]`: several retrievers' runs, fused."""

    parts: tuple[Name, ...] = Field(min_length=2, max_length=10, description="Retrievers, by name")
    method: str = "rrf"
    norm: str | None = None
    weights: tuple[float, ...] | None = Field(None, description="One for each part, in order; default: 1 each")
    params: dict[str, float] = Field({}, description="Such as k of rrf")

    def recipe(self) -> dict[str, Any]:
        return self.model_dump(exclude={"parts"})


class System(NamedTuple):
    """A system is a retriever or a blend with one chunking; `key`: its name in the file, `parts`: a blend's systems."""

    name: str
    key: str
    chunking: str
    settings: AnyRetriever | Blend
    parts: tuple[str, ...] = ()


class Experiment(LabTable):
    """An experiment file, read and checked."""

    experiment: ExperimentTable = ExperimentTable()
    corpus: CorpusFiles
    retrievers: dict[Name, AnyRetriever] = Field(min_length=1)
    blends: dict[Name, Blend] = Field({})

    def systems(self) -> Iterator[System]:
        for chunking in self.experiment.chunkings:
            suffix = f".{chunking}" if len(self.experiment.chunkings) > 1 else ""
            for key, retriever in self.retrievers.items():
                yield System(key + suffix, key, chunking, retriever)
            for key, blend in self.blends.items():
                yield System(key + suffix, key, chunking, blend, tuple(part + suffix for part in blend.parts))

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each system with the first and with itself on the first chunking, each blend with its parts."""
        systems = list(self.systems())
        first = {each.key: each.name for each in reversed(systems)}
        for each in systems[1:]:
            others = dict.fromkeys((systems[0].name, first[each.key], *each.parts))
            yield from ((each.name, other) for other in others if other != each.name)


def read_experiment(path: Path) -> Experiment:
    """Read an experiment file; InvalidInput names the table and the key."""
    with _error_place(path.name):
        try:
            return build_experiment(tomllib.loads(read_file(path).decode("utf-8")))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidInput(f"is no TOML: {error}") from None


def build_experiment(tables: Mapping[str, Any]) -> Experiment:
    """Build the experiment from its tables; InvalidInput names the table and the key."""
    try:
        experiment = Experiment.model_validate(tables)
    except ValidationError as error:
        raise _explain(error.errors(include_url=False)[0]) from None
    table, retrievers = experiment.experiment, list(experiment.retrievers)
    with _error_place("experiment"):
        parse_measures(table.measures)
        for chunking in table.chunkings:
            parse_chunking(chunking)
    for name, blend in experiment.blends.items():
        with _error_place(f"blends.{name}"):
            if name in retrievers:
                raise InvalidInput("a retriever has this name")
            if unknown := [part for part in blend.parts if part not in retrievers]:
                raise InvalidInput(f"there is no retriever {unknown[0]!r}; {suggest(unknown[0], retrievers)}")
            resolve(len(blend.parts), **blend.recipe())
    return experiment


@contextmanager
def _error_place(place: str) -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(str(error), place=place) from None


_TABLES: Final = (ExperimentTable, CorpusFiles, Blend, KeywordSettings, DenseSettings, SparseSettings, OwnRetriever)
_KEYS: Final = list(dict.fromkeys(key for table in (Experiment, *_TABLES) for key in table.model_fields))


def _explain(error: ErrorDetails) -> InvalidInput:
    keys, message = list(map(str, error["loc"])), error["msg"].removeprefix("Value error, ")
    # pydantic names a retriever's kind after its name.
    if keys[0] == "retrievers":
        del keys[2:3]
    if error["type"] == "extra_forbidden":
        message = f"there is no key {keys[-1]!r}; {suggest(keys[-1], _KEYS)}"
    return InvalidInput(" ".join(message.split()), place=".".join(keys))
