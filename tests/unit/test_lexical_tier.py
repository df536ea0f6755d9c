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


def test_a_copied_sentence_is_verbatim_and_supported() -> None:
    claim = _claim("The lamp burns.", "It is dark. The lamp burns. We sleep.")

    assert (claim.verdict, claim.support, claim.flags) == (Verdict.SUPPORTED, VERBATIM_SUPPORT, ("verbatim",))


def test_the_same_words_in_another_order_are_not_verbatim_and_count_no_more() -> None:
    claim = _claim("Orwin beats Keld.", "Keld beats Orwin.")

    assert claim.flags == ()
    assert claim.support is not None
    assert claim.support <= VERBATIM_SUPPORT


def test_a_copy_behind_many_sentences_with_its_words_is_found_as_in_any_order() -> None:
    contexts = [*["No lamp burns."] * 16, "Lamp burns."]

    claims = [_claim("Lamp burns.", *contexts), _claim("Lamp burns.", *contexts[::-1])]

    assert [claim.flags for claim in claims] == [("verbatim",), ("verbatim",)]


def test_unrelated_words_have_the_least_support_and_no_evidence() -> None:
    claim = _claim("Orwin fishes cod.", "The lamp burns.")

    assert claim.support == pytest.approx(LEAST, abs=1e-6)
    assert (claim.verdict, claim.evidence) == (Verdict.NOT_MENTIONED, ())


def test_a_sentence_weighs_its_length_in_characters() -> None:
    judgement = _judge("The lamp burns. Orwin fishes cod daily.", "The lamp burns.")

    assert [claim.weight for claim in judgement.claims] == [15.0, 23.0]


def test_the_reason_names_what_no_context_has() -> None:
    claim = _claim("The keeper Orwin lit 14 lamps.", "The keeper lit the lamps.")

    assert claim.reason == "in no context: Orwin, 14"
    assert _claim("The keeper lit lamps.", "The keeper lit the lamps.").reason is None


@pytest.mark.parametrize(
    ("question", "answer", "context", "reason"),
    [
        ("Who approves 800 euros?", "The head approves 800 euros.", "The head approves above 500 euros.", None),
        ("8000元的费用谁批？", "8000元由总监审批。", "超过5000元由总监审批。", None),
        # One of yes or no may state what is wrong.
        ("Does it cost 800 euros?", "Yes, it costs 800 euros.", "It costs 500 euros.", "in no context: 800 euros"),
        ("Why did it close in 1995?", "It closed in 1995.", "It closed in 1985.", "in no context: 1995"),
    ],
)
def test_amounts_of_an_open_question_are_not_made_up(
    question: str, answer: str, context: str, reason: str | None
) -> None:
    case = segment(Sample(question, (context,), answer))

    (claim,) = LexicalTier(NO_CALIBRATION, InlineExecutor()).judge_now(case).claims

    assert claim.reason == reason


@pytest.mark.parametrize("answer", ["文件大小不超过2GB。", "版本保留180天（约半年）。", "文件至少2GB。"])
def test_words_that_bound_an_amount_are_no_names(answer: str) -> None:
    assert _claim(answer, "文件大小上限为2GB，版本保留180天。").reason is None


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

    assert (claim.verdict, claim.flags) == (Verdict.SUPPORTED, ("verbatim",))


def test_an_answer_of_another_number_is_not_found() -> None:
    assert _claim("42", "The dam is 420 m high.").verdict is Verdict.NOT_MENTIONED


@pytest.mark.parametrize(
    "answer", ["The lamp burns bright [1].", "The lamp burns bright. [1]", "1. The lamp burns bright."]
)
def test_a_citation_or_a_list_number_does_not_lower_the_support_of_a_copy(answer: str) -> None:
    assert _claim(answer, "It is dark. The lamp burns bright.").support == VERBATIM_SUPPORT


@pytest.mark.parametrize(
    ("answer", "context"),
    [
        ("iPhone 14 Pro Max", "苹果公司最新的手机是iPhone 14 Pro Max，去年九月上市。"),
        ("Meta", "脸书改名为Meta。"),
        ("大坝", "The dam is called 大坝 in Chinese."),
    ],
)
def test_a_copy_is_judged_though_the_context_is_in_another_script(answer: str, context: str) -> None:
    claim = _claim(answer, context)

    assert (claim.support, claim.flags, claim.verdict) == (VERBATIM_SUPPORT, ("verbatim",), Verdict.SUPPORTED)


def test_a_sentence_beside_a_copy_in_another_script_is_refused() -> None:
    with pytest.raises(TierFailure) as refused:
        _judge("Meta. It was founded in a room.", "脸书改名为Meta。")

    assert refused.value.reason is FailureReason.CROSS_LINGUAL


@pytest.mark.parametrize(
    ("context", "faithful", "wrong"),
    [
        (
            "Die Garantie gilt sechs Monate ab dem Kauf.",
            "Ab dem Kauf gilt sechs Monate die Garantie.",
            "Sie kostet 3 Euro.",
        ),
        ("L'entrée du musée coûte 8 euros.", "Le musée coûte 8 euros l'entrée.", "L'entrée du musée coûte 12 euros."),
        ("試用期間は三ヶ月です。", "試用期間は3ヶ月です。", "試用期間は六ヶ月です。"),
        ("El puente fue construido en 1931.", "En 1931 fue construido el puente.", "El puente fue construido en 1951."),
        ("博物館の入場料は800円です。", "入場料は800円です。", "博物館の入場料は1200円です。"),
        ("박물관의 입장료는 8유로이다.", "입장료는 8유로이다.", "박물관의 입장료는 12유로이다."),
        ("سعر دخول المتحف 8 يورو.", "دخول المتحف 8 يورو.", "سعر دخول المتحف 12 يورو."),
    ],
)
def test_other_languages_are_judged_by_their_wording_and_digits(context: str, faithful: str, wrong: str) -> None:
    table = load_calibrations(None)

    assert _claim(faithful, context, table=table).verdict is Verdict.SUPPORTED
    assert _claim(wrong, context, table=table).verdict is Verdict.NOT_MENTIONED


def test_a_ban_in_other_inflections_is_seen_as_turned_round() -> None:
    claim = _claim("You can immerse the device in water.", "The device must not be immersed in water.")

    assert claim.reason == "negated otherwise than in the contexts"


def test_a_copy_scores_near_one() -> None:
    assert _claim("The lamp burns.", "It is dark. The lamp burns.").support == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("answer", "context"),
    [
        ("27", "地铁七号线共设车站二十七座。"),
        ("**1926年**", "学校创办于一九二六年。"),
        ("12,000.", "It has twelve thousand seats."),
        ("400ml", "尘盒容量为400毫升。"),
    ],
)
def test_an_amount_alone_counts_as_a_copy_however_it_is_written(answer: str, context: str) -> None:
    assert _claim(answer, context).support == VERBATIM_SUPPORT


@pytest.mark.parametrize(
    ("answer", "context"),
    [
        ("33", "地铁七号线共设车站二十七座。"),
        ("3", "It has a mill, a dam and a bridge."),
        ("27座", "他今年二十七岁。"),
        # What only follows is stated nowhere.
        ("1901", "In 2021 the company is in its 120th year, 120 years after it was founded."),
        ("2020年6月", "该模型于2020-06-11发布。"),
    ],
)
def test_another_amount_alone_does_not(answer: str, context: str) -> None:
    assert _claim(answer, context).support != VERBATIM_SUPPORT
