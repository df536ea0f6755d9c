"""Mapping of a file's columns to a sample's fields: by name, by preset, or detected from the column names."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import msgspec

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.phrases import load_data
from plumbline.ground.texts import CodedText, join_texts

_MAX_COLUMNS_SHOWN: Final = 20
FIELDS: Final = ("question", "contexts", "answer", "reference", "custom_id")
_NEEDED: Final = ("contexts", "answer")
_OPTIONAL: Final = ("question", "reference", "custom_id")
# The columns of some fields, as a caller names them
NamedColumns = Mapping[str, str | tuple[str, ...]]
NONE_NAMED: Final[NamedColumns] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMap:
    """The columns of a sample's fields; a dot reads inside an object (`body.answer`). None: no such field.

    `contexts`: one column with all (a list, or text as `context_texts` parses it by `context_separator`), or several.
    """

    answer: str
    contexts: str | tuple[str, ...]
    question: str | None = None
    reference: str | None = None
    custom_id: str | None = None
    context_separator: str | None = None

    def columns_of(self, name: str) -> tuple[str, ...]:
        columns = getattr(self, name) or ()
        return (columns,) if isinstance(columns, str) else tuple(columns)

    def drop_absent(self, found: Collection[str]) -> "ColumnMap":
        question, reference, custom_id = (
            name if name and (name in found or name.partition(".")[0] in found) else None
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
    separator: str | None = None
    lacks: Mapping[str, str] = field(default_factory=dict)
    is_loose: bool = False


_READ: Final = load_data("rows/records/columns")
# `huggingface`, the last one, is guessed only where no other format fits.
_ALL: Final = msgspec.convert(_READ["presets"], tuple[ColumnPreset, ...])
# Spans, of which `TraceRows` makes rows; never guessed
_OF_TRACES: Final = msgspec.convert(_READ["traces"], tuple[ColumnPreset, ...])
TRACE_PRESETS: Final = frozenset(preset.name for preset in _OF_TRACES)
PRESETS: Final[Mapping[str, ColumnPreset]] = MappingProxyType({preset.name: preset for preset in (*_ALL, *_OF_TRACES)})


@dataclass(frozen=True, slots=True)
class ChosenColumns:
    """A column map, and one line that explains the choice."""

    map: ColumnMap
    explanation: str


def check_columns(columns: ColumnMap, found: Collection[str] | None) -> ChosenColumns:
    """Check a caller's map against the columns of a table (None: rows name their own); raise InvalidInput."""
    if found is not None:
        _check_named({name: columns.columns_of(name) for name in FIELDS}, found)
    return ChosenColumns(columns, f"columns as named: {_describe(columns)}")


def apply_preset(name: str, found: Collection[str], named: NamedColumns = NONE_NAMED) -> ChosenColumns:
    """Return the columns that a preset reads from a file, besides the `named` ones; raise InvalidInput."""
    preset = PRESETS.get(name)
    if preset is None:
        raise InvalidInput(CodedText("preset_unknown", name=quoted(name), names=tuple(PRESETS)))
    chosen = _fill(preset, found, named)
    for needed in _NEEDED:
        if needed not in chosen:
            names = " or ".join(quoted(column) for column in getattr(preset, needed))
            lacks = CodedText("preset_needs", name=name, columns=names, field=needed)
            why = [said for column, said in preset.lacks.items() if column in found]
            raise _unclear([lacks, *why], found, needed)
    return _choice(preset, chosen, found)


def detect_columns(found: Collection[str], named: NamedColumns = NONE_NAMED) -> ChosenColumns:
    """Return the columns of the preset that fits these names, `named` ones apart; raise InvalidInput."""
    marked = [
        (preset, _fill(preset, found, named)) for preset in _ALL[:-1] if all(each in found for each in preset.marks)
    ]
    fits = [(preset, chosen) for preset, chosen in marked if all(name in chosen for name in _NEEDED)]
    fitting = [each for each in fits if not each[0].is_loose] or fits[:1]
    if not fitting:
        return _choice(_ALL[-1], _guess(found, named), found)
    for name in FIELDS[:-1]:
        # The first preset of several that agree: ours
        preset_by_column = {chosen[name]: preset.name for preset, chosen in reversed(fitting) if name in chosen}
        if len(preset_by_column) > 1:
            several = [f"{quoted(str(column))} ({preset})" for column, preset in preset_by_column.items()]
            raise _ambiguous(name, several, found)
    # max takes the first of equals: ours
    preset, chosen = max(fitting, key=lambda each: len(each[1]) + len(each[0].marks))
    used = _first_parts(chosen)
    others = [column for column in _spelled(found, "answer") if column not in used]
    if others and "answer" not in named:
        # One of the two may be the correct answer
        raise _ambiguous("answer", [quoted(str(column)) for column in (chosen["answer"], *others)], found)
    return _choice(preset, chosen, found)


