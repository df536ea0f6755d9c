"""Records, the problems of bad rows, checks of single values, and passages: strings, or objects of many forms."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.phrases import load_data
from plumbline.ground.texts import CodedText
from plumbline.judging.text.sample import NO_LABELS, ContextLabels, Passage, Sample


class Record(NamedTuple):
    """One sample of a file.

    `row` counts from 0 in file order; blank lines and headers are no rows. `custom_id` is the file's, or `row` as
    text. `extra` holds the row's other fields under their own names, as the file gives them.
    """

    row: int
    custom_id: str
    sample: Sample
    extra: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class RecordProblem:
    """The problem of a bad row; `str` gives one line that quotes no passage.

    `line` is the row's first, from 1; None for Parquet. `custom_id` is None where it could not be read.
    """

    row: int
    line: int | None
    custom_id: str | None
    found: str
    expected: str

    @property
    def fault(self) -> CodedText:
        return CodedText("found_otherwise", found=self.found, expected=self.expected)

    @property
    def text(self) -> CodedText:
        if self.line is None:
            return CodedText("row_says", row=self.row, fault=self.fault)
        return CodedText("row_at_line_says", row=self.row, line=self.line, fault=self.fault)

    def __str__(self) -> str:
        return str(self.text)


class ReadPosition(NamedTuple):
    """Progress in a file: the next row, and bytes of its uncompressed text so far; 0 where a file has no text."""

    row: int = 0
    offset: int = 0


class BadRow(Exception):
    """A row that cannot be read, with what was found and expected; becomes a `RecordProblem`."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.found = found
        self.expected = expected
        self.text = CodedText("found_otherwise", found=found, expected=expected)


class RawRow(NamedTuple):
    """A row before its columns are mapped; `after` is the position behind it."""

    row: int
    line: int | None
    fields: Mapping[str, object] | BadRow
    after: ReadPosition


class RowSource(ABC):
    """The rows of one file; `columns` is None if each row names its own fields, `note` tells where they were found."""

    columns: tuple[str, ...] | None = None
    note = ""

    @abstractmethod
    def __iter__(self) -> Iterator[RawRow]:
        """Yield the rows, once."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


def check_unique(columns: Sequence[str], *, place: str) -> None:
    """Raise InvalidInput if two columns of a table have the same name."""
    for column in columns:
        if column and columns.count(column) > 1:
            raise InvalidInput(CodedText("column_repeated", name=quoted(column)), place=place)


def parse_json_text(value: object, starts: tuple[str, ...] = ("{", "[{")) -> object:
    """Return the value that a text is the JSON of, if it starts so; any other value unchanged."""
    if isinstance(value, str) and value.lstrip().startswith(starts):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


A_STRING: Final = CodedText("a_string")
A_LIST: Final = CodedText("a_list")
_KIND_BY_TYPE: Final[dict[type, str]] = {
    str: A_STRING,
    bool: CodedText("type_boolean"),
    int: CodedText("type_number"),
    float: CodedText("type_number"),
    list: A_LIST,
    dict: CodedText("type_object"),
    type(None): CodedText("type_null"),
}


def describe_type(value: object) -> str:
    """Name a value's type in words: `a string`, `a list`; a type that JSON lacks by its Python name."""
    return _KIND_BY_TYPE.get(type(value)) or f"a {type(value).__name__}"


def checked_text(value: object, name: str, expected: str) -> str:
    """Return the value if it is text that UTF-8 can hold. Raises BadRow: it is not."""
    if not isinstance(value, str):
        raise BadRow(CodedText("is_of_type", name=name, type=describe_type(value)), expected)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRow(CodedText("holds_surrogate", name=name), CodedText("text_of_utf8")) from None
    return value


def context_fields(sample: Sample) -> list[str | dict[str, str]]:
    """Return the contexts of a sample as a request has them: texts, or objects with a text and its labels."""
    return [context_field(*each) for each in sample.labelled_contexts]


def context_field(text: str, labels: ContextLabels) -> str | dict[str, str]:
    title = labels.title if labels.lead else None
    named = {"id": labels.id, "title": title, "source": labels.source, "tool": labels.tool}
    given = {name: label for name, label in named.items() if label}
    return {"text": text[labels.lead :], **given} if given else text


_NAMES: Final = load_data("rows/records/names")
_TEXT_NAMES: Final = tuple(_NAMES["passages"]["text"])
_OUR_NAMES: Final = frozenset({"text", "id", "title", "source", "tool"})
_LONGEST_LABEL: Final = 2_000
_MOST_NAMES: Final = 5


def parse_passage(item: object, name: str) -> Passage:
    """Return a passage and its labels, from a string or an object of a known form; raise BadRow at the place `name`."""
    for wrapper in _NAMES["passages"]["wrappers"]:
        if isinstance(item, Mapping) and isinstance(item.get(wrapper), Mapping):
            item, name = item[wrapper], f"{name}.{wrapper}"
    if isinstance(item, Mapping):
        names = (*_TEXT_NAMES, *_NAMES["passages"]["other_text"])
        text_name = next((each for each in names if isinstance(item.get(each), str)), None)
        if text_name is None:
            found = tuple(quoted(str(each)) for each in list(item)[:_MOST_NAMES]) or "nothing"
            wanted = CodedText("text_of_object", names=_TEXT_NAMES[:-1], last=_TEXT_NAMES[-1])
            raise BadRow(CodedText("is_object_with", name=name, found=found), wanted)
        text = checked_text(item[text_name], f"{name}.{text_name}", A_STRING)
        if text_name == "q" and isinstance(said := item.get("a"), str) and said.strip():
            # FastGPT's passages are often a question and its answer
            text = f"{text}\n{checked_text(said, f'{name}.a', A_STRING)}"
        return _label_passage(
            text, item, is_ours=name.rpartition(".")[2].startswith("contexts[") and _OUR_NAMES.issuperset(item)
        )
    return checked_text(item, name, A_STRING), NO_LABELS


def _label_passage(text: str, item: Mapping[object, object], *, is_ours: bool) -> Passage:
    """Return a passage with its labels; the title of an object as the service takes it stands before its text."""
    metadata = item.get("metadata")
    places = (item, metadata) if isinstance(metadata, Mapping) else (item,)
    label_by_name: dict[str, str] = {}
    for field, names in _NAMES["labels"].items():
        found = (place.get(name) for place in places for name in names)
        label = next((str(each) for each in found if isinstance(each, str | int) and str(each).strip()), None)
        if label is not None:
            label_by_name[field] = label[:_LONGEST_LABEL]
    title = label_by_name.get("title")
    lead = f"{title}\n\n" if is_ours and title and not text.startswith(title) else ""
    return lead + text, (ContextLabels(**label_by_name, lead=len(lead)) if label_by_name else NO_LABELS)
