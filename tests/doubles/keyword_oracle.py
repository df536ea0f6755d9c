"""BM25 by bm25s over the same terms: what the engine's plain search must say, and what its one-byte lengths change."""

from collections.abc import Sequence
from unittest import mock

import bm25s
import bm25s.scoring
import numpy as np

from plumbline.extras.lab.keyword import K1, B

# bm25s leaves out the factor k1 + 1, which every score shares.
FACTOR = K1 + 1


def one_byte(length: int) -> int:
    """A length as Lucene and tantivy keep it: exact below 24, then 24 and a float of three bits without sign."""
    exact = 24
    if length < exact:
        return length
    beyond = length - exact
    shift = max(0, beyond.bit_length() - 4)
    return exact + (beyond >> shift << shift)


def bm25s_scores(
    texts: Sequence[list[str]], queries: Sequence[list[str]], *, quantised: bool
) -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """For each query the score of every text, times k1 + 1; lengths exact, or `quantised` as the engine keeps them."""
    plain = bm25s.scoring._score_tfc_lucene

    def rounded(tf_array: object, l_d: int, **rest: object) -> object:
        return plain(tf_array, l_d=one_byte(int(l_d)), **rest)

    oracle = bm25s.BM25(method="lucene", k1=K1, b=B, dtype="float64")
    with mock.patch.object(bm25s.scoring, "_score_tfc_lucene", rounded if quantised else plain):
        oracle.index(list(texts), show_progress=False)
    known = oracle.vocab_dict
    none = np.zeros(len(texts))
    asked = [[term for term in query if term in known] for query in queries]
    return [FACTOR * oracle.get_scores(query) if query else none for query in asked]
