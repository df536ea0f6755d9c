"""Scores: from claims to numbers, and agreement with a reference. No number that a judge writes becomes a score."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from plumbline.judging.text.verdicts import Claim, Judgement, Verdict, is_duplicate
from plumbline.judging.text.words import nfkc


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of one answer, each in [0, 1] or None where it is undefined.

    `faithfulness_strict`, `contradiction_rate` and `unsupported_rate` need verdict kinds: tier llm alone has them.
    """

    faithfulness: float
    hallucination_rate: float
    faithfulness_strict: float | None
    contradiction_rate: float | None
    unsupported_rate: float | None


def score(judgement: Judgement) -> Scores | None:
    """Return the scores of a judgement; None when no claim in it can be checked.

    faithfulness = the mean of support over the checkable claims (seed 4's mean over sentences), each with its weight: 1
    in tier llm, the length of the sentence where a sentence is one claim (on human labels macro AUROC .004 above the
    plain mean). hallucination_rate = 1 - faithfulness (seed 4). A claim marked as a duplicate is in no count.
    """
    checkable = [claim for claim in judgement.claims if claim.is_checkable and not is_duplicate(claim)]
    if not checkable:
        return None
    total = len(checkable)
    supports = [claim.support or 0.0 for claim in checkable]
    weighted = sum(support * claim.weight for support, claim in zip(supports, checkable, strict=True))
    mean = weighted / sum(claim.weight for claim in checkable)
    # Rounding must not bring a mean out of what it is the mean of: 0.85 twice is 0.85, and passes at 0.85.
    faithfulness = min(max(supports), max(min(supports), mean))
    if not judgement.has_verdict_kinds:
        return Scores(faithfulness, 1.0 - faithfulness, None, None, None)
    counts = count_verdicts(checkable)
    return Scores(
        faithfulness=faithfulness,
        hallucination_rate=1.0 - faithfulness,
        faithfulness_strict=counts[Verdict.SUPPORTED] / total,
        contradiction_rate=counts[Verdict.CONTRADICTED] / total,
        unsupported_rate=counts[Verdict.NOT_MENTIONED] / total,
    )


def count_verdicts(claims: Sequence[Claim]) -> Mapping[Verdict, int]:
    """Count the claims of each verdict, every verdict named; duplicates are not counted."""
    counts = dict.fromkeys(Verdict, 0)
    for claim in claims:
        if not is_duplicate(claim):
            counts[claim.verdict] += 1
    return counts


def contexts_used(claims: Sequence[Claim]) -> tuple[int, ...]:
    """Return the indices of contexts with verified evidence of a supported or partial claim, ascending."""
    backed = (
        claim for claim in claims if claim.verdict in (Verdict.SUPPORTED, Verdict.PARTIAL) and not is_duplicate(claim)
    )
    return tuple(
        sorted({e.context for claim in backed for e in claim.evidence if e.verified and e.context is not None})
    )


def confidence(faithfulness: float, *, passed: bool, reliability: Sequence[tuple[float, float]]) -> float | None:
    """Return the calibrated probability that a human agrees with `passed`, in [0, 1]; None without a table.

    Args:
        reliability: `(score, observed share of faithful answers)`, ascending in score; read by linear interpolation.
    """
    if not reliability:
        return None
    faithful_share = _interpolate(faithfulness, reliability)
    return faithful_share if passed else 1.0 - faithful_share


def agreement(votes: Sequence[float], *, passed: bool, threshold: float) -> float:
    """Return the agreement of the votes' faithfulness with the verdict, in (0, 1), by Laplace's rule of succession.

    Not calibrated on people: two of two votes give 0.75, five of five 0.86, one of two 0.5.
    """
    agreeing = sum((vote >= threshold) == passed for vote in votes)
    return (agreeing + 1) / (len(votes) + 2)


def _interpolate(x: float, points: Sequence[tuple[float, float]]) -> float:
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return points[-1][1]


_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = re.compile(r"[^\w\s]|_")
_SQUAD_TOKEN = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003134f]|[^\\s\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003134f]+"
)


def exact_match(answer: str, reference: str) -> float:
    """Return 1.0 if both texts are equal after SQuAD normalisation, else 0.0."""
    return float(_squad_tokens(answer) == _squad_tokens(reference))


def token_f1(answer: str, reference: str) -> float:
    """Return the harmonic mean of token precision and recall, in [0, 1]; 1.0 if both are empty, 0.0 if one is.

    SQuAD's normalisation (case, punctuation, articles) and its multiset overlap (Rajpurkar et al., EMNLP 2016);
    Chinese is compared by character. Seed 1 takes sets, which counts a repeated word once: not copied.
    """
    ours, theirs = Counter(_squad_tokens(answer)), Counter(_squad_tokens(reference))
    if not ours or not theirs:
        return float(ours == theirs)
    common = (ours & theirs).total()
    return 2 * common / (ours.total() + theirs.total())


def _squad_tokens(text: str) -> list[str]:
    folded = nfkc(text).casefold()
    return _SQUAD_TOKEN.findall(_ARTICLES.sub(" ", _PUNCTUATION.sub("", folded)))
