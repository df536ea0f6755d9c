"""TREC's files: judgments and runs read line by line; errors name the line, and nothing is skipped silently.

A line that is blank, or whose first character is `#`, is a comment. Blanks are ASCII white space, as in C's isspace.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, Final

import numpy as np

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.texts import CodedText
from plumbline.retrieval.run import Results, Run, ScoreColumn
from plumbline.retrieval.text_file import ReadLimits, file_error, numbered_lines

_QRELS_FORM: Final = "'query_id 0 doc_id relevance'"
_RUN_FORM: Final = "'query_id Q0 doc_id rank score tag'"
_RANKED_FORM: Final = "'query_id doc_id rank'"
_QRELS_FIELDS: Final = 4
_RUN_FIELDS: Final = 6
_TRIPLE_FIELDS: Final = 3
_COLUMNS: Final = ("query", "Q0", "document", "rank", "score", "tag")
# Below, pyarrow takes longer to import than the lines to read.
_FEWEST_BYTES: Final = 4_000_000
_BLOCK_BYTES: Final = 1_048_576
# Queries with fewer documents are read sooner line by line.
_FEWEST_TOGETHER: Final = 16
# It stays in the processor's cache.
_SCAN_BYTES: Final = 262_144
_LARGEST_BLANK: Final = 32

_Row = tuple[int, list[bytes]]


def columns_of(
    data: bytes, *, name: str, limits: ReadLimits, are_judgments: bool
) -> Iterator[tuple[int, list[str]]] | None:
    """Yield line number and `query_id doc_id relevance` or `query_id doc_id rank`; None for a run with scores.

    Judgments have four columns `query_id 0 doc_id relevance`, of which the second is not read, as in trec_eval; a run
    without scores has MS MARCO's three. The first line decides; the others are held against it.

    Raises InvalidInput: names the file and the line.
    """
    rows = _rows(data, name, limits)
    first = next(rows, None)
    if first is None:
        of_run = CodedText("holds_no_row_of", form=_RUN_FORM)
        raise file_error(CodedText("holds_no_judgment_of", form=_QRELS_FORM) if are_judgments else of_run, name)
    found = len(first[1])
    if not are_judgments and found >= _RUN_FIELDS:
        return None
    size, form = (_QRELS_FIELDS, _QRELS_FORM) if are_judgments else (_TRIPLE_FIELDS, _RANKED_FORM)
    if found != size:
        fields = CodedText("fields", count=size, form=form)
        if not are_judgments:
            fields = CodedText("fields_or", fields=CodedText("fields", count=_RUN_FIELDS, form=_RUN_FORM), other=fields)
        flaw = CodedText("fields_expected", fields=fields, found=found)
        if found in (_RUN_FIELDS, _QRELS_FIELDS):
            that = CodedText("that_is_run") if found == _RUN_FIELDS else CodedText("that_is_judgments")
            flaw = CodedText("files_swapped", flaw=flaw, that=that)
        raise file_error(flaw, name, first[0])
    return _equal_columns(chain([first], rows), name, size, form)


def _equal_columns(rows: Iterable[_Row], name: str, size: int, form: str) -> Iterator[tuple[int, list[str]]]:
    for line_number, fields in rows:
        if len(fields) != size:
            raise _miscounted(fields, size, form, name, line_number)
        yield line_number, [fields[0].decode(), fields[-2].decode(), fields[-1].decode()]


def read_run(data: bytes, *, name: str, limits: ReadLimits) -> Run:
    """Read a run from six columns `query_id Q0 doc_id rank score tag`, of which Q0, rank and tag are not read.

    A seventh column is ignored, as in trec_eval.

    Raises InvalidInput: names the file and the line.
    """
    plain = None
    if len(data) >= _FEWEST_BYTES:
        with suppress(ImportError):
            plain = _read_columns(data, limits)
    return Run(name, _scores(_rows(data, name, limits), name) if plain is None else plain)


def _read_columns(data: bytes, limits: ReadLimits) -> dict[str, ScoreColumn] | None:
    """Read a run of six fields a line with one sign between them; None for what only the reader of lines may judge.

    It refuses nothing and decides nothing: comments, blank lines, seven fields, few documents a query, and whatever may
    be wrong are none of its own. Raises ImportError: pyarrow, an extra, is not installed.
    """
    import pyarrow as arrow  # noqa: PLC0415
    from pyarrow import compute  # noqa: PLC0415
    from pyarrow import csv as files  # noqa: PLC0415

    sign = b"\t" if b"\t" in data[: data.find(b"\n")] else b" "
    # pyarrow ends lines at \r, too
    if b"\r" in data or data.endswith(sign):
        return None
    blanks = int(not data.endswith(b"\n"))
    text = np.frombuffer(data, dtype=np.uint8)
    for start in range(0, len(text), _SCAN_BYTES):
        is_blank = text[start : start + _SCAN_BYTES + 1] <= _LARGEST_BLANK
        blanks += int(np.count_nonzero(is_blank[:_SCAN_BYTES]))
        if (is_blank[1:] & is_blank[:-1]).any():
            return None
    types = {"query": arrow.binary(), "document": arrow.binary(), "score": arrow.float64()}
    parts = defaultdict[bytes, list[tuple[Any, Any]]](list)
    rows = stretches = 0
    try:
        blocks = files.open_csv(
            arrow.py_buffer(data),
            files.ReadOptions(column_names=_COLUMNS, use_threads=False, block_size=_BLOCK_BYTES),
            files.ParseOptions(delimiter=sign.decode(), quote_char=False),
            files.ConvertOptions(check_utf8=False, null_values=[], column_types=types, include_columns=list(types)),
        )
        for queries, documents, scores in (block.columns for block in blocks):
            encoded, start = compute.run_end_encode(queries), 0
            rows, stretches = rows + len(queries), stretches + len(encoded.values)
            if not compute.all(compute.is_finite(scores)).as_py() or stretches * _FEWEST_TOGETHER > rows:
                return None
            for query, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
                parts[query].append((documents[start:end], scores[start:end]))
                start = end
        columns = {
            query: own[0] if len(own) == 1 else (*map(arrow.concat_arrays, zip(*own, strict=True)),)
            for query, own in parts.items()
        }
    except arrow.ArrowInvalid:
        return None
    is_plain = rows <= limits.max_rows and blanks == rows * _RUN_FIELDS
    is_plain = is_plain and not any(query.startswith(b"#") or not query for query in columns)
    if not is_plain or any(len(compute.unique(documents)) < len(documents) for documents, _ in columns.values()):
        return None
    return {query.decode(): ScoreColumn(documents, scores.to_numpy()) for query, (documents, scores) in columns.items()}


def format_run(run: Run) -> Iterator[str]:
    """Yield the lines of a run with scores, as its mappings are ordered; a query without documents has none."""
    for query_id, results in run.results.items():
        for rank, (doc_id, score) in enumerate(results.items() if isinstance(results, Mapping) else (), start=1):
            yield f"{query_id} Q0 {doc_id} {rank} {score!r} {run.name}\n"


def is_comment(line: bytes) -> bool:
    """Return True for a line that is blank, or whose first character is `#`."""
    return line.startswith(b"#") or not line.strip()


def _rows(data: bytes, name: str, limits: ReadLimits) -> Iterator[_Row]:
    count = 0
    for line_number, line in numbered_lines(data):
        fields = line.split()
        if not fields or line.startswith(b"#"):
            continue
        count += 1
        if count > limits.max_rows:
            raise file_error(CodedText("too_many_rows", limit=limits.max_rows), name, line_number)
        yield line_number, fields


def _scores(rows: Iterable[_Row], name: str) -> dict[str, Results]:
    results: dict[str, Results] = {}
    current, scores = b"", dict[str, float]()
    for line_number, fields in rows:
        if len(fields) < _RUN_FIELDS:
            raise _miscounted(fields, _RUN_FIELDS, _RUN_FORM, name, line_number)
        if fields[0] != current:
            current = fields[0]
            scores = results.setdefault(current.decode(), {})  # type: ignore[assignment]  # only dicts go in
        doc_id = fields[2].decode()
        if doc_id in scores:
            detail = CodedText("listed_twice", name=quoted(doc_id), query=quoted(current))
            raise file_error(detail, name, line_number)
        scores[doc_id] = _score(fields[4], name, line_number)
    return results


def _score(field: bytes, name: str, line_number: int) -> float:
    try:
        value = float(field)
    except ValueError:
        value = math.nan
    # Python reads 1_0 as 10; no other reader of these files does.
    if not math.isfinite(value) or b"_" in field:
        raise file_error(CodedText("cell_not_finite", name="score", value=quoted(field)), name, line_number)
    return value


def _miscounted(found: list[bytes], size: int, form: str, name: str, line_number: int) -> InvalidInput:
    fields = CodedText("fields", count=size, form=form)
    return file_error(CodedText("fields_expected", fields=fields, found=len(found)), name, line_number)
