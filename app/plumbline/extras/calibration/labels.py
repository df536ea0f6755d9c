"""Labelled answers from a JSON Lines file: the good rows, and a report of each bad one."""

import codecs
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from plumbline.ground.errors import InvalidInput
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.words import normalise
from plumbline.rows.records.json_rows import decode_row
from plumbline.rows.records.record import BadRow, checked_text, describe_type

_MAX_SHOWN: Final = 40
_CLUSTER_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """One answer with its human label.

    `label` is 1 for faithful, 0 for not. Rows of one `cluster` (those about the same document) are not independent.
    `line` counts from 1. `task` and `lang` are empty where the file has none; `given` has the labels of each person.
    """

    sample: Sample
    label: int
    dataset: str
    cluster: str
    line: int
    task: str = ""
    lang: str = ""
    given: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LabelProblem:
    """The problem of a bad line; `str` gives one line that quotes no passage."""

    line: int
    found: str
    expected: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.found}; expected {self.expected}"


@dataclass(frozen=True, slots=True)
class Labels:
    """The good rows in file order, and a problem for each bad line."""

    rows: tuple[LabelledRow, ...]
    problems: tuple[LabelProblem, ...]


def read_labels(path: Path) -> Labels:
    """Read the labelled rows of a file; see `parse_labels`. The default dataset is the file's stem.

    Raises:
        InvalidInput: the file cannot be read, or as `parse_labels`.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", place=path.name) from error
    return parse_labels(data, name=path.name, default_dataset=path.stem)


def parse_labels(data: bytes, *, name: str, default_dataset: str) -> Labels:
    """Parse labelled rows, one JSON object a line.

    Fields: `contexts` (list of strings), `answer` (string), `label` (1 or true: faithful; 0 or false: not); optional
    `question`, `dataset`, `task`, `lang` (strings) and `doc` (string or whole number: the cluster). Without `doc` the
    cluster is a hash of the normalised contexts. `labels` has those of several people by name. Null is like absent for
    an optional field, other fields are ignored. A byte-order mark, CRLF and blank lines are fine. Only the bad line
    fails.

    Raises:
        InvalidInput: not UTF-8, or without one good row; the message names file and line.
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line_number = data.count(b"\n", 0, error.start) + 1
        raise InvalidInput("is not UTF-8; save the file as UTF-8", place=f"{name}:{line_number}") from error
    rows: list[LabelledRow] = []
    problems: list[LabelProblem] = []
    # Not splitlines: U+2028 may stand inside of a JSON string.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                rows.append(_row(line, number, default_dataset))
            except BadRow as bad:
                problems.append(LabelProblem(number, bad.found, bad.expected))
    if not rows:
        wanted = "one JSON object a line with contexts, answer and label"
        others = f" (and {len(problems) - 1} more bad lines)" if len(problems) > 1 else ""
        first = f"; {problems[0]}{others}" if problems else ""
        raise InvalidInput(f"holds no {'good ' if problems else ''}row; expected {wanted}{first}", place=name)
    return Labels(tuple(rows), tuple(problems))


def _row(line: str, number: int, default_dataset: str) -> LabelledRow:
    fields = decode_row(line.encode())
    if isinstance(fields, BadRow):
        raise fields
    contexts = _contexts(fields)
    question = _optional(fields, "question") or ""
    answer = checked_text(_required(fields, "answer", "a string"), "answer", "a string")
    label = _label(fields)
    dataset = _optional(fields, "dataset")
    if dataset is not None and not dataset.strip():
        raise BadRow("dataset is empty", "a name, or nothing")
    return LabelledRow(
        sample=Sample(question, contexts, answer),
        label=label,
        dataset=default_dataset if dataset is None else dataset,
        cluster=_cluster(fields.get("doc"), contexts),
        line=number,
        task=_optional(fields, "task") or "",
        lang=_optional(fields, "lang") or "",
        given=_given(fields.get("labels")),
    )


def _contexts(fields: Mapping[str, object]) -> tuple[str, ...]:
    expected = "a list of strings"
    value = _required(fields, "contexts", expected)
    if not isinstance(value, list):
        raise BadRow(f"contexts is {describe_type(value)}", expected)
    return tuple(checked_text(item, f"contexts[{place}]", "a string") for place, item in enumerate(value))


def _label(fields: Mapping[str, object]) -> int:
    expected = "1 or true (faithful), 0 or false (not)"
    label = _required(fields, "label", expected)
    # JSON knows no difference between 1 and 1.0.
    if isinstance(label, bool | int | float) and label in (0, 1):
        return int(label)
    text = json.dumps(label) if isinstance(label, str | bool | int | float) else describe_type(label)
    raise BadRow(f"label is {text if len(text) <= _MAX_SHOWN else f'{text[:_MAX_SHOWN]}…'}", expected)


def _given(labels: object) -> tuple[tuple[str, int], ...]:
    """Return the labels by person as `/label` exports them; a field of that name with other values is ignored."""
    if not isinstance(labels, dict) or any(type(each) is not int or each not in (0, 1) for each in labels.values()):
        return ()
    return tuple(labels.items())


def _optional(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    return None if value is None else checked_text(value, name, "a string, or nothing")


def _cluster(doc: object, contexts: Sequence[str]) -> str:
    if isinstance(doc, int) and not isinstance(doc, bool):
        return str(doc)
    named = "" if doc is None else checked_text(doc, "doc", "a string or a whole number, or nothing")
    if named:
        return named
    text = "\n".join(normalise(context) for context in contexts)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:_CLUSTER_DIGITS]


def _required(fields: Mapping[str, object], name: str, expected: str) -> object:
    if name not in fields:
        raise BadRow(f"{name} is missing", expected)
    return fields[name]
