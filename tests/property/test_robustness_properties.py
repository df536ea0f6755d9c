"""Whatever the text, it is read without an error."""

import re

from hypothesis import assume, given
from hypothesis import strategies as st

from plumbline.judging.text.checkable import abstains
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import context_utilization, segment
from plumbline.judging.text.words import Passage, content_words, detect_language, han_share, normalise

# Beyond the copy it turns the sense around, and then it is no copy.
_NEGATION = re.compile("no|not|nor|never|none|nothing|without|cant|[不无没未非別别]")
# Every code point there is, lone surrogates and NUL included.
_ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=120)
_FRAGMENTS = (
    "I'm sorry, ", "sorry ", "unfortunately, ", "based on the ", "according to ", "the ", "of ", "given ", "context ",
    "I cannot ", "a ", "do not ", "no information ", "in ", " ", ",", "I don't ", "there is no ", "information about ",
    "根据", "提供的", "上下文", "，", "没有", "的", "无法", "直接", "并", "未", "足够", "中", "能够",
)  # fmt: skip


@given(_ANY_TEXT)
def test_any_text_has_words_a_language_and_a_normal_form(text: str) -> None:
    words = content_words(text)

    assert all(words)
    assert detect_language(text) in ("en", "zh", "other")
    assert 0.0 <= han_share(text) <= 1.0
    assert normalise(normalise(text)) == normalise(text)
    assert isinstance(abstains(text), bool)


@given(_ANY_TEXT, st.lists(_ANY_TEXT, max_size=4))
def test_any_sample_can_be_cut_and_its_utilization_told(answer: str, contexts: list[str]) -> None:
    case = segment(Sample("", tuple(contexts), answer))

    share = context_utilization(case.sentences, case.index)

    assert share is None or 0.0 <= share <= 1.0
    assert set(case.checkable) <= set(range(len(case.sentences)))
    assert case.is_empty == (not any(sentence.kind != "markup" for sentence in case.sentences))


@given(_ANY_TEXT, _ANY_TEXT, _ANY_TEXT)
def test_a_text_between_blanks_is_contained_verbatim(before: str, part: str, after: str) -> None:
    assume(not _NEGATION.search(normalise(f"{before} {after}")))

    assert Passage(f"{before} {part} {after}").contains(part) == bool(normalise(part))


@given(st.lists(st.sampled_from(_FRAGMENTS), max_size=30).map("".join))
def test_text_made_of_the_words_of_abstentions_is_read(text: str) -> None:
    assert isinstance(abstains(text), bool)
