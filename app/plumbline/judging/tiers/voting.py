"""Majority vote over several judges, and escalation to a second model where it could change the outcome."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from plumbline.judging.text.scores import PassCriterion, score
from plumbline.judging.text.verdicts import SUPPORT_BY_VERDICT, Claim, JudgeAccount, Judgement, Scores, Verdict
from plumbline.judging.tiers.evidence.verdict_rules import doubts

_ACCUSATIONS = (Verdict.CONTRADICTED, Verdict.NOT_MENTIONED)


def majority_vote(claims: Sequence[Claim], votes: Sequence[Mapping[str, Claim]]) -> tuple[Claim, ...]:
    """Return each claim with the verdict of most votes, its own included; of equal counts, the lower support.

    A claim on which votes differ carries the flag `disputed`. A vote that leaves a claim out abstains on it.
    """
    return tuple(_majority_of([claim, *(vote[claim.id] for vote in votes if claim.id in vote)]) for claim in claims)


def _majority_of(votes: Sequence[Claim]) -> Claim:
    counts = Counter(vote.verdict for vote in votes)
    if len(counts) == 1:
        return votes[0]
    most = max(counts.values())
    leading = [vote for vote in votes if counts[vote.verdict] == most]
    # An accusation before "no claim".
    chosen = min(leading, key=lambda vote: (SUPPORT_BY_VERDICT.get(vote.verdict, 0.0), not vote.is_checkable))
    return replace(chosen, text=votes[0].text, flags=(*chosen.flags, "disputed"))


def scores_by_vote(claims: Sequence[Claim], votes: Sequence[Mapping[str, Claim]]) -> tuple[Scores, ...]:
    """Return the scores of the answer by each vote alone, that of `claims` first; () without other votes."""
    if not votes:
        return ()
    ballots = [claims, *([vote.get(claim.id, claim) for claim in claims] for vote in votes)]
    scores = [_scores(ballot) for ballot in ballots]
    return tuple(each for each in scores if each is not None)


def worth_escalating(claims: Sequence[Claim], *, criterion: PassCriterion, is_suspect: bool) -> tuple[Claim, ...]:
    """Return the claims that a second model should see: accused, doubtful or, in a suspect sample, supported ones.

    None of them when the answer passes or fails whatever is found: with every accused claim acquitted it still fails,
    and with every doubtful one dismissed it still passes.
    """
    accused = [claim for claim in claims if claim.verdict in _ACCUSATIONS or claim.verdict is Verdict.PARTIAL]
    trusted = [claim for claim in claims if claim.verdict is Verdict.SUPPORTED and (is_suspect or doubts(claim))]
    ids = {claim.id for claim in (*accused, *trusted)}
    best = _scores([_with(claim, Verdict.SUPPORTED) if claim.id in ids else claim for claim in claims])
    worst = _scores([_with(claim, Verdict.NOT_MENTIONED) if claim.id in ids else claim for claim in claims])
    if best is None or worst is None or criterion.passes(worst) or not criterion.passes(best):
        return ()
    return tuple(claim for claim in claims if claim.id in ids)


def escalated(claims: Sequence[Claim], second: Mapping[str, Claim]) -> tuple[Claim, ...]:
    """Return the claims after a second model's look.

    Verified evidence decides: an accusation without any gives way to support with it. Where both or neither have
    evidence, the lower support stands. Either way a claim on which they differ carries the flag `disputed`.
    """
    return tuple(_escalated(claim, second[claim.id]) if claim.id in second else claim for claim in claims)


def _escalated(first: Claim, second: Claim) -> Claim:
    if first.verdict is second.verdict:
        return replace(first, flags=(*first.flags, "escalated"))
    acquits = _has_evidence(second) and not doubts(second) and not _has_evidence(first)
    chosen = second if acquits else min(first, second, key=lambda claim: SUPPORT_BY_VERDICT.get(claim.verdict, 0.0))
    return replace(chosen, flags=(*chosen.flags, "escalated", "disputed"))


def _has_evidence(claim: Claim) -> bool:
    return any(evidence.verified for evidence in claim.evidence)


def _with(claim: Claim, verdict: Verdict) -> Claim:
    return replace(claim, verdict=verdict, support=SUPPORT_BY_VERDICT.get(verdict, 0.0))


def _scores(claims: Sequence[Claim]) -> Scores | None:
    return score(Judgement(tuple(claims), JudgeAccount(model=""), has_verdict_kinds=True))
