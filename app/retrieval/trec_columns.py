"""The fast path for runs: pyarrow reads a regular file in blocks of columns, and declines every other file."""

import importlib
import itertools
import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from app.retrieval.run import Results

_BLOCK_BYTES: Final = 8 * 1024 * 1024
_COLUMNS: Final = {
    6: ("query_id", "q0", "doc_id", "rank", "score", "tag"),
    3: ("query_id", "doc_id", "rank"),
}
_FIRST_LINE: Final = re.compile(rb"[^\r\n]*")


class _IrregularError(Exception):
    """Something that the line reader has to look at."""


def read_run_columns(data: bytes, *, max_rows: int) -> dict[str, Results] | None:
    """The results of a run from checked UTF-8 bytes; None when pyarrow is missing or the file is not regular.

    Regular: one separator, a single blank or tab, everywhere; six or three columns on every line; no comments, no
    duplicates, finite numbers, at most `max_rows` rows. A query's lines need not be together.
    """
    separator = _separator_of(data)
    if separator is None:
        return None
    try:
        csv, pa = importlib.import_module("pyarrow.csv"), importlib.import_module("pyarrow")
    except ImportError:
        return None
    try:
        batches = _batches(data, separator, csv, pa)
        if _columns_of(data, separator) == _COLUMNS[3]:
            return _ranked_lists(batches, max_rows)
        return _scores(batches, max_rows)
    except (_IrregularError, pa.ArrowInvalid):
        return None


def _columns_of(data: bytes, separator: bytes) -> tuple[str, ...] | None:
    first = _FIRST_LINE.match(data)
    return _COLUMNS.get(first[0].count(separator) + 1) if first else None


def _separator_of(data: bytes) -> bytes | None:
    """The separator of a file that both readers split alike; None otherwise."""
    first = _FIRST_LINE.match(data)
    separator = b"\t" if first and b"\t" in first[0] else b" "
    other = b" " if separator == b"\t" else b"\t"
    oddities = (
        other,
        separator * 2,
        b"\n" + separator,
        separator + b"\n",
        separator + b"\r",
        b"\n#",
        b"\v",
        b"\f",
        separator + b"0x",  # pyarrow reads hexadecimal ranks
        separator + b"0X",
    )
    if data.startswith((separator, b"#")) or data.endswith(separator) or any(oddity in data for oddity in oddities):
        return None
    # pyarrow ends a line at a lone carriage return
    if data.count(b"\r") != data.count(b"\r\n"):
        return None
    return separator if _columns_of(data, separator) else None


def _batches(data: bytes, separator: bytes, csv: Any, pa: Any) -> Iterator[Any]:
    columns = _columns_of(data, separator)
    last = "score" if columns == _COLUMNS[6] else "rank"
    read = csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, column_names=columns)
    parse = csv.ParseOptions(delimiter=separator.decode(), quote_char=False, double_quote=False, escape_char=False)
    convert = csv.ConvertOptions(
        check_utf8=False,  # checked already
        column_types={
            "query_id": pa.string(),
            "doc_id": pa.string(),
            last: pa.float64() if last == "score" else pa.int64(),
        },
        include_columns=["query_id", "doc_id", last],
        null_values=[],
        strings_can_be_null=False,
    )
    reader = csv.open_csv(pa.BufferReader(data), read_options=read, parse_options=parse, convert_options=convert)
    yield from reader


def _stretches(batches: Iterator[Any], max_rows: int) -> Iterator[tuple[str, list[str], Any]]:
    """Each stretch of lines with one query: its id, the documents and the numbers."""
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        if rows > max_rows:
            raise _IrregularError
        queries = batch.column(0).to_numpy(zero_copy_only=False)
        doc_ids = batch.column(1).to_numpy(zero_copy_only=False).tolist()
        numbers = batch.column(2).to_numpy(zero_copy_only=False)
        if not np.isfinite(numbers).all() or (queries == "").any() or "" in doc_ids:
            raise _IrregularError
        starts = [0, *(np.flatnonzero(queries[1:] != queries[:-1]) + 1).tolist(), len(queries)]
        for start, end in itertools.pairwise(starts):
            if end > start:
                yield queries[start], doc_ids[start:end], numbers[start:end]
    if rows == 0:
        raise _IrregularError


def _scores(batches: Iterator[Any], max_rows: int) -> dict[str, Results]:
    results: dict[str, dict[str, float]] = {}
    for query_id, doc_ids, scores in _stretches(batches, max_rows):
        score_by_doc = results.setdefault(query_id, {})
        expected = len(score_by_doc) + len(doc_ids)
        score_by_doc.update(zip(doc_ids, scores.tolist(), strict=True))
        if len(score_by_doc) != expected:
            raise _IrregularError
    return dict(results)


def _ranked_lists(batches: Iterator[Any], max_rows: int) -> dict[str, Results]:
    gathered: dict[str, tuple[list[str], list[int]]] = {}
    for query_id, doc_ids, ranks in _stretches(batches, max_rows):
        all_ids, all_ranks = gathered.setdefault(query_id, ([], []))
        all_ids.extend(doc_ids)
        all_ranks.extend(ranks.tolist())
    return {query_id: _in_rank_order(*columns) for query_id, columns in gathered.items()}


def _in_rank_order(doc_ids: list[str], ranks: list[int]) -> tuple[str, ...]:
    if len(set(doc_ids)) != len(doc_ids) or len(set(ranks)) != len(ranks) or min(ranks) < 0:
        raise _IrregularError
    return tuple(doc_ids[index] for index in sorted(range(len(ranks)), key=ranks.__getitem__))
