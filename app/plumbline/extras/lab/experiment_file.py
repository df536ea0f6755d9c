"""Reader of experiment files: TOML, every table checked; errors name the table and the key."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from plumbline.extras.lab.chunkings import AnyChunking
from plumbline.extras.lab.corpora import AnyCorpus
from plumbline.extras.lab.experiment import NAME_PATTERN, Answers, Blend, Experiment, ExperimentTable
from plumbline.extras.lab.retrievers import AnyRetriever
from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.combination import WEIGHTED
from plumbline.retrieval.conventions import Conventions, build_conventions
from plumbline.retrieval.fuse import resolve, simplex_grid
from plumbline.retrieval.ids import select_id_rule
from plumbline.retrieval.measure import nearest, parse_measures

_MOST_BYTES = 1_000_000
_TABLES = ("experiment", "conventions", "corpora", "chunkings", "retrievers", "blends", "answers")


def read_experiment(
    path: Path, *, base: Path | None = None, overrides: Mapping[str, Mapping[str, Any]] | None = None
) -> Experiment:
    """Read an experiment file.

    Args:
        base: the folder to which paths in the file are relative; the file's own when None.
        overrides: keys by table that come before the file's.

    Raises:
        InvalidInput: it cannot be read, is no TOML, or says something that cannot be; names the table and the key.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", place=path.name) from error
    except UnicodeDecodeError as error:
        raise InvalidInput("is not UTF-8", place=path.name) from error
    if len(data) > _MOST_BYTES:
        raise InvalidInput(f"has more than {_MOST_BYTES} bytes; is it an experiment file?", place=path.name)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"is no TOML: {error}", place=path.name) from None
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem)[:40].strip("-") or "experiment"
    for title, keys in (overrides or {}).items():
        tables[title] = {**_mapping(tables.get(title, {}), title), **keys}
    try:
        return build_experiment(tables, name=name, base=(base or path.parent).resolve())
    except InvalidInput as error:
        raise InvalidInput(str(error), place=path.name) from None


def build_experiment(tables: Mapping[str, Any], *, name: str, base: Path) -> Experiment:
    """Build the experiment from its tables; InvalidInput names the table and the key. `name`: where they give none."""
    if unknown := [title for title in tables if title not in _TABLES]:
        raise InvalidInput(_unknown("table", unknown[0], _TABLES))
    for title in ("corpora", "retrievers"):
        if not tables.get(title):
            raise InvalidInput(f"there is none; expected a table [{title}.NAME]", place=title)
    table = {"name": name, **_mapping(tables.get("experiment", {}), "experiment")}
    settings = _one(table, ExperimentTable, "experiment")
    experiment = Experiment(
        table=settings,
        conventions=_conventions(settings.preset, _mapping(tables.get("conventions", {}), "conventions")),
        corpora=_named(tables["corpora"], "corpora", AnyCorpus),
        chunkings=_named(tables.get("chunkings") or {"whole": {"kind": "whole"}}, "chunkings", AnyChunking),
        retrievers=_named(tables["retrievers"], "retrievers", AnyRetriever),
        blends=_named(tables.get("blends", {}), "blends", Blend),
        answers=_one(tables["answers"], Answers, "answers") if "answers" in tables else None,
        base=base,
    )
    _check_words(experiment)
    for blend_name, blend in experiment.blends.items():
        _check_blend(experiment, blend_name, blend)
    return experiment