def _guess(found: Collection[str], named: NamedColumns) -> NamedColumns:
    """Return columns by common spellings in any case (preset `huggingface`)."""
    chosen, taken = dict(named), _first_parts(named)
    for name in FIELDS:
        present = [column for column in _spelled(found, name) if column not in taken] if name not in named else []
        if len(present) > 1 and name != "custom_id":
            raise _ambiguous(name, [*map(quoted, present)], found)
        if present:
            chosen[name] = present[0]
    missing = [name for name in _NEEDED if name not in chosen]
    if missing:
        why = {said for each in _ALL for column, said in each.lacks.items() if column in found}
        both = CodedText("both", one=missing[0], other=missing[-1]) if len(missing) > 1 else missing[0]
        raise _unclear([CodedText("no_column_for", fields=both), *sorted(why)], found, *missing)
    return chosen


def _spelled(found: Collection[str], name: str) -> list[str]:
    """Return the columns with a common spelling of a field's name, the commonest first."""
    spelled = {column.strip().lower().replace(" ", "_"): column for column in reversed([*found])}
    return [spelled[spelling] for spelling in getattr(_ALL[-1], name) if spelling in spelled]


def _fill(preset: ColumnPreset, found: Collection[str], named: NamedColumns) -> NamedColumns:
    _check_named(named, found)
    chosen, taken = dict(named), _first_parts(named)
    for name in FIELDS:
        columns = (each for each in getattr(preset, name) if each in found and each.partition(".")[0] not in taken)
        if name not in named and (column := next(columns, None)) is not None:
            chosen[name] = column
    return chosen


def _check_named(named: NamedColumns, found: Collection[str]) -> None:
    for name, columns in named.items():
        for column in (columns,) if isinstance(columns, str) else columns:
            if column not in found and column.partition(".")[0] not in found:
                lacks = CodedText("has_no_column", name=quoted(column), field=name)
                raise InvalidInput(join_texts([lacks, _list_columns(found)]))


def _first_parts(chosen: NamedColumns) -> set[str]:
    columns = ((each,) if isinstance(each, str) else each for each in chosen.values())
    return {part for each in columns for column in each for part in (column, column.partition(".")[0])}


def _choice(preset: ColumnPreset, chosen: NamedColumns, found: Collection[str]) -> ChosenColumns:
    chosen, used = dict(chosen), _first_parts(chosen)
    # Fields that the preset has no name for, by a common name
    for name in ("question", "reference"):
        common = [column for column in _spelled(found, name) if column not in used]
        if name not in chosen and common:
            chosen[name] = common[0]
    # A later row may have a field that this one lacks
    usual = {name: getattr(preset, name)[0] for name in _OPTIONAL if getattr(preset, name)}
    map_ = ColumnMap(**{**usual, **chosen}, context_separator=preset.separator)
    note = f"; {preset.note}" if preset.note else ""
    return ChosenColumns(map_, f"read as {preset.name}: {_describe(map_, chosen)}{note}")


def _describe(map_: ColumnMap, present: Iterable[str] = FIELDS) -> str:
    named = [(name, map_.columns_of(name)) for name in FIELDS if name in present]
    parts = [f"{name} from {', '.join(quoted(column) for column in columns)}" for name, columns in named if columns]
    if "custom_id" not in present or map_.custom_id is None:
        parts.append("custom_id from the row number")
    return "; ".join(parts)


def _list_columns(found: Collection[str]) -> CodedText:
    names, more = tuple(map(quoted, [*found][:_MAX_COLUMNS_SHOWN])), len(found) - _MAX_COLUMNS_SHOWN
    if more > 0:
        return CodedText("found_columns_and_more", names=names, count=more)
    return CodedText("found_columns", names=names) if found else CodedText("found_no_column")


def _ambiguous(name: str, several: Sequence[str], found: Collection[str]) -> InvalidInput:
    return _unclear([CodedText("could_be", name=name, columns=tuple(several[:-1]), last=several[-1])], found, name)


def _unclear(faults: Sequence[str], found: Collection[str], *fields: str) -> InvalidInput:
    """Return the error of columns that are not certain, with those found and how to name the right ones."""
    example = " ".join(f"--column {field}=COLUMN" for field in fields)
    return InvalidInput(join_texts([*faults, _list_columns(found), CodedText("name_columns", example=example)]))
