"""Tier lexical: overlap of content words, by hand calculation, and the samples that it refuses."""

import pytest

from app.errors import FailureReason, TierFailure
from app.generation.verdicts import Claim, Judgement, Verdict
from app.judges.calibration import Calibration, CalibrationTable, Source
from app.judges.lexical import MODEL, LexicalTier, sentence_overlap, verdict_of
from app.judges.tier import Ask, TierName
from tests.fakes import InlineExecutor, case_of

NO_CALIBRATION = CalibrationTable(())


def _judge(answer: str, *contexts: str, table: CalibrationTable = NO_CALIBRATION) -> Judgement:
    return LexicalTier(table, InlineExecutor()).judge_now(case_of(answer, *contexts))


def _claim(answer: str, *contexts: str) -> Claim:
    (claim,) = _judge(answer, *contexts).claims
    return claim


def test_overlap_is_the_mean_of_the_share_found_anywhere_and_the_share_found_together() -> None:
    index = case_of("", "The keeper sleeps. The lamp burns bright.").index

    overlap, match = sentence_overlap("Keeper lamp burns nightly.", index)

    # keeper, lamp, burns of 4 stand somewhere: .75. lamp, burns of 4 stand together: .5. Mean .625.
    assert overlap == 0.625
    assert match is not None
    assert match.sentence.text == "The lamp burns bright."


def test_overlap_with_nothing_in_common_is_zero() -> None:
    assert sentence_overlap("Orwin fishes.", case_of("", "The lamp burns.").index) == (0.0, None)


def test_a_copied_sentence_is_verbatim_and_supported() -> None:
    claim = _claim("The lamp burns.", "It is dark. The lamp burns. We sleep.")

    assert (claim.verdict, claim.support, claim.flags) == (Verdict.SUPPORTED, 0.98, ("verbatim",))


def test_unrelated_words_have_no_support_and_no_evidence() -> None:
    claim = _claim("Orwin fishes cod.", "The lamp burns.")

    assert (claim.verdict, claim.support, claim.evidence) == (Verdict.NOT_MENTIONED, 0.0, ())


def test_the_evidence_is_the_best_context_sentence_at_its_offsets() -> None:
    contexts = ("😀 It is dark.", "We sleep. The lamp burns bright.")

    claim = _claim("A lamp burns.", *contexts)

    (evidence,) = claim.evidence
    assert (evidence.context, evidence.quote, evidence.verified) == (1, "The lamp burns bright.", True)
    assert contexts[1][evidence.start : evidence.end] == evidence.quote


def test_every_sentence_has_a_claim_and_those_not_checked_are_no_claims() -> None:
    judgement = _judge("# Lamps\n\nThe lamp burns. I don't know the rest.", "The lamp burns.")

    assert [claim.verdict for claim in judgement.claims] == [
        Verdict.NOT_A_CLAIM,
        Verdict.SUPPORTED,
        Verdict.NOT_A_CLAIM,
    ]
    assert [claim.support for claim in judgement.claims] == [None, 0.98, None]


def test_the_calibration_of_the_answers_language_is_used() -> None:
    source = Source(data="d", rows=1, date="2026-01-01", command="fit")
    entry = Calibration(
        tier=TierName.LEXICAL,
        model=MODEL,
        language="zh",
        midpoint=0.5,
        slope=4.0,
        reliability=((0.5, 0.5),),
        source=source,
    )
    table = CalibrationTable([entry])

    in_chinese = _judge("大坝结冰", "大坝", table=table)
    in_english = _judge("Lamp burns", "Lamp", table=table)

    assert (in_chinese.flags, in_chinese.reliability) == ((), ((0.5, 0.5),))
    assert (in_english.flags, in_english.reliability) == (("uncalibrated",), ())


def test_the_judgement_names_its_model_and_tells_no_kinds_of_verdict() -> None:
    judgement = _judge("The lamp burns.", "The lamp burns.")

    assert judgement.account.model == MODEL
    assert judgement.account.calls == 0
    assert not judgement.has_verdict_kinds


async def test_the_tier_judges_as_it_does_at_once() -> None:
    case = case_of("The lamp burns.", "The lamp burns.")
    tier = LexicalTier(NO_CALIBRATION, InlineExecutor())

    assert await tier.judge(case, Ask(), seconds=1.0) == tier.judge_now(case)


@pytest.mark.parametrize(
    ("answer", "contexts"),
    [
        ("The dam is safe.", ("大坝很安全。",)),
        ("大坝很安全。", ("The dam is safe.", "The lake is full.")),
        ("Плотина безопасна.", ("The dam is safe.",)),
        ("The dam is safe.", ("", "大坝很安全。")),
    ],
)
def test_an_answer_in_another_script_than_all_contexts_is_refused(answer: str, contexts: tuple[str, ...]) -> None:
    with pytest.raises(TierFailure) as refused:
        _judge(answer, *contexts)

    assert refused.value.reason is FailureReason.CROSS_LINGUAL


@pytest.mark.parametrize(
    ("answer", "contexts"),
    [
        ("GPT-4 是 OpenAI 的模型", ("OpenAI 公司发布了名为 GPT-4 的大型语言模型。",)),
        ("OpenAI Keld Dynamics 的模型 GPT-4 Turbo", ("该公司发布了大型语言模型。",)),
        ("The dam is safe.", ("大坝很安全。", "The dam is old.")),
        ("大坝很安全。", ("The dam is old.", "大坝很古老。")),
        ("42", ("大坝有42米高。",)),
        ("42", ("The dam is 42 m high.",)),
        ("1932-05-01", ("Плотина 1932-05-01",)),
    ],
)
def test_an_answer_that_shares_a_script_with_a_context_is_judged(answer: str, contexts: tuple[str, ...]) -> None:
    assert _judge(answer, *contexts).claims


def test_an_answer_of_one_number_is_found_in_chinese_contexts() -> None:
    claim = _claim("42", "大坝有42米高。", "湖很深。")

    # One word, found anywhere and together: overlap 1. In Chinese "42" is verbatim in 大坝有42米高 only beside blanks.
    assert claim.verdict is Verdict.SUPPORTED


def test_an_answer_of_another_number_is_not_found() -> None:
    assert _claim("42", "The dam is 420 m high.").verdict is Verdict.NOT_MENTIONED


@pytest.mark.parametrize(
    "answer", ["The lamp burns bright [1].", "The lamp burns bright. [1]", "1. The lamp burns bright."]
)
def test_a_citation_or_a_list_number_does_not_lower_the_support_of_a_copy(answer: str) -> None:
    assert _claim(answer, "It is dark. The lamp burns bright.").support == 0.98


@pytest.mark.parametrize(("support", "verdict"), [(0.5, Verdict.SUPPORTED), (0.499, Verdict.NOT_MENTIONED)])
def test_a_sentence_is_supported_from_one_half(support: float, verdict: Verdict) -> None:
    assert verdict_of(support) is verdict
