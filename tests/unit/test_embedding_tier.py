"""Tier embedding with bags of words for vectors, so that every cosine can be calculated by hand."""

import pytest

from app.errors import FailureReason, TierFailure
from app.generation.verdicts import Judgement, Verdict
from app.judges.calibration import CalibrationTable, load_calibrations
from app.judges.embedding import EmbeddingTier
from app.judges.tier import Ask
from tests.fakes import BagOfWordsEncoder, InlineExecutor, case_of

MINILM = "all-MiniLM-L6-v2"


def _tier(encoder: BagOfWordsEncoder | None = None, *, max_windows: int = 100) -> EmbeddingTier:
    return EmbeddingTier(
        encoder or BagOfWordsEncoder(), CalibrationTable(()), InlineExecutor(), max_windows=max_windows
    )


async def _judge(answer: str, *contexts: str, tier: EmbeddingTier | None = None) -> Judgement:
    return await (tier or _tier()).judge(case_of(answer, *contexts), Ask(), seconds=5.0)


async def test_the_cosine_with_the_best_window_goes_through_the_calibration() -> None:
    case = case_of("Burns lamp.", "Lamp burns red bright.", "Orwin fishes.")

    comparison = await _tier().compare(case, seconds=5.0)
    (claim,) = (await _tier().judge(case, Ask(), seconds=5.0)).claims

    # 2 words in common, sqrt(2 * 4) = 2.828: cosine 0.70711. Default curve: 1 / (1 + e^(-8 * 0.20711)) = 0.83984.
    assert comparison.match_by_position[0].cosine == pytest.approx(0.70711, abs=1e-5)
    assert claim.support == pytest.approx(0.83984, abs=1e-4)
    assert claim.verdict is Verdict.SUPPORTED


async def test_two_neighbouring_sentences_support_a_claim_that_joins_them() -> None:
    case = case_of("Lamp burns keeper sleeps.", "Lamp burns. Keeper sleeps.")

    comparison = await _tier().compare(case, seconds=5.0)

    # Either sentence alone: 2 / sqrt(4 * 2) = 0.707; both together hold the same four words.
    assert comparison.match_by_position[0].cosine == pytest.approx(1.0)
    assert comparison.match_by_position[0].window.text == "Lamp burns. Keeper sleeps."


async def test_the_evidence_is_the_best_window_at_its_offsets() -> None:
    contexts = ("😀 Orwin fishes.", "We sleep. The lamp burns bright.")

    (claim,) = (await _judge("Lamp burns bright red.", *contexts)).claims

    (evidence,) = claim.evidence
    assert (evidence.context, evidence.quote, evidence.verified) == (1, "The lamp burns bright.", True)
    assert contexts[1][evidence.start : evidence.end] == evidence.quote


async def test_a_copied_sentence_is_verbatim() -> None:
    (claim,) = (await _judge("The lamp burns.", "Orwin fishes. The lamp burns.")).claims

    assert (claim.support, claim.flags) == (0.98, ("verbatim",))


async def test_the_same_words_in_another_order_are_not_verbatim() -> None:
    (claim,) = (await _judge("Orwin beats Keld.", "Keld beats Orwin.")).claims

    # Cosine 1: 1 / (1 + e^-4).
    assert claim.flags == ()
    assert claim.support == 0.98


@pytest.mark.parametrize(
    "contexts", [("Orwin beats Keld.", "Keld beats Orwin."), ("Keld beats Orwin.", "Orwin beats Keld.")]
)
async def test_of_two_windows_as_near_the_verbatim_one_counts_in_any_order(contexts: tuple[str, str]) -> None:
    (claim,) = (await _judge("Orwin beats Keld.", *contexts)).claims

    assert claim.flags == ("verbatim",)
    assert claim.support == 0.98


