"""Texts into terms: what finds what."""

import sys

import pytest

from plumbline.extras.lab.keyword import Language, build_tokenizer
from plumbline.ground.errors import InvalidInput
from tests.making.cases import load_cases


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        *load_cases("keyword_terms", "a_text_gives_these_terms", inner=list),
        pytest.param("none", 'a\x00b \ud800 +-&|!(){}[]^"~*?:\\/', ["a", "b"], id="what is no letter"),
    ],
)
def test_a_text_gives_these_terms(language: Language, text: str, terms: list[str]) -> None:
    assert build_tokenizer(language)(text) == terms


def test_no_term_holds_white_space() -> None:
    assert build_tokenizer("auto")("x\u2003y\u00a0z\u3000w") == ["x", "y", "z", "w"]


def test_inflections_meet_in_one_term() -> None:
    terms = build_tokenizer("auto")

    assert terms("computing") == terms("computed") == terms("Computes")


def test_without_the_engine_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tantivy", None)

    with pytest.raises(InvalidInput, match=r'pip install "plumbline-rag\[lab\]"'):
        build_tokenizer("none")
