"""Texts into terms: what finds what."""

import sys

import pytest

from plumbline.extras.lab.keyword import LONGEST_WORD, Language, build_tokenizer
from plumbline.ground.errors import InvalidInput


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        pytest.param("auto", "The wings of NACA0012", ["wing", "naca", "0012"], id="stemmed, digits apart, no 'the'"),
        pytest.param("none", "The wings of it", ["the", "wings", "of", "it"], id="as written"),
        pytest.param("auto", "iPhone PyTorch", ["iphon", "pytorch"], id="a capital inside does not part a word"),
        pytest.param("none", "Smith’s wings', don’t", ["smith", "wings", "don't"], id="possessives and apostrophes"),
        pytest.param("none", "lift-drag, 1,400 rpm 3.5", ["lift", "drag", "1400", "rpm", "3.5"], id="numbers"),
        pytest.param("none", "ＡＢＣ ﬁn Straße", ["abc", "fin", "strasse"], id="NFKC and case folded"),
        pytest.param("none", "肺癌", ["肺", "肺癌", "癌"], id="characters and pairs"),
        pytest.param("none", "肺，癌", ["肺", "癌"], id="no pair over punctuation"),
        pytest.param("none", "癌", ["癌"], id="one character"),
        pytest.param("none", "做CT检", ["做", "ct", "检"], id="scripts apart"),
        pytest.param("auto", "我的车 wings", ["我", "我的", "的车", "车", "wing"], id="no function characters, stems"),
        pytest.param("zh", "我的车 wings", ["我", "我的", "的车", "车", "wings"], id="zh leaves English words"),
        pytest.param("en", "我的车 wings", ["我", "我的", "的", "的车", "车", "wing"], id="en leaves Chinese words"),
        pytest.param("auto", "to be or not to be", [], id="stop words alone"),
        pytest.param("auto", "的了", [], id="function characters alone, and their pair"),
        pytest.param("none", 'a\x00b \ud800 +-&|!(){}[]^"~*?:\\/', ["a", "b"], id="what is no letter"),
        pytest.param("auto", "", [], id="nothing"),
        pytest.param("none", "ключ クラス 한국어", ["ключ", "クラス", "한국어"], id="other scripts whole"),
    ],
)
def test_a_text_gives_these_terms(language: Language, text: str, terms: list[str]) -> None:
    assert build_tokenizer(language)(text) == terms


def test_a_word_beyond_measure_is_cut_and_no_term_holds_white_space() -> None:
    terms = build_tokenizer("auto")

    found = terms("x" * 70_000 + "\u2003y\u00a0z\u3000w")

    assert [len(term) for term in found] == [LONGEST_WORD, 1, 1, 1]


def test_inflections_meet_in_one_term() -> None:
    terms = build_tokenizer("en")

    assert terms("computing") == terms("computed") == terms("Computes")


def test_without_the_engine_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tantivy", None)

    with pytest.raises(InvalidInput, match=r'pip install "plumbline-rag\[lab\]"'):
        build_tokenizer("none")
