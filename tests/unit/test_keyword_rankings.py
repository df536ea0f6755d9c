"""Rankings that were worked out by hand, before the engine was asked.

Texts of a field are all of one length here, so that a term that occurs once scores its idf,
ln(1 + (N - n + 0.5) / (n + 0.5)), times its field's boost: BM25's (k1 + 1) tf / (tf + k1) is 1 for tf = 1, and 10/7
for tf = 2 and the k1 of 1.5 that `plain` has. n: chunks with the term in the field; a Han pair gives three terms, its
characters and itself.
"""

from collections.abc import Mapping
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from plumbline.extras.lab.retriever import Hits
from plumbline.ground.errors import InvalidInput
from tests.making.keyword_cases import Fields, built

# idf of a term in n of N chunks, as one_of_2: n = 1, N = 2.
ONE_OF_2, BOTH_OF_2 = log(2), log(1.2)
ONE_OF_4, TWO_OF_4, THREE_OF_4 = log(10 / 3), log(2), log(10 / 7)
TWICE = 10 / 7


class Case(NamedTuple):
    """A corpus, the settings, what is asked, and every chunk that is found, with its score."""

    documents: Mapping[str, Fields | str]
    settings: Mapping[str, Any]
    query: str
    hits: list[tuple[str, float]]


# `wing` stands in one title and in one text, `flutter` in both texts.
APART = {
    "a": {"title": "wing report", "text": "flutter data"},
    "b": {"title": "old report", "text": "wing flutter"},
}
APART_ZH = {"a": {"title": "机翼", "text": "颤振数据"}, "b": {"title": "报告", "text": "机翼颤振"}}
# `flow` is rare in titles (1 of 4) and less so in texts (2 of 4).
RARE_IN_TITLES = {
    "a": {"title": "flow", "text": "drag heat"},
    "b": {"title": "tail", "text": "flow heat"},
    "c": {"title": "nose", "text": "flow lift"},
    "d": {"title": "skin", "text": "lift heat"},
}
IN_BOTH = {"a": {"title": "tail", "text": "wing span"}, "b": {"title": "wing", "text": "wing span"}}
# 自 自动 动 and 驾 驾驶 驶 in both, 动驾 in b alone.
DRIVING_ZH = {"a": "驾驶自动", "b": "自动驾驶"}

