"""Rows of Markdown tables, read with their header: "| X10 | 1.7 l |" under "| Model | Capacity |"."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from plumbline.judging.text.blocks import TABLE_RULE
from plumbline.judging.text.segmentation import Sentence

# A longer cell is no name of a column; the bound keeps the rows' texts linear in the table's.
_MAX_HEADER_CHARACTERS = 60
_BAR = re.compile(r"(?<!\\)\|")
# "Price (EUR)": the unit goes behind the number.
_UNIT = re.compile(r"\s?[(（]([^()（）\d]{1,12})[)）]\Z")
_ENDS_IN_DIGIT = re.compile(r"\d\Z")
EMPTY_CELLS = frozenset({"", "-", "–", "—", "/", "n/a", "N/A", "无", "暂无"})


def header_positions(sentences: Sequence[Sentence]) -> frozenset[int]:
    """Return the positions of the rows that stand above a |---| rule."""
    return frozenset(
        position
        for position, (row, rule) in enumerate(pairwise(sentences))
        if row.kind == "table_row" and rule.kind == "markup" and TABLE_RULE.match(rule.text)
    )


def read_rows(
    sentences: Sequence[Sentence], header_positions: frozenset[int], name_of: Callable[[str], str] = str
) -> Mapping[int, str]:
    """Return the text of each table row by its position: its name, then each cell behind the name of its column.

    Empty cells are left out; a row without a header is its cells. `name_of` may shorten a column's name, or omit it.
    """
    texts: dict[int, str] = {}
    names: list[tuple[str, str]] = []
    for position, sentence in enumerate(sentences):
        if sentence.kind == "table_row":
            cells = split_cells(sentence.text)
            if position in header_positions:
                names = [_column(cell, name_of) for cell in cells]
                texts[position] = ", ".join(cells)
            else:
                texts[position] = _row(cells, names)
        elif position - 1 not in header_positions:
            names = []
    return texts


def split_cells(row: str) -> list[str]:
    text = row.strip().lstrip(">").strip()
    return [cell.strip() for cell in _BAR.split(text.removeprefix("|").removesuffix("|"))]


def _column(cell: str, name_of: Callable[[str], str]) -> tuple[str, str]:
    """Return the name and the unit of a column; empty strings for none."""
    if len(cell) > _MAX_HEADER_CHARACTERS:
        return "", ""
    if cell[1:2].islower():
        # No name by its capital.
        cell = cell[:1].lower() + cell[1:]
    unit = _UNIT.search(cell)
    return (name_of(cell[: unit.start()]), unit.group(1)) if unit else (name_of(cell), "")


def _row(cells: Sequence[str], names: Sequence[tuple[str, str]]) -> str:
    parts = []
    for index, cell in enumerate(cells):
        if cell in EMPTY_CELLS:
            continue
        name, unit = names[index] if index < len(names) else ("", "")
        value = f"{cell} {unit}" if unit and _ENDS_IN_DIGIT.search(cell) else cell
        # The first cell is the row's name; its column's ("Model") says nothing of it.
        parts.append(f"{name} {value}" if name and index else value)
    if len(parts) > 1:
        return f"{parts[0]}: {', '.join(parts[1:])}"
    return ", ".join(parts or cells)
