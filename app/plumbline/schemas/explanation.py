"""A result in words: the sentences that the contexts do not support, or the reason that there is no score."""

from typing import Any, Final

from plumbline.ground.texts import CodedText, Language, render
from plumbline.schemas.evaluation import EvaluationResult
from plumbline.schemas.result_parts import ClaimItem

_SAID: Final = {"abstained": CodedText("said_abstained"), "empty_answer": CodedText("said_empty")}
_VERDICTS: Final = {
    "partial": CodedText("verdict_partial"),
    "contradicted": CodedText("verdict_contradicted"),
    "not_mentioned": CodedText("verdict_not_mentioned"),
}
_MOST_CHARACTERS: Final = 300


def unjudged_reason(result: EvaluationResult) -> CodedText | None:
    if result.status == "judged":
        return None
    if result.status in _SAID:
        return _SAID[result.status]
    tried = [
        CodedText("tier_tried", tier=each.tier, reason=each.reason or "", detail=each.detail or "")
        for each in result.trace.attempts
    ]
    return CodedText("said_not_judged", reasons=tried) if tried else CodedText("said_not_asked")


def decision_word(result: EvaluationResult, passed: str, failed: str) -> str:
    """Return `passed` or `failed`; without a decision `unsure`, or the status of an answer without a score."""
    if result.passed is None:
        return "unsure" if result.status == "judged" else result.status
    return passed if result.passed else failed


def is_blocked(result: EvaluationResult, *, allow_unsure: bool = False) -> bool:
    """Return True if a guard stops the answer: it failed, no tier judged it, or its tier is unsure.

    Answers that declined or are empty assert nothing, and are let through.
    """
    if result.passed is None:
        return result.status == "not_judged" or (result.status == "judged" and not allow_unsure)
    return not result.passed


def unsupported_claims(result: EvaluationResult) -> list[ClaimItem]:
    wrong = ("partial", "contradicted", "not_mentioned")
    return [each for each in result.claims if each.verdict in wrong and "duplicate" not in each.flags]


def summarize(result: EvaluationResult, language: Language = "en") -> dict[str, Any]:
    """Return the verdict for an agent or a tool; `unsupported` has the claims at fault, each with its verdict."""
    return {
        "passed": result.passed,
        "status": result.status,
        "faithfulness": result.faithfulness,
        "tier": result.tier,
        "unsupported": [{"text": each.text, "verdict": each.verdict} for each in unsupported_claims(result)],
        "explanation": explain(result, language),
    }


def explain(result: EvaluationResult, language: Language = "en") -> str:
    """Return lines for people: the verdict, then each claim at fault with its sentence, reason and nearest passage."""
    if reason := unjudged_reason(result):
        return render(CodedText("said_without_score", reason=reason), language)
    bad = unsupported_claims(result)
    checked = [each for each in result.claims if each.verdict != "not_a_claim" and "duplicate" not in each.flags]
    score, tier = f"{result.faithfulness:.2f}", result.tier or "none"
    facts = CodedText("said_score", score=score, tier=tier)
    if result.decision and result.decision.threshold is not None:
        facts = CodedText("said_score_from", score=score, tier=tier, threshold=result.decision.threshold)
    lines: list[str] = [CodedText("said_good", facts=facts)]
    if bad:
        lines = [CodedText("said_bad", bad=len(bad), all=len(checked), facts=facts)]
    if result.passed is None:
        has_judge = result.tier == "llm"
        lines = [
            CodedText("said_unsure", facts=facts) if has_judge else CodedText("said_unsure_without_judge", facts=facts)
        ]
    sentences = {each.claim: each.sentence.strip() for each in result.decision.because} if result.decision else {}
    for claim in bad:
        sentence = sentences.get(claim.id, "")
        lines.append(CodedText("claim_line", verdict=_VERDICTS[claim.verdict], text=_short(sentence or claim.text)))
        if sentence and claim.text.strip() != sentence:
            lines.append(CodedText("claim_of_sentence", text=_short(claim.text)))
        if claim.reason:
            lines.append(f"    {_short(claim.reason)}")
        lines += [
            CodedText("claim_context", number=each.context or 0, text=_short(each.quote))
            for each in claim.evidence[:1]
            if each.quote
        ]
    return "\n".join(render(line, language) for line in lines)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"