CASES = {
    # All fields are one text of four terms; each term is in both.
    "plain does not see fields": Case(
        APART, {"query": "plain"}, "wing flutter", [("a", 2 * BOTH_OF_2), ("b", 2 * BOTH_OF_2)]
    ),
    # a: title `wing` (ln 2) beats text `flutter` (ln 1.2). b: text has both.
    "best fields wants the terms in one field": Case(
        APART, {"query": "best_fields"}, "wing flutter", [("b", ONE_OF_2 + BOTH_OF_2), ("a", ONE_OF_2)]
    ),
    # a: ln 2 and half of ln 1.2; b has nothing in its title.
    "best fields with half of the other field": Case(
        APART,
        {"query": "best_fields", "tie_breaker": 0.5},
        "wing flutter",
        [("b", ONE_OF_2 + BOTH_OF_2), ("a", ONE_OF_2 + BOTH_OF_2 / 2)],
    ),
    # a's title doubled: 1.386 beats b's 0.875.
    "best fields with a boost": Case(
        APART,
        {"query": "best_fields", "fields": {"title": 2, "text": 1}},
        "wing flutter",
        [("a", 2 * ONE_OF_2), ("b", ONE_OF_2 + BOTH_OF_2)],
    ),
    "best fields in one field that was asked for": Case(
        APART, {"query": "best_fields", "fields": {"title": 1}}, "wing flutter", [("a", ONE_OF_2)]
    ),
    # The first case again, in Chinese: three terms for each word. 7 terms a text, 3 a title.
    "best fields in Chinese": Case(
        APART_ZH, {"query": "best_fields"}, "机翼颤振？", [("b", 4 * ONE_OF_2 + 3 * BOTH_OF_2), ("a", 3 * ONE_OF_2)]
    ),
    "best fields of two Chinese words": Case(
        APART_ZH, {"query": "best_fields"}, "机翼 颤振", [("b", 3 * ONE_OF_2 + 3 * BOTH_OF_2), ("a", 3 * ONE_OF_2)]
    ),
    # Best fields: a title's `flow` is 1 of 4 and beats a text's `flow` (2 of 4) with `heat` (3 of 4).
    "best fields counts more what is rare in titles": Case(
        RARE_IN_TITLES,
        {"query": "best_fields"},
        "flow heat",
        [("a", ONE_OF_4), ("b", TWO_OF_4 + THREE_OF_4), ("c", TWO_OF_4), ("d", THREE_OF_4)],
    ),
    # Each term is taken where it scores best, whatever field the other one is in.
    "cross fields takes each term's best field": Case(
        APART, {"query": "cross_fields"}, "wing flutter", [("a", ONE_OF_2 + BOTH_OF_2), ("b", ONE_OF_2 + BOTH_OF_2)]
    ),
    # b's `flow` is 2 of 4 in texts, a's is 1 of 4 in titles; `heat` of a and b stands in texts.
    "cross fields adds the terms up": Case(
        RARE_IN_TITLES,
        {"query": "cross_fields"},
        "flow heat",
        [("a", ONE_OF_4 + THREE_OF_4), ("b", TWO_OF_4 + THREE_OF_4), ("c", TWO_OF_4), ("d", THREE_OF_4)],
    ),
    # Together b's `wing` is there twice (three terms each): 10/7 ln 1.2.
    "plain counts a term in two fields twice": Case(
        IN_BOTH, {"query": "plain"}, "wing", [("b", TWICE * BOTH_OF_2), ("a", BOTH_OF_2)]
    ),
    "plain in Chinese": Case(
        DRIVING_ZH, {"query": "plain"}, "自动驾", [("b", 4 * BOTH_OF_2 + ONE_OF_2), ("a", 4 * BOTH_OF_2)]
    ),
    # 肺 and 癌 in both, the pair in a alone.
    "a Chinese word beats its characters apart": Case(
        {"a": "肺癌", "b": "癌肺"}, {"query": "plain"}, "肺癌", [("a", 2 * BOTH_OF_2 + ONE_OF_2), ("b", 2 * BOTH_OF_2)]
    ),
    "one Chinese character is found in a word": Case(
        {"a": "肺癌病", "b": "肝脏病"}, {"query": "plain"}, "癌", [("a", ONE_OF_2)]
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_ranking_is_the_one_worked_out_by_hand(name: str, tmp_path: Path) -> None:
    documents, settings, query, expected = CASES[name]
    retriever = built(documents, tmp_path, {"language": "none", **settings})

    hits = retriever.search(query, 10)

    assert [id_ for id_, _ in hits] == [id_ for id_, _ in expected]
    assert [score for _, score in hits] == pytest.approx([score for _, score in expected], rel=1e-6)


@pytest.mark.parametrize(
    ("query", "found"),
    [("swept wi", ["a"]), ("wing swept", ["b"]), ("swept", ["a", "b"]), ("机翼颤", ["c"]), ("heat", []), ("wi sw", [])],
)
def test_a_phrase_prefix_finds_words_in_order_and_the_start_of_the_last(
    query: str, found: list[str], tmp_path: Path
) -> None:
    documents: dict[str, Fields | str] = {
        "a": {"title": "report", "text": "the swept wing"},
        "b": {"title": "wing swept"},
        "c": "机翼颤振",
    }

    hits = built(documents, tmp_path, {"query": "phrase_prefix"}).search(query, 5)

    assert sorted(name for name, _ in hits) == found
    assert all(np.isfinite(score) for _, score in hits)


def test_seed_1_k1_and_b_change_the_scores_as_the_formula_says(tmp_path: Path) -> None:
    # a: wing 3 times in 4 terms, b: once in 1, c: not at all, in 1; the mean length is 2, N = 3, n = 2
    documents = {"a": "wing wing wing heat", "b": "wing", "c": "flow"}
    idf = log(1 + (3 - 2 + 0.5) / (2 + 0.5))

    flat = built(documents, tmp_path / "flat", {"k1": 2.0, "b": 0.0})
    steep = built(documents, tmp_path / "steep", {"k1": 2.0, "b": 1.0})
    counted = built(documents, tmp_path / "counted", {"k1": 0.0})

    assert_hits(flat.search("wings", 5), {"a": idf * 9 / 5, "b": idf})
    # tf / (tf + k1 * length / mean length): a 3 / (3 + 4), b 1 / (1 + 1)
    assert_hits(steep.search("wings", 5), {"b": idf * 3 / 2, "a": idf * 9 / 7})
    assert_hits(counted.search("wing wing", 1), {"a": 2 * idf})
    assert flat.search("unknown", 5) == flat.search("", 5) == []


def test_chunks_without_terms_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no chunk has a term"):
        built({"a": "", "b": "the"}, tmp_path, {})


def test_both_engines_score_short_texts_alike(tmp_path: Path) -> None:
    # tantivy keeps lengths in one byte, which is exact to 40 terms; bm25s at all lengths. Its k1 is 1.2.
    rng, words = (
        np.random.default_rng(1),
        ["wing", "flutter", "the", "heat", "Flow", "naca0012", "肺癌", "CT检查", *"abcdefg"],
    )
    documents = {f"d{place:03}": " ".join(rng.choice(words, size=rng.integers(11))) for place in range(200)}
    tantivy = built(documents, tmp_path / "tantivy", {"query": "best_fields"})
    bm25s = built(documents, tmp_path / "bm25s", {"k1": 1.2})

    for query in ("wing", "flow heat a b", "肺癌 检查", "the naca c"):
        assert dict(tantivy.search(query, 200)) == pytest.approx(dict(bm25s.search(query, 200)), rel=1e-5)


def assert_hits(hits: Hits, expected: Mapping[str, float]) -> None:
    """Expect these chunks in this order."""
    assert [name for name, _ in hits] == list(expected)
    assert [score for _, score in hits] == pytest.approx(list(expected.values()))
