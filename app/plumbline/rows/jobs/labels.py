"""Labels that people give to rows of a job: the rows that are drawn for them, and what they then tell."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile
from random import Random
from typing import Final, NamedTuple

from plumbline.judging.text.words import content_words


class Label(NamedTuple):
    """One person's label of one row: 1 faithful, 0 not, None skipped; `sentences` at fault, counted from 0."""

    row: int
    person: str
    label: int | None
    sentences: tuple[int, ...] = ()
    at: float = 0.0
    note: str = ""


def group_notes(labels: Iterable[Label]) -> list[tuple[str, list[Label]]]:
    """Return the words that two notes or more share, the most frequent first, with the labels of those notes.

    Of words that stand in the same notes, one is kept.
    """
    by_word: defaultdict[str, list[Label]] = defaultdict(list)
    for each in labels:
        for word in dict.fromkeys(content_words(each.note)):
            by_word[word].append(each)
    shared = {tuple(given): word for word, given in reversed(by_word.items()) if given[1:]}
    return sorted(((word, list(given)) for given, word in shared.items()), key=lambda group: (-len(group[1]), group[0]))


# Most rows of a run that are drawn: people label no more.
MOST_DRAWN: Final = 2_000


def draw_rows(job_id: str, total: int, *, most: int = MOST_DRAWN) -> list[int]:
    """Return rows of a run at random without replacement, the same for everybody, so that people's rows overlap."""
    return Random(job_id).sample(range(total), min(total, most))  # noqa: S311 -- no secret


def majority(labels: Iterable[Label]) -> dict[int, int]:
    """Return the label that most people gave to each row; rows with a tie are left out."""
    votes: defaultdict[int, list[int]] = defaultdict(list)
    for each in labels:
        if each.label is not None:
            votes[each.row].append(each.label)
    return {row: int(sum(given) * 2 > len(given)) for row, given in votes.items() if sum(given) * 2 != len(given)}


def drawn_labels(
    job_id: str, total: int, labels: Sequence[Label], scored: Collection[int]
) -> dict[int, tuple[int, tuple[int, ...]]]:
    """Return labels and sentences at fault of the drawn rows with a score, marked without leaving one out."""
    marked, given = {each.row for each in labels}, majority(labels)
    faults: defaultdict[int, set[int]] = defaultdict(set)
    for each in labels:
        faults[each.row].update(each.sentences)
    drawn = (row for row in draw_rows(job_id, total) if row in scored)
    in_order = takewhile(marked.__contains__, drawn)
    return {row: (given[row], tuple(sorted(faults[row]))) for row in in_order if row in given}
