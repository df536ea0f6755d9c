"""What holds for tiers lexical and embedding, whatever the texts."""

from collections.abc import Sequence

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from plumbline.ground.concurrency import InlineExecutor
from plumbline.ground.errors import TierFailure
from plumbline.judging.text.scores import score
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Evidence, Judgement
from plumbline.judging.text.words import split_words
from plumbline.judging.tiers.calibration import VERBATIM_SUPPORT, load_calibrations
from plumbline.judging.tiers.embedding import EmbeddingTier
from plumbline.judging.tiers.lexical import LexicalTier
from plumbline.judging.tiers.tier import JudgeOptions
from tests.doubles.fakes import WordEncoder, case_of

CALIBRATIONS = load_calibrations(None)
LEXICAL = LexicalTier(CALIBRATIONS, InlineExecutor())

_KNOWN_EN = ("keeper", "lamp", "harbour", "storm", "rope", "tower", "gate", "burns", "guards", "carries", "1932", "40")
_OTHER_EN = ("orchard", "violin", "candle", "desert", "painter", "wolf", "sings", "melts", "borrows", "2008", "75")
_KNOWN_ZH = "大坝湖泊灯塔建成守护桥梁港口绳索"
_OTHER_ZH = "果园提琴沙漠画家狼群歌唱融化借阅"
_PIECES = (
    *_KNOWN_EN, "the", "not", "it", "。", ". ", "! ", "？", "\n", "\n\n", " ", "大坝", "建成", "，", "# ", "- ", "[1]",
    "😀", "é", "ﬁ", "Ａ", "１", "1,000", "**", '"', "|", "---", "I don't know", "我不知道",
)  # fmt: skip
_TEXTS = st.one_of(st.text(max_size=80), st.lists(st.sampled_from(_PIECES), max_size=25).map("".join))


def _sentence_en(words: Sequence[str]) -> str:
    return " ".join(["It", "was", *words]) + "."


