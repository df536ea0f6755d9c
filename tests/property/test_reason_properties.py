"""A result explains itself, whatever the texts and the judge's words: what counts against an answer has a reason."""

import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.ground.concurrency import InlineExecutor
from plumbline.ground.texts import Language
from plumbline.judging.judge.questions import load_prompts
from plumbline.judging.scoring import Scorer
from plumbline.judging.text.sample import Sample
from plumbline.judging.tiers.calibration import load_calibrations
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.judging.tiers.embedding import EmbeddingTier
from plumbline.judging.tiers.lexical import LexicalTier
from plumbline.judging.tiers.llm import LlmTier
from plumbline.judging.tiers.tier import JudgeOptions, Tier
from plumbline.rows.evaluation_wire import to_wire
from plumbline.schemas.evaluation import EvaluationResult
from tests.doubles.fakes import ScriptedChat, WordEncoder

CALIBRATIONS, PROMPTS = load_calibrations(None), load_prompts()
JUDGES_REASON = "The judge saw it in the text."
CONTEXTS = (
    "The dam was built in 1932 and is 120 metres high.",
    "Nobody guards the old lamp of Keld.",
    "大坝建成于1932年。",
)
_SENTENCES = (
    "The dam was built in 1932.", "The dam was built in 1877.", "Sir Orwin guards the lamp of Keld.", "大坝很高。",
    "The dam is 120 metres high, and wolves sing there.", "The dam was never built.", "大坝建成于1877年。",
    "Violins melt in deserts.",
)  # fmt: skip
_ANSWERS = st.lists(st.sampled_from(_SENTENCES), min_size=1, max_size=4, unique=True)
_QUOTES = st.sampled_from(
    ("", "The dam was built in 1932", "120 metres high", "opened by the mayor", "大坝建成于1932年")
)
_VERDICTS = st.sampled_from(("supported", "partial", "contradicted", "not_mentioned", "not_a_claim"))
_SAID = st.tuples(_VERDICTS, _QUOTES, st.sampled_from(("", JUDGES_REASON)))
_OPTIONS = st.builds(JudgeOptions, threshold=st.sampled_from((None, 0.5, 0.98)))
HAN = re.compile(r"[\u4e00-\u9fff]")


async def _explained(
    tier: Tier, sentences: Sequence[str], options: JudgeOptions, *, contexts: Sequence[str] = CONTEXTS
) -> EvaluationResult:
    """Return the result in English after a look at its reasons in both languages."""
    sample = Sample("", tuple(contexts), " ".join(sentences))
    scored = await Scorer(JudgeCascade([tier]), InlineExecutor()).score(sample, options)
    languages: tuple[Language, ...] = ("zh", "en")
    for language in languages:
        result = to_wire(scored, sample, sample_id=None, language=language)
        reason_by_id = {each.id: each.reason for each in result.claims}
        for claim in result.claims:
            is_against = claim.verdict in ("partial", "contradicted", "not_mentioned")
            assert not is_against or claim.reason, claim
            assert language == "en" or not claim.reason_code or HAN.search(claim.reason or ""), claim
        if result.decision and result.passed is False:
            assert result.decision.because
            assert all(each.sentence and each.reason == reason_by_id[each.claim] for each in result.decision.because)
    return result


@pytest.mark.parametrize(
    "tier",
    [
        LexicalTier(CALIBRATIONS, InlineExecutor()),
        EmbeddingTier(WordEncoder(), CALIBRATIONS, InlineExecutor(), max_windows=100),
    ],
    ids=["lexical", "embedding"],
)
@given(sentences=_ANSWERS, options=_OPTIONS, given_contexts=st.sampled_from((CONTEXTS, CONTEXTS[:1], ())))
async def test_a_tier_without_a_judge_says_why_it_supports_a_sentence_no_further(
    tier: Tier, sentences: list[str], options: JudgeOptions, given_contexts: Sequence[str]
) -> None:
    result = await _explained(tier, sentences, options, contexts=given_contexts)

    for claim in result.claims:
        # The only reason of a supported sentence says no word against it.
        assert claim.verdict != "supported" or claim.reason_code in (None, "least_supported")
        assert claim.verdict != "not_mentioned" or claim.reason_code not in (None, "least_supported")


@given(
    said=st.dictionaries(st.sampled_from(_SENTENCES), st.tuples(_SAID, _SAID), min_size=1, max_size=4), options=_OPTIONS
)
async def test_a_verdict_that_code_changed_has_not_the_judges_reason(
    said: dict[str, tuple[tuple[str, str, str], tuple[str, str, str]]], options: JudgeOptions
) -> None:
    def answer(place: int, look: int) -> dict[str, object]:
        text = list(said)[place]
        verdict, quote, reason = said[text][look]
        quotes = [quote] if quote else []
        return {"claim": text, "quotes": quotes, "reason": reason, "verdict": verdict}

    first = {"sentences": [{"id": place + 1, "claims": [answer(place, 0)]} for place in range(len(said))]}
    second = {"claims": [{"id": f"{place}.0", **answer(place, 1)} for place in range(len(said))]}
    chat = ScriptedChat(json.dumps(first), json.dumps(second))

    result = await _explained(LlmTier({"default": chat}, PROMPTS, InlineExecutor()), list(said), options)

    for claim in result.claims:
        is_changed = any(flag.startswith("judge_said_") for flag in claim.flags)
        assert not (is_changed and claim.reason == JUDGES_REASON), claim
        assert not is_changed or claim.reason_code, claim
