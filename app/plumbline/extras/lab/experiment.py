"""Settings of an experiment, corpora x chunkings x retrievers x blends, read from TOML; errors name table and key."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

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

# Names of files are made of them, with dots between: none in them, and no separator.
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
        """Return the arguments of `plumbline.retrieval.fuse.fuse` besides runs, depth and name."""
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

    def goes_by(self, name: str) -> bool:
        return name in {self.name, self.corpus, self.chunking, self.retriever}


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
    try:
        tables = tomllib.loads(read_file(path).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidInput("is not UTF-8", place=path.name) from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"is no TOML: {error}", place=path.name) from None
    try:
        return build_experiment(tables)
    except InvalidInput as error:
        raise InvalidInput(str(error), place=path.name) from None


def build_experiment(tables: Mapping[str, Any]) -> Experiment:
    """Build the experiment from its tables; InvalidInput names the table and the key."""
    try:
        experiment = Experiment.model_validate(tables)
    except ValidationError as error:
        raise _explain(error.errors(include_url=False)[0]) from None
    names = [*experiment.retrievers, *experiment.blends]
    for titled in (experiment.corpora, experiment.chunkings, names):
        # Not every disk tells names apart that differ by case alone
        if len({name.lower() for name in titled}) < len(list(titled)):
            raise InvalidInput(f"two of {', '.join(titled)} are the same name but for case")
    with _Place("experiment.measures"):
        measures = [str(each) for each in parse_measures(experiment.experiment.measures)]
        if len(set(measures)) < len(experiment.experiment.measures):
            raise InvalidInput("a measure is named twice")
    with _Place("experiment.preset"):
        build_conventions(experiment.experiment.preset)
    with _Place("conventions"):
        select_id_rule(build_conventions(experiment.experiment.preset, **experiment.conventions))
    with _Place("experiment.baseline"):
        _require(experiment.baseline, names, "retriever or blend")
    for name, blend in experiment.blends.items():
        with _Place(f"blends.{name}"):
            for part in blend.parts:
                _require(part, list(experiment.retrievers), "retriever")
            if len(set(blend.parts)) < len(blend.parts):
                raise InvalidInput("a retriever is named twice")
            if blend.weights is not None and set(blend.weights) != set(blend.parts):
                raise InvalidInput(f"expected a weight for each of {', '.join(blend.parts)}")
            resolve(len(blend.parts), **blend.recipe())
    return experiment


class _Place:
    """Context that puts the place in front of an InvalidInput."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, InvalidInput):
            raise InvalidInput(str(error), place=self._place) from None


def _require(word: str, known: Sequence[str], what: str) -> None:
    if word not in known:
        raise InvalidInput(_unknown(what, word, known))


def _unknown(what: str, word: str, known: Sequence[str]) -> str:
    near = nearest(word, known)
    return f"there is no {what} {word[:80]!r}; " + (
        f"did you mean {near!r}?" if near else f"known are {', '.join(known)}"
    )


_MODEL_BY_TAG: Final[Mapping[str, type[BaseModel]]] = {
    "beir": BeirCorpus,
    "rows": RowsCorpus,
    "folder": FolderCorpus,
    "whole": WholeChunking,
    "tokens": TokensChunking,
    "sentences": SentencesChunking,
    "keyword": KeywordSettings,
    "dense": DenseSettings,
    "sparse": SparseSettings,
    "python": OwnRetriever,
}
_MODEL_BY_TABLE: Final[Mapping[str, type[BaseModel]]] = {"experiment": ExperimentTable, "blends": Blend}
_FROM_SUFFIX: Final = "the suffix of a file names its format"
_TUNE: Final = "give `weights`; `plumbline retrieval fuse --tune` finds them from the files in runs/"
# Keys of version 0.2, by table, with what to use.
_REMOVED: Final[Mapping[tuple[str, str], str]] = {
    ("answers", ""): "score answers with `plumbline score`, on rows of question, contexts and answer",
    ("chunkings", "headings"): 'kind = "sentences" cuts sections, too',
    ("chunkings", "unit"): "sizes are in words",
    ("chunkings", "model"): "sizes are in words",
    ("corpora", "format"): _FROM_SUFFIX,
    ("corpora", "query_format"): _FROM_SUFFIX,
    ("corpora", "unjudged"): "queries without judgments are always left out",
    ("corpora", "unasked"): "take judgments of queries that are not asked out of the file",
    ("corpora", "metadata_fields"): 'kind = "rows" with field_columns reads further fields',
    ("corpora", "suffixes"): 'the suffixes are .txt, .md and .markdown; kind = "rows" reads any other texts',
    ("corpora", "front_matter"): 'write rows with the fields, for kind = "rows"',
    ("corpora", "front_matter_fields"): 'write rows with the fields, for kind = "rows"',
    ("blends", "tune"): _TUNE,
    ("blends", "folds"): _TUNE,
    ("blends", "step"): _TUNE,
}


def _explain(error: ErrorDetails) -> InvalidInput:
    table, *keys = (str(each) for each in error["loc"])
    model: type[BaseModel] | None = _MODEL_BY_TABLE.get(table, None if keys else Experiment)
    # In a table of several kinds pydantic names the kind behind the name
    if len(keys) > 1 and table in ("corpora", "chunkings", "retrievers") and keys[1] in _MODEL_BY_TAG:
        model = _MODEL_BY_TAG[keys.pop(1)]
    place, last = ".".join([table, *keys]).removesuffix(".[key]"), keys[-1] if keys else ""
    said = error.get("ctx", {})
    tag = str(said.get("tag", ""))
    if advice := _REMOVED.get((table, tag or last)):
        what = f"kind {tag!r}" if tag else "the key" if last else "the table"
        return InvalidInput(f"{what} was removed in 0.3: {advice}", place=place)
    if error["type"] == "extra_forbidden":
        known = list(model.model_fields) if model else []
        return InvalidInput(_unknown("key" if keys else "table", last or table, known), place=place)
    if error["type"].startswith("union_tag"):
        known = re.findall(r"'([^']+)'", str(said.get("expected_tags", "")))
        wrong = _unknown("kind", tag, known) if tag else "is missing; it says which of them it is"
        return InvalidInput(wrong, place=f"{place}.kind")
    if error["type"] == "missing":
        return InvalidInput("is missing" if keys else f"there is none; expected a table [{table}.NAME]", place=place)
    is_name = error["type"] == "string_pattern_mismatch" and error["loc"][-1] == "[key]"
    message = "a name has 1 to 40 of A-Z, a-z, 0-9, _ and -" if is_name else error["msg"].removeprefix("Value error, ")
    return InvalidInput(" ".join(message.split()), place=place)