def _words(words: Sequence[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(words), min_size=1, max_size=10).map(" ".join)


def _sentences(words: Sequence[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(words), min_size=2, max_size=10).map(_sentence_en)


def _sentences_zh(characters: str) -> st.SearchStrategy[str]:
    return st.text(characters, min_size=4, max_size=20).map(lambda text: f"{text}。")


_PASSAGES_EN = st.lists(_sentences(_KNOWN_EN), min_size=1, max_size=5)
_PASSAGES_ZH = st.lists(_sentences_zh(_KNOWN_ZH), min_size=1, max_size=5)


def _encoder_tier(model: str = "words") -> EmbeddingTier:
    return EmbeddingTier(WordEncoder(model), CALIBRATIONS, InlineExecutor(), max_windows=10_000)


def _has_grams(case: SegmentedSample) -> bool:
    """Whether each checkable sentence has two characters of words."""
    return all(len(" ".join(split_words(case.sentences[at].text).every)) > 1 for at in case.checkable)


def _supports(judgement: Judgement) -> list[float]:
    return [claim.support for claim in judgement.claims if claim.support is not None]


def _lexical_faithfulness(answer: str, contexts: Sequence[str]) -> float | None:
    try:
        scores = score(LEXICAL.judge_now(case_of(answer, *contexts)))
    except TierFailure:
        return None
    return scores.faithfulness if scores else None


@given(_TEXTS, st.lists(_TEXTS, max_size=5), st.data())
def test_the_order_of_the_contexts_does_not_change_the_lexical_score(
    answer: str, contexts: list[str], data: st.DataObject
) -> None:
    other = data.draw(st.permutations(contexts))

    assert _lexical_faithfulness(answer, contexts) == _lexical_faithfulness(answer, other)


@given(_TEXTS, st.lists(_TEXTS, max_size=3), st.integers(0, 3))
def test_with_the_answer_among_the_contexts_every_sentence_of_it_is_verbatim(
    answer: str, contexts: list[str], place: int
) -> None:
    contexts.insert(place, answer)

    case = case_of(answer, *contexts)
    assume(_has_grams(case))

    judgement = LEXICAL.judge_now(case)

    for claim in judgement.claims:
        assert claim.flags == (("verbatim",) if claim.is_checkable else ())
        assert claim.support == (VERBATIM_SUPPORT if claim.is_checkable else None)


@given(_TEXTS.filter(bool), st.lists(_TEXTS, max_size=3), st.integers(0, 3))
async def test_with_the_answer_among_the_contexts_every_sentence_is_verbatim_by_embedding(
    answer: str, contexts: list[str], place: int
) -> None:
    contexts.insert(place, answer)
    case = case_of(answer, *contexts)
    assume(case.has_context and _has_grams(case))

    judgement = await _encoder_tier().judge(case, JudgeOptions(), seconds=5.0)

    assert all(claim.flags == (("verbatim",) if claim.is_checkable else ()) for claim in judgement.claims)


@given(_TEXTS, st.lists(_TEXTS, max_size=4))
def test_a_lexical_score_is_a_share(answer: str, contexts: list[str]) -> None:
    faithfulness = _lexical_faithfulness(answer, contexts)

    assert faithfulness is None or 0.0 <= faithfulness <= VERBATIM_SUPPORT + 1e-12


@given(_TEXTS, st.lists(_TEXTS, min_size=1, max_size=4), st.sampled_from(["words", "all-MiniLM-L6-v2"]))
async def test_an_embedding_score_is_a_share(answer: str, contexts: list[str], model: str) -> None:
    case = case_of(answer, *contexts)
    assume(case.has_context and (case.language == "en" or model == "words"))

    scores = score(await _encoder_tier(model).judge(case, JudgeOptions(), seconds=5.0))

    assert scores is None or 0.0 <= scores.faithfulness <= VERBATIM_SUPPORT + 1e-12


@given(_TEXTS, st.lists(_TEXTS, min_size=1, max_size=5))
@example("Keeper: keeper.", ["Keeper.", "Keeper: keeper."])  # two windows as near, one of them verbatim
async def test_the_order_of_the_contexts_does_not_change_the_embedding_score(answer: str, contexts: list[str]) -> None:
    case, reversed_case = case_of(answer, *contexts), case_of(answer, *contexts[::-1])
    assume(case.has_context)

    forth = await _encoder_tier().judge(case, JudgeOptions(), seconds=5.0)
    back = await _encoder_tier().judge(reversed_case, JudgeOptions(), seconds=5.0)

    assert _supports(forth) == pytest.approx(_supports(back), abs=1e-5)


@given(st.one_of(_PASSAGES_EN, _PASSAGES_ZH), st.data())
def test_a_copied_sentence_is_supported_lexically(sentences: list[str], data: st.DataObject) -> None:
    answer = data.draw(st.sampled_from(sentences))

    supports = _supports(LEXICAL.judge_now(case_of(answer, "湖面很宽。The sea is wide.", " ".join(sentences))))

    assert supports
    assert set(supports) == {VERBATIM_SUPPORT}


@given(st.one_of(_PASSAGES_EN, _PASSAGES_ZH), st.data())
async def test_a_copied_sentence_is_supported_by_embedding(sentences: list[str], data: st.DataObject) -> None:
    answer = data.draw(st.sampled_from(sentences))

    judgement = await _encoder_tier().judge(
        case_of(answer, "It is dark.", " ".join(sentences)), JudgeOptions(), seconds=5.0
    )

    assert _supports(judgement)
    assert set(_supports(judgement)) == {VERBATIM_SUPPORT}


@given(st.one_of(st.tuples(_words(_OTHER_EN), _PASSAGES_EN), st.tuples(_sentences_zh(_OTHER_ZH), _PASSAGES_ZH)))
def test_a_sentence_without_a_word_of_the_contexts_has_no_lexical_support(texts: tuple[str, list[str]]) -> None:
    answer, contexts = texts

    supports = _supports(LEXICAL.judge_now(case_of(answer, *contexts)))

    assert supports
    assert all(support <= 0.1 for support in supports)


@given(
    st.one_of(
        st.tuples(_words(_OTHER_EN), st.lists(_words(_KNOWN_EN), min_size=1, max_size=5)),
        st.tuples(_sentences_zh(_OTHER_ZH), _PASSAGES_ZH),
    )
)
async def test_a_sentence_without_a_word_of_the_contexts_has_no_embedding_support(texts: tuple[str, list[str]]) -> None:
    answer, contexts = texts

    judgement = await _encoder_tier().judge(case_of(answer, *contexts), JudgeOptions(), seconds=5.0)

    assert _supports(judgement)
    assert all(support <= 0.1 for support in _supports(judgement))


def _assert_slices(evidence: Evidence, contexts: Sequence[str]) -> None:
    assert evidence.verified
    assert evidence.context is not None
    assert contexts[evidence.context][evidence.start : evidence.end] == evidence.quote


@given(_TEXTS, st.lists(_TEXTS, max_size=4))
def test_lexical_evidence_is_what_lies_at_its_offsets(answer: str, contexts: list[str]) -> None:
    try:
        judgement = LEXICAL.judge_now(case_of(answer, *contexts))
    except TierFailure:
        return

    for claim in judgement.claims:
        assert claim.support is None or 0.0 <= claim.support <= 1.0
        for evidence in claim.evidence:
            _assert_slices(evidence, contexts)


@given(_TEXTS, st.lists(_TEXTS, min_size=1, max_size=4))
async def test_embedding_evidence_is_what_lies_at_its_offsets(answer: str, contexts: list[str]) -> None:
    case = case_of(answer, *contexts)
    assume(case.has_context)

    judgement = await _encoder_tier().judge(case, JudgeOptions(), seconds=5.0)

    for claim in judgement.claims:
        assert claim.support is None or 0.0 <= claim.support <= 1.0
        for evidence in claim.evidence:
            _assert_slices(evidence, contexts)
