"""Tier embedding with a direction for each word, so that every alignment can be calculated by hand."""

import pytest

from plumbline.ground.concurrency import InlineExecutor
from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.text.verdicts import Judgement, Verdict
from plumbline.judging.tiers import embedding
from plumbline.judging.tiers.calibration import (
    VERBATIM_SUPPORT,
    Calibration,
    CalibrationSource,
    CalibrationTable,
    load_calibrations,
)
from plumbline.judging.tiers.embedding import EmbeddingTier
from plumbline.judging.tiers.tier import JudgeOptions, TierName
from tests.doubles.fakes import WordEncoder, case_of

MINILM = "all-MiniLM-L6-v2"
NO_CALIBRATION = CalibrationTable(())


def _tier(
    encoder: WordEncoder | None = None, *, table: CalibrationTable = NO_CALIBRATION, max_windows: int = 100
) -> EmbeddingTier:
    return EmbeddingTier(encoder or WordEncoder(), table, InlineExecutor(), max_windows=max_windows)


async def _judge(answer: str, *contexts: str, tier: EmbeddingTier | None = None) -> Judgement:
    return await (tier or _tier()).judge(case_of(answer, *contexts), JudgeOptions(), seconds=5.0)


async def _alignment(answer: str, *contexts: str) -> float:
    findings = await _tier().compare(case_of(answer, *contexts), JudgeOptions(), seconds=5.0)
    (finding,) = findings.values()
    return finding.measures["alignment"]


async def test_the_share_of_words_in_the_contexts_goes_through_the_calibration() -> None:
    texts = ("Burns lamp red.", "Lamp burns bright.", "Orwin fishes.")

    (claim,) = (await _judge(*texts)).claims

    # burns and lamp of three words; the default curve gives 1 / (1 + e^-(8 * 2/3 - 4)) = 0.791392.
    assert await _alignment(*texts) == pytest.approx(2 / 3)
    assert claim.support == pytest.approx(0.791392, abs=1e-6)
    assert claim.verdict is Verdict.SUPPORTED


async def test_a_value_of_json_is_read_behind_its_path_and_its_evidence_lies_in_the_text() -> None:
    context = '{"kettle": {"netWeight": "burns", "lidColour": "bright"}}'

    judgement = await _judge("Kettle net weight burns.", context)

    # As it stands, netWeight is one word, and neither "net" nor "weight" is there.
    assert await _alignment("Kettle net weight burns.", context) == pytest.approx(1.0)
    (evidence,) = judgement.claims[0].evidence
    assert (evidence.quote, context[evidence.start : evidence.end]) == ('"netWeight": "burns"',) * 2


async def test_the_measures_of_the_wording_count_beside_the_alignment() -> None:
    entry = Calibration(
        tier=TierName.EMBEDDING,
        model="words",
        language="en",
        weights={"alignment": 1.0, "unknown_numbers": -2.0},
        intercept=0.5,
        source=CalibrationSource(data="d", rows=1, date="2026-01-01", command="fit"),
    )

    judgement = await _judge("Lamps burn 14 years.", "Lamps burn.", tier=_tier(table=CalibrationTable([entry])))

    # Two of four words, one amount that no context has: 0.49 / (1 + e^-(0.5 - 2 + 0.5)).
    assert judgement.claims[0].support == pytest.approx(0.131781, abs=1e-6)
    assert judgement.claims[0].reason == "in no context: 14 years"
    assert judgement.flags == ()


async def test_words_may_have_their_counterparts_in_several_sentences_and_contexts() -> None:
    assert await _alignment("Lamp burns keeper sleeps.", "Lamp shines. A fire burns.", "Keeper sleeps.") == 1.0


async def test_the_evidence_is_the_nearest_window_at_its_offsets() -> None:
    contexts = ("😀 Orwin fishes.", "We sleep. The lamp burns bright.")

    (claim,) = (await _judge("Lamp burns bright red.", *contexts)).claims

    (evidence,) = claim.evidence
    assert (evidence.context, evidence.quote, evidence.verified) == (1, "The lamp burns bright.", True)
    assert contexts[1][evidence.start : evidence.end] == evidence.quote


async def test_the_same_words_in_another_order_are_not_verbatim() -> None:
    (claim,) = (await _judge("Orwin joins Keld today.", "Today Orwin joins Keld.")).claims

    # Alignment 1 would give 1 / (1 + e^-4) = 0.982; no likeness counts for more than a copy.
    assert claim.flags == ()
    assert claim.support == VERBATIM_SUPPORT


async def test_a_copied_sentence_longer_than_a_window_is_verbatim() -> None:
    sentence = "The keeper " + "walks the long grey wall and " * 40 + "sleeps."
    tier = _tier(WordEncoder(MINILM), table=load_calibrations(None))

    (claim,) = (await _judge(sentence, f"It is dark. {sentence}", tier=tier)).claims

    assert claim.flags == ("verbatim",)
    assert claim.support == VERBATIM_SUPPORT
    assert [evidence.quote for evidence in claim.evidence] == [sentence]


async def test_a_long_sentence_counts_in_all_its_parts() -> None:
    known, unknown = "lamp " * 180, "fishes " * 120

    # 1,740 characters, cut behind the last blank before 800 and 1,600: 160 times "lamp" (1), 20 times "lamp" and 100
    # times "fishes" (1/6), 20 times "fishes" (0). Mean 7/18.
    assert await _alignment(f"{known}{unknown}", "Lamp.") == pytest.approx(7 / 18)


