"""Blocks of a regular run from pyarrow's CSV reader, the quickest way, where pyarrow is installed."""

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

import numpy as np

from plumbline.retrieval.text_column import WORD_BYTES, TextColumn
from plumbline.retrieval.trec_blocks import Block
from plumbline.retrieval.trec_layout import SCORED_COLUMNS, IrregularRun, RegularText

_BLOCK_BYTES: Final = 4 * 1024 * 1024
_NAMES: Final = {
    6: ("query_id", "q0", "doc_id", "rank", "score", "tag"),
    3: ("query_id", "doc_id", "rank"),
}
_USED: Final = {6: ("query_id", "doc_id", "score"), 3: ("query_id", "doc_id", "rank")}


def arrow_blocks(text: RegularText) -> Iterator[Block] | None:
    """The blocks of a run; None when pyarrow is missing.

    Raises (when walked):
        IrregularRun: pyarrow cannot read the file, or would not read it as the line reader does.
    """
    try:
        csv, pa = importlib.import_module("pyarrow.csv"), importlib.import_module("pyarrow")
    except ImportError:
        return None
    return _blocks(text, csv, pa)


def _blocks(text: RegularText, csv: ModuleType, pa: ModuleType) -> Iterator[Block]:
    # pyarrow reads hexadecimal ranks
    if text.columns != SCORED_COLUMNS and (text.separator + b"0x" in text.data or text.separator + b"0X" in text.data):
        raise IrregularRun
    seen = 0
    try:
        for batch in _reader(text, csv, pa):
            seen += batch.num_rows
            numbers = batch.column(2).to_numpy().astype(np.float64, copy=False)
            yield Block(_texts(batch.column(0)), _texts(batch.column(1)), numbers)
    except pa.ArrowInvalid as error:
        raise IrregularRun from error
    if seen != text.rows:
        raise IrregularRun


def _reader(text: RegularText, csv: ModuleType, pa: ModuleType) -> Any:
    query_id, doc_id, number = _USED[text.columns]
    types = {query_id: pa.string(), doc_id: pa.string(), number: pa.float64() if number == "score" else pa.int64()}
    return csv.open_csv(
        pa.BufferReader(text.data),
        read_options=csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, column_names=_NAMES[text.columns]),
        parse_options=csv.ParseOptions(
            delimiter=text.separator.decode(), quote_char=False, double_quote=False, escape_char=False
        ),
        convert_options=csv.ConvertOptions(
            check_utf8=False,  # checked already
            column_types=types,
            include_columns=list(types),
            null_values=[],
            strings_can_be_null=False,
        ),
    )


def _texts(column: Any) -> TextColumn:
    """The texts of an Arrow array: int32 offsets and bytes."""
    _, offsets_buffer, bytes_buffer = column.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    end = int(offsets[-1])
    buffer = np.zeros(end + WORD_BYTES, dtype=np.uint8)
    buffer[:end] = np.frombuffer(bytes_buffer, dtype=np.uint8, count=end)
    return TextColumn(buffer, offsets[:-1], np.diff(offsets))
