"""Labelled answers from a JSON Lines file: the good rows, and one line on each bad one."""

import codecs
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from plumbline.ground.errors import InvalidInput
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.words import normalise

_CLUSTER_DIGITS: Final = 16
_WANTED: Final = "one JSON object a line with contexts, answer and label"


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
class Labels:
    """The good rows in file order, and one line on each bad row, without a passage."""

    rows: tuple[LabelledRow, ...]
    problems: tuple[str, ...]


class _Line(msgspec.Struct):
    contexts: tuple[str, ...]
    answer: str
    label: bool | int | float
    question: str | None = None
    dataset: str | None = None
    task: str | None = None
    lang: str | None = None
    doc: str | int | None = None
    labels: Any = None


_DECODER: Final = msgspec.json.Decoder(_Line)


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
        InvalidInput: no row is good; the message names the file.
    """
    rows: list[LabelledRow] = []
    problems: list[str] = []
    for number, line in enumerate(data.removeprefix(codecs.BOM_UTF8).split(b"\n"), 1):
        if line.strip():
            try:
                rows.append(_parse_row(line, number, default_dataset))
            except (ValueError, RecursionError) as error:
                problems.append(f"line {number}: {error or 'too deep'}")
    if not rows:
        others = f" (and {len(problems) - 1} more bad lines)" if len(problems) > 1 else ""
        first = f"; {problems[0]}{others}" if problems else ""
        raise InvalidInput(f"holds no {'good ' if problems else ''}row; expected {_WANTED}{first}", place=name)
    return Labels(tuple(rows), tuple(problems))


def _parse_row(line: bytes, number: int, default_dataset: str) -> LabelledRow:
    fields = _DECODER.decode(line)
    if fields.label not in (0, 1):
        raise ValueError(f"label is {fields.label}; expected 1 or true (faithful), 0 or false (not)")
    if fields.dataset is not None and not fields.dataset.strip():
        raise ValueError("dataset is empty; expected a name, or nothing")
    text = "\n".join(map(normalise, fields.contexts))
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:_CLUSTER_DIGITS]
    return LabelledRow(
        sample=Sample(fields.question or "", fields.contexts, fields.answer),
        label=int(fields.label),
        dataset=fields.dataset or default_dataset,
        cluster=digest if fields.doc in (None, "") else str(fields.doc),
        line=number,
        task=fields.task or "",
        lang=fields.lang or "",
        given=_labels_by_person(fields.labels),
    )


def _labels_by_person(labels: object) -> tuple[tuple[str, int], ...]:
    """Return the labels by person as `/label` exports them; a field of that name with other values is ignored."""
    if not isinstance(labels, dict) or any(type(each) is not int or each not in (0, 1) for each in labels.values()):
        return ()
    return tuple(labels.items())
