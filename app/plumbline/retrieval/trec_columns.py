"""Regular runs as columns: blocks of lines come from pyarrow or from numpy, and no text is made before it is needed."""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from plumbline.retrieval.run import Results
from plumbline.retrieval.score_column import ScoreColumn
from plumbline.retrieval.text_column import TextColumn, joined
from plumbline.retrieval.trec_arrow import arrow_blocks
from plumbline.retrieval.trec_blocks import Block, split_blocks
from plumbline.retrieval.trec_layout import SCORED_COLUMNS, IrregularRun, RegularText

# Many queries with few documents each are read sooner line by line.
_MIN_ROWS_PER_STRETCH: Final = 16
_FREE_STRETCHES: Final = 1_000
# Below, a dictionary is smaller and quicker.
_MIN_COLUMN: Final = 32
# Ids are read eight bytes at a time, all rows at once; nobody's are longer than a web address.
_MAX_ID_BYTES: Final = 1_024
_HALF: Final = np.uint64(32)


class _Stretch(NamedTuple):
    """Neighbouring lines of one query."""

    documents: TextColumn
    fingerprints: npt.NDArray[np.uint64]
    numbers: npt.NDArray[np.float64]


def read_run_columns(text: RegularText, *, with_arrow: bool = True) -> dict[str, Results] | None:
    """The results of a run, as the line reader gives them; None when it has to look at the lines.

    A query's lines need not be together. `with_arrow`: use pyarrow where it is installed.
    """
    try:
        blocks = (arrow_blocks(text) if with_arrow else None) or split_blocks(text)
        stretches: defaultdict[str, list[_Stretch]] = defaultdict(list)
        for block in blocks:
            for query_id, stretch in _stretches(block):
                stretches[query_id].append(stretch)
        gather = _scores if text.columns == SCORED_COLUMNS else _ranked_list
        return {query_id: gather(found) for query_id, found in stretches.items()}
    except IrregularRun:
        return None


def _stretches(block: Block) -> Iterator[tuple[str, _Stretch]]:
    rows = len(block.documents)
    if max(block.query_ids.lengths.max(initial=0), block.documents.lengths.max(initial=0)) > _MAX_ID_BYTES:
        raise IrregularRun
    starts = [0, *block.query_ids.changes().tolist()]
    if not np.isfinite(block.numbers).all() or (len(starts) - _FREE_STRETCHES) * _MIN_ROWS_PER_STRETCH > rows:
        raise IrregularRun
    fingerprints = block.documents.fingerprints()
    for start, end in itertools.pairwise([*starts, rows]):
        query_id = block.query_ids[start]
        if query_id.startswith("#"):  # a comment of six words
            raise IrregularRun
        yield (
            query_id,
            _Stretch(block.documents.between(start, end), fingerprints[start:end], block.numbers[start:end]),
        )


def _gathered(stretches: list[_Stretch]) -> _Stretch:
    if len(stretches) == 1:
        return stretches[0]
    documents, fingerprints, numbers = zip(*stretches, strict=True)
    return _Stretch(joined(documents), np.concatenate(fingerprints), np.concatenate(numbers))


def _scores(stretches: list[_Stretch]) -> Results:
    documents, fingerprints, numbers = _gathered(stretches)
    if len(numbers) < _MIN_COLUMN:
        by_document = dict(zip(documents.texts(), numbers.tolist(), strict=True))
        if len(by_document) < len(numbers):
            raise IrregularRun
        return by_document
    # half of a fingerprint says nearly as much and is sorted in half the time
    if _repeats(np.sort((fingerprints >> _HALF).astype(np.uint32))) and len(set(documents.texts())) < len(documents):
        raise IrregularRun
    return ScoreColumn(documents, fingerprints, numbers)


def _ranked_list(stretches: list[_Stretch]) -> Results:
    documents, _, ranks = _gathered(stretches)
    by_rank = np.argsort(ranks, kind="stable")
    ranked = documents.texts(by_rank)
    if ranks[by_rank[0]] < 0 or _repeats(ranks[by_rank]) or len(set(ranked)) < len(ranked):
        raise IrregularRun
    return tuple(ranked)


def _repeats(ordered: npt.NDArray[np.uint32] | npt.NDArray[np.float64]) -> bool:
    return bool((ordered[1:] == ordered[:-1]).any())
