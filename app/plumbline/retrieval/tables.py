"""Comparisons as tables: plain text, Markdown, CSV, HTML."""

import csv
import html
import io
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from types import MappingProxyType

from plumbline.ground.errors import InvalidInput
from plumbline.ground.printed_lists import guard_formula
from plumbline.ground.texts import CodedText
from plumbline.retrieval.comparison import RunComparison

# Behind the point, for people
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Marked:
    """A number with the labels of the runs that it is significantly better than."""

    value: float
    beats: tuple[str, ...]


Cell = str | int | float | bool | None | Marked


@dataclass(frozen=True, slots=True)
class Table:
    """Columns by name, and rows of as many cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def comparison_table(comparisons: Sequence[RunComparison]) -> Table:
    """Build a row for each run: label (a, b, ... z, aa, ab, ...), name, and by measure its mean with marks.

    A mark names a run that this one beats: better mean, and significant after correction. Runs and measures come in
    the order in which the comparisons first name them; a baseline, which is always the second of its pair, comes first
    where every comparison of the table is with it.

    Raises InvalidInput: nothing was compared.
    """
    if not comparisons:
        raise InvalidInput(CodedText("nothing_compared"))
    seconds = {each.b for each in comparisons}
    baseline = seconds if len(seconds) == 1 else ()
    names = tuple(dict.fromkeys((*baseline, *(name for each in comparisons for name in (each.a, each.b)))))
    measures = tuple(dict.fromkeys(each.measure for each in comparisons))
    label_by_name = {name: label(place) for place, name in enumerate(names)}
    means = {(each.a, each.measure): each.mean_a for each in comparisons}
    means |= {(each.b, each.measure): each.mean_b for each in comparisons}
    beaten = find_beaten(comparisons, label_by_name)
    cells: dict[tuple[str, str], Cell] = {key: Marked(mean, beaten.get(key, ())) for key, mean in means.items()}
    rows = ((label_by_name[name], name, *(cells.get((name, each)) for each in measures)) for name in names)
    return Table(("label", "run", *measures), tuple(rows))


def find_beaten(
    comparisons: Sequence[RunComparison], label_by_name: Mapping[str, str]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return, by run and measure, the labels of the runs that it is significantly better than."""
    beaten: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for each in comparisons:
        if each.significant and each.diff != 0.0:
            winner, loser = (each.a, each.b) if each.diff > 0.0 else (each.b, each.a)
            beaten[winner, each.measure].append(label_by_name[loser])
    return {key: tuple(sorted(labels, key=lambda text: (len(text), text))) for key, labels in beaten.items()}


def pair_table(comparisons: Sequence[RunComparison]) -> Table:
    """Build a row for each comparison, with all its numbers."""
    estimates = ("measure", "a", "b", "diff", "ci95_low", "ci95_high", "p", "p_adjusted", "significant")
    columns = (*estimates, "win", "tie", "loss", "n")
    rows = tuple(
        (
            *(each.measure, each.a, each.b, each.diff, *(each.ci95 or (None, None)), each.p, each.p_adjusted),
            *(each.significant, each.win, each.tie, each.loss, each.n),
        )
        for each in comparisons
    )
    return Table(columns, rows)


def label(place: int) -> str:
    """Return the label of the run at `place` (from 0): a to z, then aa, ab and so on."""
    letters = ""
    place += 1
    while place:
        place, letter = divmod(place - 1, len(ascii_lowercase))
        letters = ascii_lowercase[letter] + letters
    return letters


