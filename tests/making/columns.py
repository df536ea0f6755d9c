"""Columns made from Python values."""

from collections.abc import Mapping, Sequence

import numpy as np

from plumbline.retrieval.run import WORD_BYTES, ScoreColumn, TextColumn


def text_column(texts: Sequence[str]) -> TextColumn:
    """The texts in one buffer."""
    encoded = [text.encode() for text in texts]
    lengths = np.array([len(data) for data in encoded], dtype=np.int64)
    buffer = np.frombuffer(b"".join(encoded) + bytes(WORD_BYTES), dtype=np.uint8)
    return TextColumn(buffer, np.cumsum(lengths) - lengths, lengths)


def score_column(scores: Mapping[str, float]) -> ScoreColumn:
    """Scores by document as a column."""
    documents = text_column(list(scores))
    return ScoreColumn(documents, documents.fingerprints(), np.array(list(scores.values()), dtype=np.float64))
