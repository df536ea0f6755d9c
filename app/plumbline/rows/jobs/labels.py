"""Labels that people give to rows of a job: the rows that are drawn for them, and what they then tell."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from random import Random
from typing import Final, Literal, NamedTuple


class Label(NamedTuple):
    """One person's label of one row: 1 faithful, 0 not, None skipped; `sentences` at fault, counted from 0."""

    row: int
    person: str
    label: int | None
    sentences: tuple[int, ...] = ()
    at: float = 0.0


DrawOrder = Literal["random", "low"]

# Most rows of a run that are drawn: people label no more.
MOST_DRAWN: Final = 2_000
# Rows of a draw by score, whose scores are read for it.
MOST_BY_SCORE: Final = 500
# The lowest score is drawn this many times as often as the highest.
_LOWEST: Final = 4.0


class DrawnLabel(NamedTuple):
    """Label that most people gave; `weight`: 1 / the probability that the row was drawn, None if all were alike."""

    label: int
    weight: float | None
    sentences_at_fault: tuple[int, ...] = ()


def draw_rows(job_id: str, total: int, *, most: int = MOST_DRAWN) -> list[int]:
    """Return rows of a run at random without replacement, the same for everybody, so that people's rows overlap."""
    return Random(job_id).sample(range(total), min(total, most))  # noqa: S311 -- no secret


def draw_low(score_by_row: Mapping[int, float], *, seed: str) -> list[tuple[int, float]]:
    """Return all rows in an order that takes low scores more often, each with its size.

    The first n of them are a sample in which each row's probability is known: `chances` of the sizes. Sequential
    Poisson sampling (Ohlsson, Journal of Official Statistics 1998): rows ranked by a random number over their size.
    Where few answers are unfaithful their labels vary most at low scores (Zrnic & Candès 2024, arXiv 2403.03208).
    """
    ranked = sorted(score_by_row, key=lambda row: (-score_by_row[row], row))
    size_by_row = {row: 1.0 + (_LOWEST - 1.0) * (at + 0.5) / len(ranked) for at, row in enumerate(ranked)}
    random = Random(seed)  # noqa: S311 -- no secret
    number_by_row = {row: random.random() for row in sorted(size_by_row)}
    order = sorted(size_by_row, key=lambda row: number_by_row[row] / size_by_row[row])
    return [(row, size_by_row[row]) for row in order]


def chances(sizes: Sequence[float], count: int) -> list[float]:
    """Return the probability of each row to be among `count` drawn ones: in proportion to its size, 1 at most."""
    total, left, ceiling = sum(sizes), float(count), float("inf")
    for size in sorted(sizes, reverse=True):
        if left * size < total or total <= 0.0:
            break
        ceiling, total, left = size, total - size, left - 1.0
    return [1.0 if size >= ceiling else left * size / total for size in sizes]


def majority(labels: Iterable[Label]) -> dict[int, int]:
    """Return the label that most people gave to each row; rows with a tie are left out."""
    votes: defaultdict[int, list[int]] = defaultdict(list)
    for each in labels:
        if each.label is not None:
            votes[each.row].append(each.label)
    return {row: int(sum(given) * 2 > len(given)) for row, given in votes.items() if sum(given) * 2 != len(given)}


def drawn_labels(
    job_id: str, total: int, labels: Sequence[Label], score_by_row: Mapping[int, float]
) -> dict[int, DrawnLabel]:
    """Return the labels that are a sample of the run: of the rows that somebody marked without leaving one out.

    Args:
        score_by_row: of the first rows that are drawn; others have no score.

    Labels can have been given in each of the two orders: those of the order that was followed longest count.
    """
    marked, given = {each.row for each in labels}, majority(labels)
    faults: defaultdict[int, set[int]] = defaultdict(set)
    for each in labels:
        faults[each.row].update(each.sentences)
    by_row = {row: DrawnLabel(label, None, tuple(sorted(faults[row]))) for row, label in given.items()}
    drawn = [row for row in draw_rows(job_id, total) if row in score_by_row]
    first = set(draw_rows(job_id, total)[:MOST_BY_SCORE])
    some = {row: score for row, score in score_by_row.items() if row in first}
    low = draw_low(some, seed=job_id)
    alike, by_size = (list(takewhile(marked.__contains__, order)) for order in (drawn, [row for row, _ in low]))
    if len(by_size) > len(alike):
        chance_by_row = dict(
            zip((row for row, _ in low), chances([size for _, size in low], len(by_size)), strict=True)
        )
        return {row: by_row[row]._replace(weight=1.0 / chance_by_row[row]) for row in by_size if row in given}
    return {row: by_row[row] for row in alike if row in given}
