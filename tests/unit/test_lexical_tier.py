"""Tier lexical: what the wording says, by hand calculation, and the samples that it refuses."""

import pytest

from plumbline.ground.concurrency import InlineExecutor
from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.text.verdicts import Claim, Judgement, Verdict
from plumbline.judging.text.words import Language
from plumbline.judging.tiers.calibration import (
    VERBATIM_SUPPORT,
    Calibration,
    CalibrationGate,
    CalibrationSource,
    CalibrationTable,
    load_calibrations,
)
from plumbline.judging.tiers.lexical import MODEL, LexicalTier
from plumbline.judging.tiers.tier import JudgeOptions, TierName
from tests.doubles.fakes import case_of
from tests.making.cases import load_cases

NO_CALIBRATION = CalibrationTable(())
# 1 / (1 + e^4): the default curve where nothing is found.
LEAST = 0.017986


def _table(
    weights: dict[str, float], intercept: float, *, gate: CalibrationGate | None = None, language: Language = "en"
) -> CalibrationTable:
    entry = Calibration(
        tier=TierName.LEXICAL,
        model=MODEL,
        language=language,
        weights=weights,
        intercept=intercept,
        gate=gate,
        reliability=((0.5, 0.5),),
        source=CalibrationSource(data="d", rows=1, date="2026-01-01", command="fit"),
    )
    return CalibrationTable([entry])


def _judge(answer: str, *contexts: str, table: CalibrationTable = NO_CALIBRATION) -> Judgement:
    return LexicalTier(table, InlineExecutor()).judge_now(case_of(answer, *contexts))


def _claim(answer: str, *contexts: str, table: CalibrationTable = NO_CALIBRATION) -> Claim:
    (claim,) = _judge(answer, *contexts, table=table).claims
    return claim


def test_the_measures_of_a_sentence_go_through_its_calibration() -> None:
    table = _table({"character_coverage": 2.0, "near_pairs": 1.0}, -1.0)

    claim = _claim("Keeper lamp.", "Keeper sleeps. Lamp burns.", table=table)

    # " keeper lamp " has ten runs of four. " keeper sleeps " holds five of them, " lamp burns " three others: .8 found
    # anywhere, .5 together, mean .65. The two words stand together nowhere: -ln 1.05 = -0.048790.
    # 1 / (1 + e^-(2 * .65 - 0.048790 - 1)) = 0.562474
    assert claim.support == pytest.approx(0.562474, abs=1e-6)
    assert claim.verdict is Verdict.SUPPORTED


def test_behind_a_gate_a_sentence_without_anything_in_common_has_no_support() -> None:
    gate = CalibrationGate(measure="character_coverage", closed=0.1, open=0.5)

    claim = _claim("Orwin fishes cod.", "The lamp burns.", table=_table({"character_coverage": 1.0}, 2.0, gate=gate))

    assert (claim.verdict, claim.support) == (Verdict.NOT_MENTIONED, 0.0)


def test_the_same_words_in_another_order_are_not_verbatim_and_count_no_more() -> None:
    claim = _claim("Orwin beats Keld.", "Keld beats Orwin.")

    assert claim.flags == ()
    assert claim.support is not None
    assert claim.support <= VERBATIM_SUPPORT


def test_a_copy_behind_many_sentences_with_its_words_is_found_as_in_any_order() -> None:
    contexts = [*["No lamp burns."] * 16, "Lamp burns."]

    claims = [_claim("Lamp burns.", *contexts), _claim("Lamp burns.", *contexts[::-1])]

    assert [claim.flags for claim in claims] == [("verbatim",), ("verbatim",)]


def test_a_sentence_that_leaves_its_condition_out_reads_as_no_good_answer() -> None:
    judgement = _judge("Refunds are paid in full.", "Refunds are paid in full if the return is posted within 14 days.")

    assert (judgement.faithfulness, judgement.claims[0].support) == (0.7, 0.7)