async def test_a_copied_sentence_longer_than_a_window_is_verbatim() -> None:
    sentence = "The keeper " + "walks the long grey wall and " * 40 + "sleeps."
    tier = EmbeddingTier(BagOfWordsEncoder(model=MINILM), load_calibrations(None), InlineExecutor(), max_windows=100)

    (claim,) = (await _judge(sentence, f"It is dark. {sentence}", tier=tier)).claims

    assert claim.flags == ("verbatim",)
    assert claim.support == 0.98


async def test_a_long_sentence_counts_in_all_its_parts() -> None:
    known, unknown = "lamp " * 180, "fishes " * 120
    case = case_of(f"{known}{unknown}", "Lamp.")

    comparison = await _tier().compare(case, seconds=5.0)

    # 1,740 characters, cut behind the last blank before 800 and 1,600: "lamp" (1), "lamp fishes" (1 / sqrt 2),
    # "fishes" (0). Mean 0.56904.
    assert comparison.match_by_position[0].cosine == pytest.approx(0.56904, abs=1e-4)


async def test_sentences_not_checked_are_no_claims_and_are_not_encoded() -> None:
    encoder = BagOfWordsEncoder()

    judgement = await _judge("# Lamps\n\nThe lamp burns.", "Orwin fishes.", tier=_tier(encoder))

    assert [claim.verdict for claim in judgement.claims] == [Verdict.NOT_A_CLAIM, Verdict.NOT_MENTIONED]
    assert encoder.encoded == [["Orwin fishes.", "The lamp burns."]]


async def test_a_text_that_occurs_twice_is_encoded_once() -> None:
    encoder = BagOfWordsEncoder()

    await _judge("The lamp burns. The lamp burns.", "The lamp burns.", "The lamp burns.", tier=_tier(encoder))

    assert encoder.encoded == [["The lamp burns."]]


async def test_an_english_model_refuses_another_language() -> None:
    with pytest.raises(TierFailure) as refused:
        await _judge("大坝很安全。", "大坝很安全。", tier=_tier(BagOfWordsEncoder(model=MINILM)))

    assert refused.value.reason is FailureReason.UNSUPPORTED_LANGUAGE


async def test_a_model_not_known_as_english_reads_chinese() -> None:
    (claim,) = (await _judge("大坝很安全。", "大坝很安全。")).claims

    assert claim.support == 0.98


@pytest.mark.parametrize(
    ("answer", "context", "where"), [("xx yy lamp.", "Lamp.", "answer"), ("Lamp.", "xx yy lamp.", "contexts")]
)
async def test_text_that_the_model_does_not_know_is_refused(answer: str, context: str, where: str) -> None:
    encoder = BagOfWordsEncoder(unknown_words={"xx", "yy"})

    with pytest.raises(TierFailure, match=f"67% of the tokens of the {where}") as refused:
        await _judge(answer, context, tier=_tier(encoder))

    assert refused.value.reason is FailureReason.UNSUPPORTED_LANGUAGE


async def test_a_few_unknown_words_are_read_over() -> None:
    encoder = BagOfWordsEncoder(unknown_words={"xx"})

    # One word of seven is 14 %, under the 15 % from which a text counts as unread.
    judgement = await _judge("xx lamp rope wall gate mill tower.", "Lamp.", tier=_tier(encoder))

    assert judgement.claims


async def test_more_windows_than_the_setting_allows_are_refused_before_anything_is_encoded() -> None:
    encoder = BagOfWordsEncoder()

    # Three sentences make three single windows and two pairs, one of them the answer's own: 5 texts.
    with pytest.raises(TierFailure, match=r"5 windows and sentences .* is 4") as refused:
        await _judge("One lamp.", "One lamp. Two ropes. Red mills.", tier=_tier(encoder, max_windows=4))

    assert refused.value.reason is FailureReason.TOO_LONG
    assert encoder.encoded == []


async def test_a_model_without_a_calibration_is_flagged() -> None:
    judgement = await _judge("The lamp burns.", "The lamp burns.")

    assert judgement.flags == ("uncalibrated",)
    assert judgement.account.model == "bag-of-words"
