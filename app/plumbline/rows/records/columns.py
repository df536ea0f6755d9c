"""Mapping of a file's columns to a sample's fields: by name, by preset, or detected from the column names."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import msgspec

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.phrases import load_data

_MAX_COLUMNS_SHOWN: Final = 20
_FIELDS: Final = ("question", "contexts", "answer", "reference", "custom_id")
_NEEDED: Final = ("contexts", "answer")
_OPTIONAL: Final = ("question", "reference", "custom_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMap:
    """The columns of a sample's fields; a dot reads inside an object (`body.answer`). None: no such field.

    Args:
        contexts: one column with all contexts (a list, or text as `context_texts` parses it), or a column for each.
        context_separator: separator of the contexts in one cell, where they are not a list.
    """

    answer: str
    contexts: str | tuple[str, ...]
    question: str | None = None
    reference: str | None = None
    custom_id: str | None = None
    context_separator: str | None = None

    def columns_of(self, name: str) -> tuple[str, ...]:
        """Return the columns of a field; empty if the file has none."""
        columns = getattr(self, name) or ()
        return (columns,) if isinstance(columns, str) else tuple(columns)

    def drop_absent(self, found: Collection[str]) -> "ColumnMap":
        """Return the map with None for each optional column that is not among `found`."""
        question, reference, custom_id = (
            name if name and {name, name.partition(".")[0]} & set(found) else None
            for name in (self.question, self.reference, self.custom_id)
        )
        return replace(self, question=question, reference=reference, custom_id=custom_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPreset:
    """A known row format, as `columns.toml` describes it: the possible names of each field."""

    name: str
    answer: tuple[str, ...]
    contexts: tuple[str, ...]
    question: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    custom_id: tuple[str, ...] = ("custom_id", "id")
    marks: tuple[str, ...] = ()
    note: str = ""
    lacks: Mapping[str, str] = field(default_factory=dict)
    is_loose: bool = False

    def names_of(self, name: str) -> tuple[str, ...]:
        names: tuple[str, ...] = getattr(self, name)
        return names


# `huggingface`, the last one, is guessed only where no other format fits.
_ALL: Final = msgspec.convert(load_data("rows/records/columns")["presets"], tuple[ColumnPreset, ...])
# Spans, of which `TraceRows` makes rows; never guessed
_OF_TRACES: Final = tuple(
    ColumnPreset(
        name=name, question=("question",), contexts=("contexts",), answer=("answer",), note="one row for each trace"
    )
    for name in ("openinference", "otel_genai", "otlp")
)
TRACE_PRESETS: Final = frozenset(preset.name for preset in _OF_TRACES)
PRESETS: Final[Mapping[str, ColumnPreset]] = MappingProxyType({preset.name: preset for preset in (*_ALL, *_OF_TRACES)})


@dataclass(frozen=True, slots=True)
class ChosenColumns:
    """A column map and one line that explains the choice."""

    map: ColumnMap
    explanation: str


def check_columns(columns: ColumnMap, found: Iterable[str] | None) -> ChosenColumns:
    """Check a caller's own map against the columns of a table (None: rows name their own fields).

    Raises:
        InvalidInput: a column is not in the table.
    """
    if found is not None:
        found = list(found)
        for name in _FIELDS:
            for column in columns.columns_of(name):
                if column not in found and column.partition(".")[0] not in found:
                    raise InvalidInput(f"has no column {quoted(column)} for {name}; {_list_columns(found)}")
    return ChosenColumns(columns, f"columns as named: {_describe(columns)}")


def apply_preset(name: str, found: Iterable[str]) -> ChosenColumns:
    """Return the columns that a preset reads from a file with the columns `found`.

    Raises:
        InvalidInput: there is no such preset, or the file lacks a column that it needs.
    """
    preset = PRESETS.get(name)
    if preset is None:
        raise InvalidInput(f"there is no preset {quoted(name)}; expected one of {', '.join(PRESETS)}")
    found = list(found)
    chosen = _fill(preset, found)
    for needed in _NEEDED:
        if needed not in chosen:
            names = " or ".join(quoted(column) for column in preset.names_of(needed))
            why = "".join(f"; {said}" for column, said in preset.lacks.items() if column in found)
            raise InvalidInput(f"preset {name} needs {names} for {needed}{why}; {_list_columns(found)}; {_HOW_TO_NAME}")
    return _choice(preset, chosen)


def detect_columns(found: Iterable[str]) -> ChosenColumns:
    """Return the columns of the preset that fits these names.

    Raises:
        InvalidInput: none fits, or several do and disagree; the message lists the columns and how to name them.
    """
    found = list(found)
    marked = [(preset, _fill(preset, found)) for preset in _ALL[:-1] if set(preset.marks) <= set(found)]
    fits = [(preset, chosen) for preset, chosen in marked if all(name in chosen for name in _NEEDED)]
    fitting = [each for each in fits if not each[0].is_loose] or fits[:1]
    if not fitting:
        return _guess(found)
    _refuse_conflicts(fitting, found)
    # max takes the first of equals: ours
    return _choice(*max(fitting, key=lambda each: len(each[1]) + len(each[0].marks)))


def _guess(found: list[str]) -> ChosenColumns:
    """Return columns by common spellings in any case (preset `huggingface`)."""
    preset = _ALL[-1]
    spelled = {column.strip().lower().replace(" ", "_"): column for column in reversed(found)}
    chosen = {}
    for name in _FIELDS:
        present = [spelled[spelling] for spelling in preset.names_of(name) if spelling in spelled]
        if len(present) > 1 and name != "custom_id":
            several = " and ".join(quoted(column) for column in present)
            raise InvalidInput(f"{name} could be {several}; {_list_columns(found)}; {_HOW_TO_NAME}")
        if present:
            chosen[name] = present[0]
    missing = [name for name in _NEEDED if name not in chosen]
    if missing:
        why = {said for each in _ALL for column, said in each.lacks.items() if column in found}
        reasons = "".join(f"; {said}" for said in sorted(why))
        raise InvalidInput(
            f"no column is known for {' and '.join(missing)}{reasons}; {_list_columns(found)}; {_HOW_TO_NAME}"
        )
    return _choice(preset, chosen)


def _fill(preset: ColumnPreset, found: list[str]) -> dict[str, str]:
    pairs = ((name, next((each for each in preset.names_of(name) if each in found), None)) for name in _FIELDS)
    return {name: column for name, column in pairs if column is not None}


def _refuse_conflicts(fitting: list[tuple[ColumnPreset, dict[str, str]]], found: list[str]) -> None:
    for name in _FIELDS[:-1]:
        # The first preset of several that agree: ours
        preset_by_column = {chosen[name]: preset.name for preset, chosen in reversed(fitting) if name in chosen}
        if len(preset_by_column) > 1:
            several = " and ".join(f"{quoted(column)} ({preset})" for column, preset in preset_by_column.items())
            raise InvalidInput(f"{name} could be {several}; {_list_columns(found)}; {_HOW_TO_NAME}")


def _choice(preset: ColumnPreset, chosen: Mapping[str, str]) -> ChosenColumns:
    # A later row may have a field that this one lacks
    usual = {name: preset.names_of(name)[0] for name in _OPTIONAL if preset.names_of(name)}
    map_ = ColumnMap(**{**usual, **chosen})
    note = f"; {preset.note}" if preset.note else ""
    return ChosenColumns(map_, f"read as {preset.name}: {_describe(map_, chosen)}{note}")


def _describe(map_: ColumnMap, present: Iterable[str] = _FIELDS) -> str:
    named = [(name, map_.columns_of(name)) for name in _FIELDS if name in present]
    parts = [f"{name} from {', '.join(quoted(column) for column in columns)}" for name, columns in named if columns]
    if "custom_id" not in present or map_.custom_id is None:
        parts.append("custom_id from the row number")
    return "; ".join(parts)


def _list_columns(found: list[str]) -> str:
    names = ", ".join(quoted(column) for column in found[:_MAX_COLUMNS_SHOWN])
    more = f" and {len(found) - _MAX_COLUMNS_SHOWN} more" if len(found) > _MAX_COLUMNS_SHOWN else ""
    return f"found the columns {names}{more}" if found else "found no column"


_HOW_TO_NAME: Final = "name yours: contexts=..., answer=... (and question=, reference=, custom_id=)"
