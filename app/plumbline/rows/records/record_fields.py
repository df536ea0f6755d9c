"""Records built from a row's fields by a column map; every error names the column."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Final
from urllib.parse import urlsplit

from plumbline.ground.errors import quoted
from plumbline.ground.printed_lists import parse_text_list
from plumbline.ground.texts import CodedText
from plumbline.judging.text.sample import NO_LABELS, Passage, Sample, join_labels
from plumbline.rows.records.columns import ColumnMap
from plumbline.rows.records.conversations import parse_conversation
from plumbline.rows.records.record import (
    A_STRING,
    BadRow,
    RawRow,
    Record,
    checked_text,
    context_field,
    parse_json_text,
    parse_passage,
)

_MAX_ID_CHARACTERS: Final = 200
# The endpoint of an OpenAI batch's lines
_EVALUATIONS: Final = "/v1/evaluations"
_LIST_STARTS: Final = re.compile(r"""\[\s*+["']""")
_ROLES: Final = ("system", "user", "assistant", "tool")
_ALL_OF_ROLE: Final = ("system", "tool")
# Marks a missing field, which differs from null
_ABSENT: Final = object()


def build_record(raw: RawRow, columns: ColumnMap, *, custom_id: str) -> Record:
    """Build the record of a row with the id from `parse_custom_id`; raise BadRow with the wrong column."""
    fields = raw.fields
    if isinstance(fields, BadRow):
        raise fields
    url = fields.get("url")
    is_batch_line = isinstance(url, str) and isinstance(fields.get("body"), Mapping)
    if is_batch_line and urlsplit(str(url)).path.rstrip("/") != _EVALUATIONS:
        raise BadRow(CodedText("has_value", name="url", value=quoted(str(url))), quoted(_EVALUATIONS))
    answer = _found(fields, columns.answer)
    if "*" in columns.answer and isinstance(answer, list):
        if len(answer) > 1:
            found = CodedText("several_answers", name=str(columns.answer), count=len(answer))
            raise BadRow(found, CodedText("one_answer_a_row"))
        answer = answer[0] if answer else None
    if columns.answer == columns.contexts or isinstance(answer, list):
        return Record(raw.row, custom_id, _conversation(fields, columns), _extra(fields, columns))
    passages = _contexts(fields, columns)
    sample = Sample(
        question=_optional_text(fields, columns.question) or "",
        contexts=tuple(text for text, _ in passages),
        answer=_text(answer, columns.answer, CodedText("a_string_the_answer")),
        reference=_reference(fields, columns.reference),
        context_labels=join_labels([labels for _, labels in passages]),
    )
    return Record(raw.row, custom_id, sample, _extra(fields, columns))


def _conversation(fields: Mapping[str, object], columns: ColumnMap) -> Sample:
    """Return the sample of a row whose answer is a list of chat messages."""
    passages = () if columns.contexts == columns.answer else _contexts(fields, columns)
    given = {
        "messages": parse_json_text(_found(fields, columns.answer)),
        "contexts": [context_field(*each) for each in passages],
        "reference": _reference(fields, columns.reference),
        **{name: fields[name] for name in ("evidence_roles", "turn_contexts") if name in fields},
    }
    return parse_conversation(given)


def parse_custom_id(raw: RawRow, columns: ColumnMap) -> str:
    """Return the row's id: a string, a whole number as text, or the row number if it has none; raise BadRow."""
    if isinstance(raw.fields, BadRow):
        raise raw.fields
    value = None if columns.custom_id is None else _found(raw.fields, columns.custom_id)
    if value is None or value is _ABSENT or value == "":
        return str(raw.row)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    text = _text(value, columns.custom_id or "", CodedText("a_string_or_number_or_nothing"))
    if len(text) > _MAX_ID_CHARACTERS:
        found = CodedText("has_characters", name=str(columns.custom_id), count=len(text))
        raise BadRow(found, CodedText("at_most", limit=_MAX_ID_CHARACTERS))
    return text


def context_texts(text: str, separator: str | None = None) -> tuple[str, ...]:
    """Parse the contexts in one cell: a list as JSON or Python prints it, parts between separators, or the text itself.

    Empty text: nothing was retrieved. Parts are stripped; with a separator, what is no list is split. Raises
    ValueError: the text starts like a list of strings and is none, and there is no separator.
    """
    stripped = text.strip()
    if stripped in ("", "[]"):
        return ()
    if _LIST_STARTS.match(stripped):
        with suppress(ValueError) if separator else nullcontext():
            return parse_text_list(stripped)
    if separator:
        return tuple(part.strip() for part in text.split(separator) if part.strip())
    return (text,)


class RowNames(Collection[str]):
    """The names of a row's fields; what a path leads to in the row (`input.question`) is among them, too."""

    def __init__(self, fields: Mapping[str, object], columns: Iterable[str] = ()) -> None:
        self._fields = fields
        opened = [
            (name, inner) for name, value in fields.items() if isinstance(inner := parse_json_text(value), Mapping)
        ]
        # For people, who are shown them
        within = (f"{name}.{each}" for name, inner in opened for each in inner)
        self._names = tuple(dict.fromkeys((*columns, *fields, *within)))

    def __contains__(self, name: object) -> bool:
        return name in self._names or ("." in str(name) and _found(self._fields, str(name)) is not _ABSENT)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _found(fields: Mapping[str, object], column: str) -> object:
    value = fields.get(column, _ABSENT)
    if value is not _ABSENT or "." not in column:
        return value
    return _follow(fields, column.split("."))


def _follow(value: object, path: Sequence[str]) -> object:
    """Return what a path leads to; `*` leads to what the rest of the path finds in each item of a list, in one list."""
    for place, part in enumerate(path):
        value = parse_json_text(value)
        if part == "*" and isinstance(value, list):
            each = [_follow(item, path[place + 1 :]) for item in value]
            listed = [part for part in each if part is not _ABSENT]
            inner = [part if isinstance(part, list) else [part] for part in listed]
            return [item for part in inner for item in part] if listed else _ABSENT
        value = _step(value, part)
    return value


def _step(value: object, part: str) -> object:
    """Return what a part of a path leads to: a name, a place in a list, or a role among chat messages."""
    if isinstance(value, Mapping):
        return value.get(part, _ABSENT)
    if isinstance(value, list) and part.isdecimal():
        return value[int(part)] if int(part) < len(value) else _ABSENT
    if isinstance(value, list) and part in _ROLES and (said := _messages(value, part)):
        # The last question and answer; everything that tools returned
        return said if part in _ALL_OF_ROLE else said[-1]
    return _ABSENT


def _messages(value: list[object], role: str) -> list[object]:
    said = [
        each["content"]
        for each in value
        if isinstance(each, Mapping) and each.get("role") == role and "content" in each
    ]
    parts = [each if isinstance(each, str) else _join_parts(each) for each in said]
    return [each for each in parts if each]


def _join_parts(content: object) -> object:
    if not isinstance(content, list):
        return content
    texts = (each.get("text") for each in content if isinstance(each, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))


def _contexts(fields: Mapping[str, object], columns: ColumnMap) -> tuple[Passage, ...]:
    if not isinstance(columns.contexts, str):
        values = [(column, _found(fields, column)) for column in columns.contexts]
        texts = [_text(value, column, A_STRING) for column, value in values if value is not None]
        return tuple((text, NO_LABELS) for text in texts if text.strip())
    column, expected = columns.contexts, CodedText("a_list_of_strings")
    value = _found(fields, column)
    if isinstance(value, str) and isinstance(passages := parse_json_text(value), list):
        with suppress(BadRow):
            return tuple(parse_passage(item, column) for item in passages)
        # JSON that holds no passages is a text as any other
    if isinstance(value, str):
        try:
            listed = context_texts(_text(value, column, expected), columns.context_separator)
            return tuple((text, NO_LABELS) for text in listed)
        except ValueError:
            raise BadRow(CodedText("list_unreadable", name=column), CodedText("a_json_list")) from None
    if isinstance(value, Mapping) and value and all(isinstance(item, Mapping) for item in value.values()):
        # Passages by their ids
        value = [*value.values()]
    if isinstance(value, list):
        passages = [parse_passage(item, f"{column}[{place}]") for place, item in enumerate(value)]
        # Several steps of a workflow quote the same passage
        return tuple(dict(passages).items() if "*" in column else passages)
    return ((_text(value, column, expected), NO_LABELS),)


def _reference(fields: Mapping[str, object], column: str | None) -> str | None:
    value = None if column is None else _found(fields, column)
    if isinstance(value, list):
        return _text(value[0], f"{column}[0]", A_STRING) if value else None
    # An empty cell of a table is no answer
    return _optional_text(fields, column) or None


def _optional_text(fields: Mapping[str, object], column: str | None) -> str | None:
    value = None if column is None else _found(fields, column)
    if column and "*" in column and isinstance(value, list):
        value = next(iter(value), None)
    if column is None or value is None or value is _ABSENT:
        return None
    return _text(value, column, CodedText("a_string_or_nothing"))


def _text(value: object, column: str, expected: str) -> str:
    if value is _ABSENT:
        raise BadRow(CodedText("is_missing", name=column), expected)
    return checked_text(value, column, expected)


def _extra(fields: Mapping[str, object], columns: ColumnMap) -> Mapping[str, object]:
    """Return the fields that no column of the map is."""
    used = {columns.answer, columns.question, columns.custom_id, *columns.columns_of("contexts")}
    # The other ones of several right answers are kept as an extra
    if not isinstance(_found(fields, columns.reference or ""), list):
        used.add(columns.reference)
    return {name: value for name, value in fields.items() if name not in used}
