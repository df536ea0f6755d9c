"""Agreement of people on labels: Krippendorff's alpha by nltk, and Cohen's kappa.

The first measurement imports nltk, which takes a second or two: call it off the event loop.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Final, NamedTuple

from plumbline.rows.report.labelled_rates import compute_kappa

# Pairs are as many as the square of the people; those who labelled most are paired.
_MOST_PAIRED: Final = 10
_FEWEST: Final = 2


class Coefficient(NamedTuple):
    """Agreement beyond chance, at most 1; None with the reason `no_common_rows` or `one_label`.

    Where everybody gave one and the same label, chance explains all agreement.
    """

    value: float | None
    reason: str | None = None


class PairAgreement(NamedTuple):
    """Agreement of two people on the rows that both labelled; `share` of them have the same label."""

    people: tuple[str, str]
    rows: int
    share: float
    kappa: Coefficient


class LabelAgreement(NamedTuple):
    """Agreement of several people; `rows` have labels of two of them or more.

    `alpha`: Krippendorff's for nominal labels, over these rows, whoever labelled them. `kappa`: the mean of Cohen's
    over the pairs of people (Light 1971), each on the rows that both labelled.
    """

    people: tuple[str, ...]
    rows: int
    alpha: Coefficient
    kappa: Coefficient
    pairs: tuple[PairAgreement, ...]


def measure_label_agreement(labels: Iterable[tuple[str, int, int]]) -> LabelAgreement:
    """Measure the agreement of people from labels: person, row and label, one label of a person for a row."""
    label_by_person: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for person, row, label in labels:
        label_by_person[person][row] = label
    people_by_row = Counter(row for given in label_by_person.values() for row in given)
    common = {row for row, people in people_by_row.items() if people >= _FEWEST}
    paired = sorted(sorted(label_by_person, key=lambda person: -len(label_by_person[person]))[:_MOST_PAIRED])
    pairs = tuple(filter(None, (_measure_pair(two, label_by_person) for two in combinations(paired, 2))))
    kappas = [pair.kappa.value for pair in pairs if pair.kappa.value is not None]
    missing = Coefficient(None, "one_label" if common else "no_common_rows")
    return LabelAgreement(
        people=tuple(sorted(label_by_person)),
        rows=len(common),
        alpha=_alpha(label_by_person, common),
        kappa=Coefficient(sum(kappas) / len(kappas)) if kappas else missing,
        pairs=pairs,
    )


def _measure_pair(people: tuple[str, str], labels: Mapping[str, Mapping[int, int]]) -> PairAgreement | None:
    first, second = (labels[person] for person in people)
    rows = first.keys() & second.keys()
    if not rows:
        return None
    counts: Counter[tuple[int, int]] = Counter((first[row], second[row]) for row in rows)
    kappa = compute_kappa(counts)
    missing = "one_label" if kappa is None else None
    return PairAgreement(people, len(rows), (counts[0, 0] + counts[1, 1]) / len(rows), Coefficient(kappa, missing))


def _alpha(labels: Mapping[str, Mapping[int, int]], rows: set[int]) -> Coefficient:
    kept = {person: {row: label for row, label in given.items() if row in rows} for person, given in labels.items()}
    if not rows:
        return Coefficient(None, "no_common_rows")
    if len({label for given in kept.values() for label in given.values()}) < _FEWEST:
        return Coefficient(None, "one_label")
    from nltk.metrics.agreement import AnnotationTask  # noqa: PLC0415 - a second of import

    task = AnnotationTask([(person, row, label) for person, given in kept.items() for row, label in given.items()])
    return Coefficient(float(task.alpha()))
