"""Agreement of people on labels: Krippendorff's alpha by nltk.

The first measurement imports nltk, which takes a second or two: call it off the event loop.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

_FEWEST: Final = 2


class Coefficient(NamedTuple):
    """Agreement beyond chance, at most 1; None with the reason `no_common_rows` or `one_label`.

    Where everybody gave one and the same label, chance explains all agreement.
    """

    value: float | None
    reason: str | None = None


class LabelAgreement(NamedTuple):
    """Agreement of several people on rows with two labels or more; `alpha`: Krippendorff's for nominal labels."""

    people: tuple[str, ...]
    rows: int
    alpha: Coefficient


def measure_label_agreement(labels: Iterable[tuple[str, int, int]]) -> LabelAgreement:
    """Measure the agreement of people from labels: person, row and label, one label of a person for a row."""
    label_by_person: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for person, row, label in labels:
        label_by_person[person][row] = label
    people_by_row = Counter(row for given in label_by_person.values() for row in given)
    common = [
        (person, row, label)
        for person, given in label_by_person.items()
        for row, label in given.items()
        if people_by_row[row] >= _FEWEST
    ]
    return LabelAgreement(tuple(sorted(label_by_person)), len({row for _, row, _ in common}), _alpha(common))


def _alpha(labels: list[tuple[str, int, int]]) -> Coefficient:
    if not labels:
        return Coefficient(None, "no_common_rows")
    if len({label for *_, label in labels}) < _FEWEST:
        return Coefficient(None, "one_label")
    from nltk.metrics.agreement import AnnotationTask  # noqa: PLC0415 - a second of import

    return Coefficient(float(AnnotationTask(labels).alpha()))
