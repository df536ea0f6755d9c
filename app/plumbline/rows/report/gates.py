"""Quality gates for continuous integration: bounds that results must meet."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, cast

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.schemas.report import (
    METRICS,
    ReferenceMeans,
    ReportSummary,
    ReportTier,
    ScoreMean,
    ScoreMeans,
    metric_of,
)

_SCORES: Final = (
    "faithfulness",
    "faithfulness_strict",
    "hallucination_rate",
    "context_utilization",
    "lowest_support",
    "passed_share",
    "unsupported_share",
    "citation_recall",
    "citation_precision",
    *ReferenceMeans.model_fields,
    *METRICS,
)
# Scores of which less is better.
_AT_MOST: Final = ("hallucination_rate", "unsupported_share", "noise_sensitivity")
# Of all rows with a reference: no tier takes part.
_OF_REFERENCE: Final = tuple(ReferenceMeans.model_fields)
_TIERS: Final = ("llm", "detector", "embedding", "lexical")
# A mean that only rounding keeps from its bound has reached it.
_NOISE: Final = 1e-12
_NO_ROW: Final = ScoreMean(mean=None, low=None, high=None, rows=0)


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """The outcome of one gate: its name, the wanted and the found value in words."""

    name: str
    wanted: str
    got: str
    passed: bool


@dataclass(frozen=True, slots=True)
class CiGate:
    """A bound on the mean of a score: a minimum; a maximum for those of which less is better.

    Args:
        score: one that every result has, or a metric that was asked for, as `context_precision@5`.
        bound: in [0, 1].
        tier: the tier whose rows count; None for each tier that scored rows, by itself.
    """

    score: str
    bound: float
    tier: ReportTier | None = None

    def outcomes(self, summary: ReportSummary) -> tuple[GateOutcome, ...]:
        """Return one outcome per tier; a score that no row has fails."""
        if self.score in _OF_REFERENCE:
            mean = getattr(summary.reference, self.score) or _NO_ROW
            return (self._outcome(None, mean, _abstained(summary)),)
        chosen = [each for each in summary.tiers if self.tier in (None, each.tier)]
        mean_by_tier: dict[ReportTier, ScoreMean] = {each.tier: _mean_of(each.scores, self.score) for each in chosen}
        is_alone = self.tier is None and len(summary.tiers) == 1
        outcomes = [(None if is_alone else tier, mean) for tier, mean in mean_by_tier.items() if mean.rows]
        none = (self.tier, _NO_ROW)
        return tuple(self._outcome(tier, mean, _abstained(summary)) for tier, mean in outcomes or [none])

    def _outcome(self, tier: ReportTier | None, mean: ScoreMean, abstained: str) -> GateOutcome:
        name = self.score if tier is None else f"{tier}:{self.score}"
        sense, excess = ("at most", -1.0) if self.score in _AT_MOST else ("at least", 1.0)
        passed = mean.mean is not None and excess * (mean.mean - self.bound) >= -_NOISE
        return GateOutcome(name, f"{sense} {self.bound:g}", _with_rows(mean) + abstained, passed)


def parse_gate(spec: str) -> CiGate:
    """Parse a gate: `faithfulness=0.8`, or `llm:faithfulness=0.8` for the rows of one tier.

    Raises:
        InvalidInput: unknown score or tier, or a bound that is no share.
    """
    name, equals, bound_text = spec.partition("=")
    tier, colon, score = name.strip().rpartition(":")
    if not equals:
        raise InvalidInput(f"found {quoted(spec)}; expected a score and its bound, for example faithfulness=0.8")
    if metric_of(score) is None:
        _check_known("score", score, _SCORES)
    if colon:
        _check_known("tier", tier, _TIERS)
        if score in _OF_REFERENCE:
            raise InvalidInput(f"{score} is of the reference alone; give it without a tier", place=score)
    chosen_tier = cast(ReportTier, tier) if colon else None
    return CiGate(score, parse_share(bound_text, place=score), chosen_tier)


def _mean_of(scores: ScoreMeans, name: str) -> ScoreMean:
    if metric_of(name) is None:
        found: ScoreMean = getattr(scores, name)
        return found
    return (scores.metrics or {}).get(name, _NO_ROW)


def _check_known(kind: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InvalidInput(f"unknown {kind} {quoted(name)}; expected {', '.join(known[:-1])} or {known[-1]}{hint}")


def parse_share(text: str, *, place: str) -> float:
    """Parse a share in [0, 1].

    Raises:
        InvalidInput: it is none; `place` names it.
    """
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0.0 <= share <= 1.0:
        raise InvalidInput(f"found {quoted(text)}; expected a number from 0 to 1", place=place)
    return share


def max_degraded_outcome(summary: ReportSummary, most: float) -> GateOutcome:
    """Check that at most the share `most` of all rows fell to a lower tier or was judged by none (`not_judged`)."""
    degraded, not_judged = summary.degraded, summary.statuses.not_judged
    share = (degraded + not_judged) / summary.rows if summary.rows else None
    counts = f"{degraded:,} of a lower tier, {not_judged:,} of none, of {summary.rows:,} rows"
    got = "no rows" if share is None else f"{share:.4f} ({counts})"
    return GateOutcome("degraded", f"at most {most:g}", got, passed=share is not None and share <= most + _NOISE)


def min_judged_outcome(summary: ReportSummary, least: float) -> GateOutcome:
    """Check that at least the share `least` of the rows was judged; rows that abstained are outside of both counts."""
    judged, of_rows = summary.statuses.judged, summary.rows - summary.statuses.abstained
    share = judged / of_rows if of_rows else None
    got = "no rows to judge" if share is None else f"{share:.4f} ({judged:,} of {of_rows:,} rows)"
    return GateOutcome("judged", f"at least {least:g}", got, passed=share is not None and share >= least - _NOISE)


def max_abstained_outcome(summary: ReportSummary, most: float) -> GateOutcome:
    """Check that at most the share `most` of all rows abstained: who declines to answer has no score to fail by."""
    share = summary.statuses.abstained / summary.rows if summary.rows else None
    got = "no rows" if share is None else f"{share:.4f} ({summary.statuses.abstained:,} of {summary.rows:,} rows)"
    return GateOutcome("abstained", f"at most {most:g}", got, passed=share is not None and share <= most + _NOISE)


def baseline_outcomes(summary: ReportSummary, *, max_drop: float = 0.0) -> tuple[GateOutcome, ...]:
    """Check faithfulness against the baseline, tier by tier; fails without a pair.

    A tier fails when the whole interval of its paired mean difference lies below `-max_drop`, in [-1, 0]: it got worse
    by more than that, and by more than chance explains. With one pair, that pair decides.
    """
    wanted = f"no drop beyond {max_drop:g}" if max_drop else "no drop"
    pairs = summary.comparison.tiers if summary.comparison else []
    if not pairs:
        return (GateOutcome("baseline", wanted, "no row has a pair in the baseline", passed=False),)
    outcomes = []
    for each in pairs:
        name = "baseline" if len(pairs) == 1 else f"{each.tier}:baseline"
        difference = each.difference
        highest = difference.mean if difference.high is None else difference.high
        passed = (highest or 0.0) >= -max_drop - _NOISE
        got = _with_rows(difference, sign="+") + _abstained(summary)
        outcomes.append(GateOutcome(name, wanted, got, passed))
    return tuple(outcomes)


def promise_outcomes(summary: ReportSummary, risk: float, *, confidence: float = 0.95) -> tuple[GateOutcome, ...]:
    """Check, tier by tier, that at most `risk` of the answers that pass are unfaithful: the exact binomial tail.

    The labels are of rows drawn alike; without them, or with too few, the gate fails.
    """
    wanted = f"at most {risk:g} of what passes unfaithful, confidence {confidence:g}"
    outcomes = []
    for rate in summary.rates or ():
        name = "promise" if len(summary.rates or ()) == 1 else f"{rate.tier}:promise"
        if (found := rate.agreement) is None:
            got = rate.refused or "no label of a row with a decision that was drawn alike"
            outcomes.append(GateOutcome(name, wanted, got, passed=False))
            continue
        bad, passed = found.unfaithful_passed, found.unfaithful_passed + found.faithful_passed
        tail = math.fsum(math.comb(passed, k) * risk**k * (1 - risk) ** (passed - k) for k in range(bad + 1))
        got = f"{bad:,} of {passed:,} labelled rows that pass"
        outcomes.append(GateOutcome(name, wanted, got, passed=tail <= 1 - confidence + _NOISE))
    return tuple(outcomes) or (GateOutcome("promise", wanted, "no labels; give --labels", passed=False),)


def all_passed(outcomes: Iterable[GateOutcome]) -> bool:
    """Return True if every gate passed."""
    return all(outcome.passed for outcome in outcomes)


def format_mean(mean: ScoreMean, *, sign: str = "") -> str:
    """Format a mean with its interval, `–` if unknown; with `sign="+"` its sign is always shown."""
    if mean.mean is None:
        return "–"
    interval = "" if mean.low is None or mean.high is None else f" [{mean.low:{sign}.3f}, {mean.high:{sign}.3f}]"
    return f"{mean.mean:{sign}.3f}{interval}"


def _with_rows(mean: ScoreMean, *, sign: str = "") -> str:
    if mean.mean is None:
        return "no row has this score"
    return f"{format_mean(mean, sign=sign)}, {mean.rows:,} row{'' if mean.rows == 1 else 's'}"


def _abstained(summary: ReportSummary) -> str:
    """Say how many rows no score counts because they abstained; nothing if none did."""
    count = summary.statuses.abstained
    return f"; {count:,} of {summary.rows:,} rows abstained" if count else ""