def _named(value: object, title: str, form: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, table in _mapping(value, title).items():
        place = f"{title}.{name[:80]}"
        if not re.fullmatch(NAME_PATTERN, name):
            raise InvalidInput("a name has 1 to 40 of A-Z, a-z, 0-9, _ and -", place=place)
        if name.lower() in {each.lower() for each in found}:
            raise InvalidInput("differs from another name by case alone; not every disk tells them apart", place=place)
        found[name] = _one(table, form, place)
    return found


def _one(table: object, form: Any, place: str) -> Any:
    try:
        return TypeAdapter(form).validate_python(_mapping(table, place))
    except ValidationError as error:
        raise _complaint(error.errors(include_url=False)[0], form, place) from None
    except InvalidInput as error:
        raise InvalidInput(str(error), place=place) from None


def _complaint(error: ErrorDetails, form: Any, place: str) -> InvalidInput:
    said = error.get("ctx", {})
    if error["type"] == "union_tag_invalid":
        key = said["discriminator"].strip("'")
        known = tuple(re.findall(r"'([^']+)'", said["expected_tags"]))
        return InvalidInput(_unknown(key, said["tag"], known), place=f"{place}.{key}")
    if error["type"] == "union_tag_not_found":
        key = said["discriminator"].strip("'")
        return InvalidInput("is missing; it says which of them it is", place=f"{place}.{key}")
    model, keys = _member(form, error["loc"])
    at = ".".join([place, *(str(key) for key in keys)])
    if error["type"] == "extra_forbidden":
        known = tuple(model.model_fields) if len(keys) == 1 else ()
        return InvalidInput(_unknown("key", str(keys[-1]), known), place=at)
    if error["type"] == "missing":
        return InvalidInput("is missing", place=at)
    message = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return InvalidInput(" ".join(message.split()), place=at)


def _member(form: Any, at: Sequence[str | int]) -> tuple[type[BaseModel], Sequence[str | int]]:
    """Return the settings class that an error belongs to, and the keys in it: in a union it starts with kinds."""
    if isinstance(form, type):
        return form, at
    union, field = get_args(form)
    for model in get_args(union):
        if at and at[0] in get_args(model.model_fields[field.discriminator].annotation):
            return model, at[1:]
    return BaseModel, at


def _check_words(experiment: Experiment) -> None:
    table = experiment.table
    _placed("experiment.measures", lambda: parse_measures(table.measures))
    judged_alike = {str(each) for each in parse_measures(table.measures)}
    if len(judged_alike) < len(table.measures):
        raise InvalidInput("a measure is named twice", place="experiment.measures")
    systems = (*experiment.retrievers, *experiment.blends)
    if experiment.baseline not in systems:
        raise InvalidInput(_unknown("retriever or blend", experiment.baseline, systems), place="experiment.baseline")
    if experiment.answers is not None:
        for name in experiment.answers.systems:
            if not any(each.goes_by(name) for each in experiment.systems()):
                raise InvalidInput(_unknown("system", name, systems), place="answers.systems")


def _check_blend(experiment: Experiment, name: str, blend: Blend) -> None:
    place = f"blends.{name}"
    if name.lower() in {each.lower() for each in experiment.retrievers}:
        raise InvalidInput("a retriever has this name too", place=place)
    for part in blend.parts:
        if part in experiment.blends:
            raise InvalidInput(f"{part!r} is a blend itself; name the retrievers it is made of", place=f"{place}.parts")
        if part not in experiment.retrievers:
            raise InvalidInput(_unknown("retriever", part, tuple(experiment.retrievers)), place=f"{place}.parts")
    if len(set(blend.parts)) < len(blend.parts):
        raise InvalidInput("a retriever is named twice", place=f"{place}.parts")
    if blend.weights is not None and set(blend.weights) != set(blend.parts):
        raise InvalidInput(f"expected one for each of {', '.join(blend.parts)}", place=f"{place}.weights")
    _placed(place, lambda: resolve(len(blend.parts), **blend.recipe()))
    if blend.tune is None:
        return
    tune = blend.tune
    if blend.weights is not None:
        raise InvalidInput("give weights or tune them, not both", place=f"{place}.tune")
    if blend.method not in WEIGHTED:
        detail = f"{blend.method} takes no weights; expected one of {', '.join(sorted(WEIGHTED))}"
        raise InvalidInput(detail, place=f"{place}.method")
    _placed(f"{place}.tune", lambda: parse_measures([tune]))
    _placed(f"{place}.step", lambda: simplex_grid(len(blend.parts), step=blend.step))


def _placed(place: str, check: Any) -> None:
    try:
        check()
    except InvalidInput as error:
        raise InvalidInput(str(error), place=place) from None


def _conventions(preset: str, overrides: Mapping[str, Any]) -> Conventions:
    _placed("experiment.preset", lambda: build_conventions(preset))
    try:
        conventions = build_conventions(preset, **overrides)
        select_id_rule(conventions)
    except InvalidInput as error:
        raise InvalidInput(str(error), place="conventions") from None
    return conventions


def _mapping(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"found {type(value).__name__}, wanted a table", place=place)
    return value


def _unknown(what: str, word: str, known: Sequence[str]) -> str:
    near = nearest(word, known)
    hint = f"did you mean {near!r}?" if near else f"known are {', '.join(known)}" if known else "remove it"
    return f"there is no {what} {word[:80]!r}; {hint}"
