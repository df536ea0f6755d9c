"""Labelled answers from a file: the good rows, and one line on each bad one."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from plumbline.ground.errors import InvalidInput
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.words import normalise
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.report.labelled_rates import parse_label

_CLUSTER_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """One answer with its human label: 1 for faithful, 0 for not.

    Rows of one `cluster` (about one document) are not independent. `row` counts from 0; `given`: each person's label.
    """

    sample: Sample
    label: int
    dataset: str
    cluster: str
    row: int
    task: str = ""
    lang: str = ""
    given: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Labels:
    """The good rows in file order, and one line on each bad row, without a passage."""

    rows: tuple[LabelledRow, ...]
    problems: tuple[str, ...]


class _Other(msgspec.Struct):
    label: Any
    dataset: str | None = None
    task: str | None = None
    lang: str | None = None
    doc: str | int | None = None
    labels: Any = None


def read_labels(path: Path, *, default_dataset: str | None = None) -> Labels:
    """Read the labelled rows of a file in any format and form of rows that `plumbline score` reads.

    Fields besides those of a sample: `label`, as `parse_label` takes it; optional `dataset`, `task`, `lang` and `doc`
    (string or whole number: the cluster). Without `doc` the cluster is a hash of the normalised contexts. `labels` has
    those of several people by name. Null is like absent, other fields are ignored. Only the bad row fails.

    `default_dataset`: None: the file's stem.

    Raises InvalidInput: the file cannot be read, or no row is good; the message names the file.
    """
    rows: list[LabelledRow] = []
    problems: list[str] = []
    with RecordReader(path, has_unique_ids=False) as reader:
        for each in reader:
            if isinstance(each, RecordProblem):
                problems.append(str(each))
                continue
            try:
                rows.append(_parse_row(each, default_dataset or path.stem))
            except ValueError as error:
                problems.append(f"row {each.row}: {error}")
    if not rows:
        others = f" (and {len(problems) - 1} more bad rows)" if len(problems) > 1 else ""
        first = f"; {problems[0]}{others}" if problems else ""
        raise InvalidInput(f"holds no good row with a label{first}", place=path.name)
    return Labels(tuple(rows), tuple(problems))


def _parse_row(record: Record, default_dataset: str) -> LabelledRow:
    given = {name: value for name, value in record.extra.items() if value not in (None, "")}
    if "label" not in given:
        raise ValueError("label is missing; expected 1 (faithful) or 0 (not)")
    fields, sample = msgspec.convert(given, _Other), record.sample
    if fields.dataset is not None and not fields.dataset.strip():
        raise ValueError("dataset is empty; expected a name, or nothing")
    text = "\n".join(map(normalise, sample.contexts))
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:_CLUSTER_DIGITS]
    return LabelledRow(
        sample=Sample(sample.question, sample.contexts, sample.answer),
        label=parse_label(fields.label),
        dataset=fields.dataset or default_dataset,
        cluster=digest if fields.doc is None else str(fields.doc),
        row=record.row,
        task=fields.task or "",
        lang=fields.lang or "",
        given=_labels_by_person(fields.labels),
    )


def _labels_by_person(labels: object) -> tuple[tuple[str, int], ...]:
    """Return the labels by person as `/label` exports them; a field of that name with other values is ignored."""
    if not isinstance(labels, dict) or any(type(each) is not int or each not in (0, 1) for each in labels.values()):
        return ()
    return tuple(labels.items())
