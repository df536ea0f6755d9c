"""Plain BM25 beside bm25s, on the same terms and with the same k1 and b."""

from pathlib import Path

import numpy as np
import pytest

from plumbline.extras.lab.keyword import build_tokenizer
from tests.doubles.keyword_oracle import bm25s_scores, one_byte
from tests.making.keyword_cases import built

WORDS = ["wing", "wings", "flutter", "the", "of", "heat", "Flow", "flows", "naca0012", "肺癌", "检查", "CT检查", "的"]
WORDS += [f"term{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
# The engine and bm25s add the same few numbers up, one in float32.
CLOSE = 1e-5
EXACT_LENGTHS = 40


def random_texts(seed: int, count: int, longest: int) -> list[str]:
    """Texts of 0 to `longest` words, some words much more often than others."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, len(WORDS) + 1)
    shares = weights / weights.sum()
    return [" ".join(rng.choice(WORDS, size=rng.integers(longest + 1), p=shares)) for _ in range(count)]


def assert_equal_to_within_ties(texts: list[str], queries: list[str], folder: Path, *, quantised: bool) -> None:
    documents = {f"d{place:04}": text for place, text in enumerate(texts)}
    retriever = built(documents, folder, {})
    terms = build_tokenizer("auto")
    oracle = bm25s_scores([terms(text) for text in texts], [terms(query) for query in queries], quantised=quantised)

    for query, scores in zip(queries, oracle, strict=True):
        hits = retriever.search(query, len(texts))
        found = np.array([scores[int(id_[1:])] for id_, _ in hits])
        assert len(hits) == int((scores > 0).sum())
        assert [score for _, score in hits] == pytest.approx(found, rel=CLOSE)
        # In the oracle's order, too, but for what float32 cannot tell apart.
        assert (found[1:] <= found[:-1] * (1 + CLOSE)).all()


def test_texts_of_up_to_40_terms_score_as_in_bm25s(tmp_path: Path) -> None:
    # A word here gives four terms at most, in Chinese.
    texts = random_texts(1, 300, EXACT_LENGTHS // 4)

    assert_equal_to_within_ties(texts, random_texts(2, 60, 6), tmp_path, quantised=False)


def test_longer_texts_score_as_in_bm25s_with_lengths_of_one_byte(tmp_path: Path) -> None:
    texts = random_texts(3, 150, 60) + random_texts(4, 100, 1500)

    assert_equal_to_within_ties(texts, random_texts(5, 60, 6), tmp_path, quantised=True)


def test_longer_texts_do_not_score_as_in_bm25s_with_exact_lengths(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        assert_equal_to_within_ties(random_texts(3, 150, 60), random_texts(5, 60, 6), tmp_path, quantised=False)


@pytest.mark.parametrize(
    ("length", "kept"),
    # Rows of the table in tantivy's src/fieldnorm/code.rs, and what lies between them.
    [(0, 0), (23, 23), (39, 39), (40, 40), (41, 40), (42, 42), (55, 54), (56, 56), (59, 56), (95, 88), (1175, 1048)],
)
def test_a_length_of_one_byte(length: int, kept: int) -> None:
    assert one_byte(length) == kept
