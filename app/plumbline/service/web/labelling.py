"""Labels of rows: agreement between people, lines for `plumbline calibrate` and `plumbline rate`."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from plumbline.judging.text.sample import Sample
from plumbline.rows.jobs.label_table import Label
from plumbline.rows.report.labelled_rates import cohen_kappa


class PairAgreement(NamedTuple):
    """Agreement of two people on the rows that both labelled; `kappa` is None where chance explains everything."""

    people: tuple[str, str]
    rows: int
    share: float
    kappa: float | None


def agreements(labels: Iterable[Label]) -> list[PairAgreement]:
    """Return the agreement of each two people that labelled a row in common; skipped rows do not count."""
    by_person: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for each in labels:
        if each.label is not None:
            by_person[each.person][each.row] = each.label
    found = []
    for first, second in combinations(sorted(by_person), 2):
        common = by_person[first].keys() & by_person[second].keys()
        pairs = [(by_person[first][row], by_person[second][row]) for row in sorted(common)]
        if pairs:
            share = sum(a == b for a, b in pairs) / len(pairs)
            found.append(PairAgreement((first, second), len(pairs), share, cohen_kappa(pairs)))
    return found


def labelled_line(
    sample: Sample, label: int, given: Sequence[Label], *, custom_id: str, dataset: str, weight: float | None = None
) -> bytes:
    """Return a row as `plumbline calibrate` reads it; what each person gave stands beside the label.

    Args:
        weight: 1 / the probability that the row was drawn, for `plumbline rate`; None: all were drawn alike.
    """
    row = {
        "custom_id": custom_id,
        "dataset": dataset,
        "question": sample.question,
        "contexts": list(sample.contexts),
        "answer": sample.answer,
        "label": label,
        **({} if weight is None else {"weight": weight}),
        "labels": {each.person: each.label for each in given if each.label is not None},
        "sentences_at_fault": {each.person: each.sentences for each in given if each.sentences},
    }
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"