async def test_sentences_not_checked_are_no_claims_and_are_not_encoded() -> None:
    encoder = WordEncoder()

    judgement = await _judge("# Lamps\n\nThe lamp burns.", "Orwin fishes.", tier=_tier(encoder))

    assert [claim.verdict for claim in judgement.claims] == [Verdict.NOT_A_CLAIM, Verdict.NOT_MENTIONED]
    assert encoder.encoded == [["the lamp burns", "orwin fishes"]]


async def test_a_text_that_occurs_twice_is_encoded_once_on_each_side() -> None:
    encoder = WordEncoder()

    await _judge("The lamp burns. The lamp burns.", "The lamp burns.", "The lamp burns.", tier=_tier(encoder))

    assert encoder.encoded == [["the lamp burns", "the lamp burns"]]


async def test_names_of_relations_are_read_as_words() -> None:
    encoder = WordEncoder()

    await _judge("The lampColour is red.", "lamp_colour: red.", tier=_tier(encoder))

    assert encoder.encoded == [["the lamp colour is red", "lamp colour red"]]


async def test_windows_encoded_a_few_at_a_time_give_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ("The red lamp burns. Keeper sleeps.", "A lamp. The keeper of it sleeps.", "The lamp burns red tonight.")
    together = await _judge(*texts)
    monkeypatch.setattr(embedding, "_WINDOWS_AT_ONCE", 1)
    encoder = WordEncoder()

    apart = await _judge(*texts, tier=_tier(encoder))

    assert apart == together
    # The sentences go with the first window, the others one by one.
    assert [len(texts) for texts in encoder.encoded] == [3, 1, 1]


async def test_a_text_longer_than_the_model_reads_is_warned_of() -> None:
    judgement = await _judge(
        "Lamp burns red bright.", "Lamp burns. Lamp burns red.", tier=_tier(WordEncoder(max_words=2))
    )

    # "Lamp burns" of both the sentence and the windows is all that is compared.
    assert judgement.warnings == ("2 sentences or windows are longer than the model reads; their ends did not count",)
    assert judgement.claims[0].support == VERBATIM_SUPPORT


async def test_a_deadline_that_passes_is_a_timeout() -> None:
    with pytest.raises(TierFailure) as failed:
        await _tier().judge(case_of("The lamp burns.", "The lamp burns."), JudgeOptions(), seconds=0.0)

    assert failed.value.reason is FailureReason.TIMEOUT


@pytest.mark.parametrize("answer", ["大坝不安全。", "大坝很安全。"])
async def test_an_english_model_refuses_another_language_and_its_copies(answer: str) -> None:
    with pytest.raises(TierFailure) as refused:
        await _judge(answer, "大坝很安全。", tier=_tier(WordEncoder(MINILM)))

    assert refused.value.reason is FailureReason.UNSUPPORTED_LANGUAGE


@pytest.mark.parametrize(
    ("answer", "context", "where"), [("xx yy lamp.", "Lamp.", "answer"), ("Lamps.", "xx yy lamp.", "contexts")]
)
async def test_text_that_the_model_does_not_know_is_refused(answer: str, context: str, where: str) -> None:
    encoder = WordEncoder(unknown_words={"xx", "yy"})

    with pytest.raises(TierFailure, match=f"67% of the tokens of the {where}") as refused:
        await _judge(answer, context, tier=_tier(encoder))

    assert refused.value.reason is FailureReason.UNSUPPORTED_LANGUAGE


async def test_a_few_unknown_words_are_read_over() -> None:
    encoder = WordEncoder(unknown_words={"xx"})

    # One word of seven is 14 %, under the 15 % from which a text counts as unread.
    judgement = await _judge("xx lamp rope wall gate mill tower.", "Lamp.", tier=_tier(encoder))

    assert judgement.claims


async def test_more_windows_than_the_setting_allows_are_refused_before_anything_is_encoded() -> None:
    encoder = WordEncoder()

    # Three windows and the sentence of the answer.
    with pytest.raises(TierFailure, match=r"4 windows and sentences .* is 3") as refused:
        await _judge("One lamp.", "One lamp. Two ropes. Red mills.", tier=_tier(encoder, max_windows=3))

    assert refused.value.reason is FailureReason.TOO_LONG
    assert encoder.encoded == []


async def test_a_model_without_a_calibration_is_flagged() -> None:
    judgement = await _judge("The lamp burns.", "The lamp burns.")

    assert judgement.flags == ("uncalibrated",)
    assert judgement.account.model == "words"


async def test_a_sentence_is_compared_with_the_windows_that_share_most_with_it() -> None:
    encoder = WordEncoder()
    fillers = [f"Mill {name} stands." for name in ("aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh", "ii", "jj")]

    (claim,) = (await _judge("Keeper Orwin fishes.", " ".join(fillers), "Orwin fishes.", tier=_tier(encoder))).claims

    # Of eleven windows one shares words; the four next in order go with it.
    (encoded,) = encoder.encoded
    assert len(encoded) == 1 + 5
    assert "orwin fishes" in encoded
    assert [evidence.quote for evidence in claim.evidence] == ["Orwin fishes."]


async def test_a_sentence_in_wholly_other_words_is_compared_with_all_windows() -> None:
    encoder = WordEncoder()
    contexts = [f"Mill {name} stands." for name in ("aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh", "ii", "jj")]

    await _judge("Keeper Orwin fishes.", *contexts, tier=_tier(encoder))

    assert len(encoder.encoded[0]) == 1 + 10
