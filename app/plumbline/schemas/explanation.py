"""A result in words: the sentences that the contexts do not support, or the reason that there is no score."""

from typing import Any, Final

from plumbline.schemas.evaluation import EvaluationResult
from plumbline.schemas.result_parts import ClaimItem

_SAID: Final = {
    "abstained": "the answer declines to answer, or asserts nothing that could be checked",
    "empty_answer": "the answer is empty",
}
_MOST_CHARACTERS: Final = 300


def unjudged_reason(result: EvaluationResult) -> str | None:
    """Return why there is no score; None if there is one."""
    if result.status == "judged":
        return None
    if result.status in _SAID:
        return f"{result.status}: {_SAID[result.status]}"
    tried = "; ".join(f"{each.tier}: {each.reason} ({each.detail})" for each in result.trace.attempts)
    return f"not_judged: {tried or 'no tier was asked'}"


def unsupported_claims(result: EvaluationResult) -> list[ClaimItem]:
    """Return the claims that are not fully supported, each once."""
    wrong = ("partial", "contradicted", "not_mentioned")
    return [each for each in result.claims if each.verdict in wrong and "duplicate" not in each.flags]


def summarize(result: EvaluationResult) -> dict[str, Any]:
    """Return the verdict for an agent or a tool; `unsupported` has the claims at fault, each with its verdict."""
    return {
        "passed": result.passed,
        "status": result.status,
        "faithfulness": result.faithfulness,
        "tier": result.tier,
        "unsupported": [{"text": each.text, "verdict": each.verdict} for each in unsupported_claims(result)],
        "explanation": explain(result),
    }


def explain(result: EvaluationResult) -> str:
    """Return lines for people: the verdict, then each claim at fault with its sentence, reason and nearest passage."""
    if reason := unjudged_reason(result):
        return f"not judged ({reason})"
    bad = unsupported_claims(result)
    checked = [each for each in result.claims if each.verdict != "not_a_claim" and "duplicate" not in each.flags]
    if bad:
        head = f"{len(bad)} of {len(checked)} claims of the answer not supported by the contexts"
    else:
        head = "every claim of the answer is supported by the contexts"
    facts = [f"faithfulness {result.faithfulness:.2f}", f"tier {result.tier or 'none'}"]
    if result.decision and result.decision.threshold is not None:
        facts.insert(1, f"passes from {result.decision.threshold:.2f}")
    lines = [f"{head} ({', '.join(facts)})"]
    sentences = {each.claim: each.sentence.strip() for each in result.decision.because} if result.decision else {}
    for claim in bad:
        sentence = sentences.get(claim.id, "")
        lines.append(f"  {claim.verdict}: {_short(sentence or claim.text)}")
        if sentence and claim.text.strip() != sentence:
            lines.append(f"    claim: {_short(claim.text)}")
        if claim.reason:
            lines.append(f"    {_short(claim.reason)}")
        lines += [f"    context {each.context}: {_short(each.quote)}" for each in claim.evidence[:1] if each.quote]
    return "\n".join(lines)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"