def as_markdown(table: Table) -> str:
    """Format a GitHub table; names are escaped."""
    width = len(table.columns)
    lines = [
        [_markdown_text(column) for column in table.columns],
        ["---" if any(isinstance(row[place], str) for row in table.rows) else "---:" for place in range(width)],
        *([_format_cell(cell, _markdown_text, "<sup>{}</sup>") for cell in row] for row in table.rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def as_csv(table: Table) -> str:
    """Format as RFC 4180 with full precision; marks have a column `<measure> beats` of their own.

    A text that a spreadsheet would run as a formula is preceded by an apostrophe.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    is_marked = [any(isinstance(row[place], Marked) for row in table.rows) for place in range(len(table.columns))]
    header = [
        (name, f"{name} beats") if marked else (name,) for name, marked in zip(table.columns, is_marked, strict=True)
    ]
    writer.writerow([guard_formula(name) for names in header for name in names])
    for row in table.rows:
        cells = zip(row, is_marked, strict=True)
        writer.writerow([text for cell, marked in cells for text in _csv_cells(cell, is_marked=marked)])
    return buffer.getvalue()


def as_html(table: Table) -> str:
    """Format a page that stands alone, loads nothing and has no script; names are escaped."""
    head = "".join(f'<th scope="col">{_html_text(column)}</th>' for column in table.columns)
    lines = [[_format_cell(cell, _html_text, " <sup>{}</sup>") for cell in row] for row in table.rows]
    body = "".join(f"<tr>{''.join(f'<td>{text}</td>' for text in line)}</tr>\n" for line in lines)
    return f"{_HTML_HEAD}<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n</html>\n"


def as_text(table: Table) -> str:
    """Format aligned columns for a terminal; a Han character is two columns wide."""
    lines = [[_on_one_line(column) for column in table.columns]]
    lines += [[_format_cell(cell, _on_one_line, " {}") for cell in row] for row in table.rows]
    columns = list(zip(*lines, strict=True))
    widths = [max(map(_width, column)) for column in columns]
    is_text = [not all(text == "n/a" or text[0] in "-0123456789" for text in column[1:] if text) for column in columns]

    def pad(text: str, width: int, *, left: bool) -> str:
        blank = " " * (width - _width(text))
        return text + blank if left else blank + text

    return "".join(
        "  ".join(pad(text, width, left=left) for text, width, left in zip(line, widths, is_text, strict=True)).rstrip()
        + "\n"
        for line in lines
    )


# Writers by the name of their format.
TABLE_WRITERS: Mapping[str, Callable[[Table], str]] = MappingProxyType(
    {"text": as_text, "markdown": as_markdown, "csv": as_csv}
)


def _superscript(beats: Sequence[str]) -> str:
    """Join labels: those of one letter run together, as in print; longer ones need a comma."""
    return ("," if any(len(text) > 1 for text in beats) else "").join(beats)


def _plain(cell: Cell) -> str:
    match cell:
        case None:
            return "n/a"
        case bool():
            return "yes" if cell else "no"
        case float() if 0.0 < abs(cell) < 0.5 * 10.0**-_DIGITS:
            return f"{cell:.1e}"
        case float():
            return f"{cell:.{_DIGITS}f}"
        case _:
            return str(cell)


def _width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def _format_cell(cell: Cell, escape: Callable[[str], str], marks: str) -> str:
    """Format a cell; `marks` is what follows a number, with braces for the labels."""
    if isinstance(cell, Marked):
        return _plain(cell.value) + (marks.format(_superscript(cell.beats)) if cell.beats else "")
    return escape(cell) if isinstance(cell, str) else _plain(cell)


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|~&$])", r"\\\1", _on_one_line(text))


_HTML_HEAD = (
    '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>Retrieval systems</title>\n'
    "<style>:root{color-scheme:light dark}body{font:15px system-ui,sans-serif;margin:2rem;overflow-x:auto}"
    "table{border-collapse:collapse}th,td{padding:.3rem .7rem;text-align:left;border-bottom:1px solid;"
    "font-variant-numeric:tabular-nums}</style>\n"
)


def _html_text(text: str) -> str:
    return html.escape(_on_one_line(text))


def _csv_cells(cell: Cell, *, is_marked: bool) -> tuple[str, ...]:
    if isinstance(cell, Marked):
        return repr(cell.value), " ".join(cell.beats)
    text = guard_formula(cell) if isinstance(cell, str) else "" if cell is None else str(cell)
    return (text, "") if is_marked else (text,)


def _on_one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f\x85\u2028\u2029]+", " ", text)