def test_unrelated_words_have_the_least_support_and_no_evidence() -> None:
    claim = _claim("Orwin fishes cod.", "The lamp burns.")

    assert claim.support == pytest.approx(LEAST, abs=1e-6)
    assert (claim.verdict, claim.evidence) == (Verdict.NOT_MENTIONED, ())


@pytest.mark.parametrize(
    ("question", "answer", "context", "reason"), load_cases("lexical_tier", "the_reason_names_what_no_context_has")
)
def test_the_reason_names_what_no_context_has(question: str, answer: str, context: str, reason: str) -> None:
    case = segment(Sample(question, (context,), answer))

    (claim,) = LexicalTier(NO_CALIBRATION, InlineExecutor()).judge_now(case).claims

    assert (claim.reason or "") == reason


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
    assert [claim.support for claim in judgement.claims] == [None, VERBATIM_SUPPORT, None]


def test_the_calibration_of_the_answers_language_is_used() -> None:
    table = _table({"characters": 4.0}, -2.0, language="zh")

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

    assert await tier.judge(case, JudgeOptions(), seconds=1.0) == tier.judge_now(case)


@pytest.mark.parametrize(
    ("answer", "contexts"), load_cases("lexical_tier", "an_answer_in_another_script_than_all_contexts_is_refused")
)
def test_an_answer_in_another_script_than_all_contexts_is_refused(answer: str, contexts: tuple[str, ...]) -> None:
    with pytest.raises(TierFailure) as refused:
        _judge(answer, *contexts)

    assert refused.value.reason is FailureReason.CROSS_LINGUAL


@pytest.mark.parametrize(
    ("answer", "contexts"), load_cases("lexical_tier", "an_answer_that_shares_a_script_with_a_context_is_judged")
)
def test_an_answer_that_shares_a_script_with_a_context_is_judged(answer: str, contexts: tuple[str, ...]) -> None:
    assert _judge(answer, *contexts).claims


def test_an_answer_of_another_number_is_not_found() -> None:
    assert _claim("42", "The dam is 420 m high.").verdict is Verdict.NOT_MENTIONED


@pytest.mark.parametrize(
    "answer", ["The lamp burns bright [1].", "The lamp burns bright. [1]", "1. The lamp burns bright."]
)
def test_a_citation_or_a_list_number_does_not_lower_the_support_of_a_copy(answer: str) -> None:
    assert _claim(answer, "It is dark. The lamp burns bright.").support == VERBATIM_SUPPORT


@pytest.mark.parametrize(
    ("answer", "contexts"), load_cases("lexical_tier", "a_copy_is_judged_though_the_context_is_in_another_script")
)
def test_a_copy_is_judged_though_the_context_is_in_another_script(answer: str, contexts: tuple[str, ...]) -> None:
    claim = _claim(answer, *contexts)

    assert (claim.support, claim.flags, claim.verdict) == (VERBATIM_SUPPORT, ("verbatim",), Verdict.SUPPORTED)


@pytest.mark.parametrize(
    ("context", "faithful", "wrong"),
    load_cases("lexical_tier", "other_languages_are_judged_by_their_wording_and_digits"),
)
def test_other_languages_are_judged_by_their_wording_and_digits(context: str, faithful: str, wrong: str) -> None:
    table = load_calibrations(None)

    assert _claim(faithful, context, table=table).verdict is Verdict.SUPPORTED
    assert _claim(wrong, context, table=table).verdict is Verdict.NOT_MENTIONED


@pytest.mark.parametrize(("speaker", "passed"), [("林达", True), ("孙鹏", None)])
def test_a_chinese_copy_with_another_name_does_not_pass(speaker: str, passed: bool | None) -> None:
    context = "议题二：林达汇报年内计划招聘35人，其中研发20人。会议由孙鹏主持。"

    judgement = _judge(f"{speaker}汇报年内计划招聘35人，其中研发20人。", context, table=load_calibrations(None))

    assert judgement.decision is not None
    assert judgement.decision.passed is passed
