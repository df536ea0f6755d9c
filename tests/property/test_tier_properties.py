"""What holds for tiers lexical and embedding, whatever the texts."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import assume, example, given, reject
from hypothesis import strategies as st

from plumbline.ground.concurrency import InlineExecutor
from plumbline.ground.errors import TierFailure
from plumbline.judging.text.scores import score
from plumbline.judging.text.verdicts import Judgement
from plumbline.judging.text.words import split_words
from plumbline.judging.tiers.calibration import VERBATIM_SUPPORT, load_calibrations
from plumbline.judging.tiers.embedding import EmbeddingTier
from plumbline.judging.tiers.lexical import LexicalTier
from plumbline.judging.tiers.tier import JudgeOptions, Tier
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


# A tier that was made for the example: nothing is kept from one to the next.
_TIERS = pytest.mark.parametrize("make", [lambda: LEXICAL, _encoder_tier], ids=["lexical", "embedding"])
Make = Callable[[], Tier]


async def _judge(make: Make, answer: str, contexts: Sequence[str]) -> Judgement:
    """Return what the tier says; an example that it may refuse, of another script or without a context, is left out."""
    try:
        return await make().judge(case_of(answer, *contexts), JudgeOptions(), seconds=5.0)
    except TierFailure:
        reject()


def _has_grams(answer: str) -> bool:
    """Return True if each checkable sentence has two characters of words."""
    case = case_of(answer)
    return all(len(" ".join(split_words(case.sentences[at].text).every)) > 1 for at in case.checkable)


def _supports(judgement: Judgement) -> list[float]:
    return [claim.support for claim in judgement.claims if claim.support is not None]


@_TIERS
@given(_TEXTS, st.lists(_TEXTS, min_size=1, max_size=5))
@example(answer="Keeper: keeper.", contexts=["Keeper.", "Keeper: keeper."])  # two windows as near, one verbatim
async def test_the_order_of_the_contexts_does_not_change_the_support(
    make: Make, answer: str, contexts: list[str]
) -> None:
    assume(case_of(answer, *contexts).has_context)

    forth, back = await _judge(make, answer, contexts), await _judge(make, answer, contexts[::-1])

    assert _supports(forth) == pytest.approx(_supports(back), abs=1e-5)


@_TIERS
@given(_TEXTS.filter(bool), st.lists(_TEXTS, max_size=3), st.integers(0, 3))
async def test_with_the_answer_among_the_contexts_every_sentence_of_it_is_verbatim(
    make: Make, answer: str, contexts: list[str], place: int
) -> None:
    contexts.insert(place, answer)
    assume(case_of(answer, *contexts).has_context and _has_grams(answer))

    judgement = await _judge(make, answer, contexts)

    for claim in judgement.claims:
        assert claim.flags == (("verbatim",) if claim.is_checkable else ())
        assert claim.support == (VERBATIM_SUPPORT if claim.is_checkable else None)


@_TIERS
@given(_TEXTS, st.lists(_TEXTS, min_size=1, max_size=4))
async def test_a_score_is_a_share_and_evidence_is_what_lies_at_its_offsets(
    make: Make, answer: str, contexts: list[str]
) -> None:
    assume(case_of(answer, *contexts).has_context)

    judgement = await _judge(make, answer, contexts)

    scores = score(judgement)
    assert scores is None or 0.0 <= scores.faithfulness <= VERBATIM_SUPPORT + 1e-12
    assert all(0.0 <= support <= 1.0 for support in _supports(judgement))
    for evidence in (each for claim in judgement.claims for each in claim.evidence):
        assert evidence.verified
        assert evidence.context is not None
        assert contexts[evidence.context][evidence.start : evidence.end] == evidence.quote


@_TIERS
@given(st.one_of(_PASSAGES_EN, _PASSAGES_ZH), st.data())
async def test_a_copied_sentence_is_supported(make: Make, sentences: list[str], data: st.DataObject) -> None:
    answer = data.draw(st.sampled_from(sentences))

    judgement = await _judge(make, answer, ["湖面很宽。The sea is wide.", " ".join(sentences)])

    assert set(_supports(judgement)) == {VERBATIM_SUPPORT}


@_TIERS
@given(
    st.one_of(
        st.tuples(_words(_OTHER_EN), st.lists(_words(_KNOWN_EN), min_size=1, max_size=5)),
        st.tuples(_sentences_zh(_OTHER_ZH), _PASSAGES_ZH),
    )
)
async def test_a_sentence_without_a_word_of_the_contexts_has_no_support(
    make: Make, texts: tuple[str, list[str]]
) -> None:
    judgement = await _judge(make, *texts)

    assert _supports(judgement)
    assert max(_supports(judgement)) <= 0.2
