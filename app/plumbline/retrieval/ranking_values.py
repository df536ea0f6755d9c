"""Meanings of the keys, headings and columns around a ranking in an LLM's reply, and orders by rank or score."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from plumbline.ground.phrases import Phrases


class Meaning(IntEnum):
    """Role of a list by the words that stand before it; of several lists the greatest is the ranking."""

    EXCLUDED = 0
    INPUT = 1
    OTHER = 2
    LIST = 3
    ORDER = 4
    FINAL = 5


WORDS: Final = Phrases("retrieval/ranking_words")
# The first that is found decides: `irrelevant` holds `relevant`.
_MEANINGS: Final = {
    role: re.compile(WORDS.pattern(f"meanings.{role.name.lower()}"))
    for role in (Meaning.EXCLUDED, Meaning.INPUT, Meaning.FINAL, Meaning.ORDER, Meaning.LIST)
}
# Columns by their keys; ranks and distances rise, scores fall.
_KINDS: Final = {kind: re.compile(WORDS.pattern(f"columns.{kind}")) for kind in ("rank", "score", "distance")}
_FLAG_KEY: Final = re.compile(WORDS.pattern("columns.flag"))
_MOST_FOLDED: Final = 1_000
_GAP: Final = re.compile(r"[ -]+")

Blocks = list[list[str]]
# Items held equal, and numbers by their key; a number that nothing names has the key "".
Row = tuple[list[str], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Reading:
    """Items that a passage ranks: best first, those held equal in one block.

    label: the key or heading that stands before. other: the order that the passage may mean as well. is_from_zero: the
    items are positions in a reranker's answer.
    """

    blocks: Blocks
    label: str = ""
    other: Blocks | None = None
    is_from_zero: bool = False
    is_other_written: bool = False


def meaning(label: str) -> Meaning:
    text = _fold(label)
    return next((role for role, pattern in _MEANINGS.items() if pattern.search(text)), Meaning.OTHER)


def excludes(label: str) -> bool:
    """Return True if a key, heading or remark says that what it names is left out."""
    return bool(label) and _MEANINGS[Meaning.EXCLUDED].search(_fold(label)) is not None


def _fold(text: str) -> str:
    if len(text) > _MOST_FOLDED:
        # takes time quadratic in a run of combining marks
        return text.casefold()
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def key(name: str) -> str:
    """Return a key as it is compared: without case, width, marks; blanks and hyphens as underscores."""
    return _GAP.sub("_", _fold(name).strip(" *`\"':"))


def is_value_key(name: str) -> bool:
    """Return True if a column of that name holds ranks or scores."""
    return any(pattern.fullmatch(key(name)) for pattern in _KINDS.values())


def flat(blocks: Blocks) -> list[str]:
    return [item for block in blocks for item in block]


def order_rows(rows: Sequence[Row], label: str = "", *, is_written: bool = True) -> Reading:
    """Order rows by their ranks or scores, or as they are written; where two of these disagree, there are two readings.

    Numbers that nothing names are read by the label, else as scores; 1 to n, each once, may be ranks as well.
    `is_written`: the order in which the rows are written tells something.
    """
    written = [list(items) for items, _ in rows]
    unnamed = sorted(values[""] for _, values in rows if "" in values)
    labelled = next((kind for kind, pattern in _KINDS.items() if pattern.fullmatch(key(label))), None)
    could_be_ranks = unnamed == list(range(1, len(rows) + 1))
    kind_of_unnamed = "score" if labelled is None or (labelled == "rank" and not could_be_ranks) else labelled
    orders: list[Blocks] = []
    is_ranked, ordered = False, rows
    for kind, pattern in _KINDS.items():
        column = [
            (items, value)
            for items, values in ordered
            for value in [
                next((each for name, each in values.items() if pattern.fullmatch(name or kind_of_unnamed)), None)
            ]
            if value is not None
        ]
        if column and is_ranked and len(column) < len(rows):
            orders.append(written)
        elif column:
            orders.append(_sort_blocks(column, is_rising=kind != "score"))
            is_ranked = is_ranked or (kind == "rank" and len(column) == len(rows))
            if is_ranked and kind == "rank":
                ordered = [
                    rows[place] for place in sorted(range(len(rows)), key=[value for _, value in column].__getitem__)
                ]
    is_whole = labelled == "rank" and all(value.is_integer() for value in unnamed)
    if unnamed and (could_be_ranks or is_whole) and kind_of_unnamed == "score" != labelled:
        orders.append(_sort_blocks([(items, values[""]) for items, values in rows], is_rising=True))
    if is_written and not is_ranked:
        orders.append(written)
    best = orders[0] if orders else written
    other = next((each for each in orders if flat(each) != flat(best)), None)
    return Reading(best, label, other, is_other_written=other is written)


def _sort_blocks(pairs: Sequence[tuple[list[str], float]], *, is_rising: bool) -> Blocks:
    blocks: Blocks = []
    last: float | None = None
    for items, value in sorted(pairs, key=lambda pair: pair[1] if is_rising else -pair[1]):
        if value == last:
            blocks[-1] += items
        else:
            blocks.append(list(items))
        last = value
    return blocks


def read_table(rows: Sequence[Mapping[str, object]], label: str) -> Iterator[Reading]:
    """Yield the ranking of rows that name a document each, by their ranks, scores or order; and what they exclude."""
    kept, excluded = list[Row](), list[str]()
    for row in rows:
        doc_id = row_id(row)
        if doc_id is None:
            continue
        if any(str(value).strip().casefold() in _excluding_words(name) for name, value in row.items()):
            excluded.append(doc_id)
        else:
            kept.append(
                ([doc_id], {key(name): each for name, value in row.items() if (each := number(value)) is not None})
            )
    if excluded:
        yield Reading([[doc_id] for doc_id in excluded], "excluded")
    if kept:
        scored = any(_KINDS["score"].fullmatch(name) for _, values in kept for name in values)
        is_index = all(row_key(row) == "index" for row in rows if row_id(row) is not None)
        yield replace(order_rows(kept), label=label, is_from_zero=scored and is_index)


def row_id(row: Mapping[str, object]) -> str | None:
    name = row_key(row)
    return next((str(value) for own, value in row.items() if key(own) == name), None)


def row_key(row: Mapping[str, object]) -> str | None:
    keys = {key(name) for name, value in row.items() if isinstance(value, str)}
    return next((name for name in WORDS.read("columns.ids") if name in keys), None)


def number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def _excluding_words(name: str) -> set[str]:
    """Return the words under this name that exclude a row."""
    words = set(WORDS.read("columns.agreements")) if excludes(name) else set()
    return words | set(WORDS.read("columns.refusals")) if _FLAG_KEY.fullmatch(key(name)) else words
