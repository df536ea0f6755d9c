"""Quality gates for continuous integration: bounds that results must meet."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal, cast, get_args

from plumbline.ground.errors import InvalidInput
from plumbline.schemas.report import ReportSummary, ReportTier, ScoreMean

GateScore = Literal["faithfulness", "faithfulness_strict", "hallucination_rate", "context_utilization", "passed_share"]

_SCORES: Final[tuple[str, ...]] = get_args(GateScore)
# The one score of which less is better.
_AT_MOST: Final = "hallucination_rate"
_TIERS: Final = ("llm", "embedding", "lexical")
# A mean that only rounding keeps from its bound has reached it.
_NOISE: Final = 1e-12
_LONGEST_QUOTED: Final = 60


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """The outcome of one gate: its name, the wanted and the found value in words."""

    name: str
    wanted: str
    got: str
    passed: bool


@dataclass(frozen=True, slots=True)
class CiGate:
    """A bound on the mean of a score: a minimum, except for `hallucination_rate`, a maximum.

    Args:
        bound: in [0, 1].
        tier: the tier whose rows it is about; None for each tier that scored rows, by itself.
    """

    score: GateScore
    bound: float
    tier: ReportTier | None = None

    def outcomes(self, summary: ReportSummary) -> tuple[GateOutcome, ...]:
        """Return one outcome per tier; a score that no row has fails."""
        chosen = [each for each in summary.tiers if self.tier in (None, each.tier)]
        means = [(each.tier, mean) for each in chosen if (mean := self._mean_of(each.scores)).rows]
        if not means:
            return (GateOutcome(self._name(self.tier), self._wanted, "no row has this score", passed=False),)
        is_alone = self.tier is None and len(summary.tiers) == 1
        return tuple(self._outcome(None if is_alone else tier, mean) for tier, mean in means)

    def _mean_of(self, scores: object) -> ScoreMean:
        mean: ScoreMean = getattr(scores, self.score)
        return mean

    def _outcome(self, tier: ReportTier | None, mean: ScoreMean) -> GateOutcome:
        value = mean.mean or 0.0
        passed = value <= self.bound + _NOISE if self.score == _AT_MOST else value >= self.bound - _NOISE
        return GateOutcome(self._name(tier), self._wanted, format_mean(mean), passed)

    def _name(self, tier: ReportTier | None) -> str:
        return self.score if tier is None else f"{tier}:{self.score}"

    @property
    def _wanted(self) -> str:
        return f"{'at most' if self.score == _AT_MOST else 'at least'} {self.bound:g}"


def parse_gate(spec: str) -> CiGate:
    """Parse a gate: `faithfulness=0.8`, or `llm:faithfulness=0.8` for the rows of one tier.

    Raises:
        InvalidInput: it names no score or tier, or no share.
    """
    name, equals, bound_text = spec.partition("=")
    tier, colon, score = name.strip().rpartition(":")
    if not equals:
        raise InvalidInput(f"found {_quoted(spec)}; expected a score and its bound, for example faithfulness=0.8")
    if score not in _SCORES:
        raise InvalidInput(f"unknown score {_quoted(score)}; expected {_or(_SCORES)}{_meant(score, _SCORES)}")
    if colon and tier not in _TIERS:
        raise InvalidInput(f"unknown tier {_quoted(tier)}; expected {_or(_TIERS)}{_meant(tier, _TIERS)}")
    chosen_tier = cast(ReportTier, tier) if colon else None
    return CiGate(cast(GateScore, score), parse_share(bound_text, place=score), chosen_tier)


def parse_share(text: str, *, place: str) -> float:
    """Parse a share in [0, 1].

    Raises:
        InvalidInput: it is none; `place` says whose.
    """
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0.0 <= share <= 1.0:
        raise InvalidInput(f"found {_quoted(text)}; expected a number from 0 to 1", place=place)
    return share


def max_degraded_outcome(summary: ReportSummary, most: float) -> GateOutcome:
    """Check the share of rows that fell to a lower tier or that no tier judged (`not_judged`).

    Args:
        most: share of all rows, in [0, 1].
    """
    degraded, not_judged = summary.degraded, summary.statuses.not_judged
    share = (degraded + not_judged) / summary.rows if summary.rows else None
    counts = f"{degraded:,} of a lower tier, {not_judged:,} of none, of {summary.rows:,} rows"
    got = "no rows" if share is None else f"{share:.4f} ({counts})"
    return GateOutcome("degraded", f"at most {most:g}", got, passed=share is not None and share <= most + _NOISE)


def baseline_outcomes(summary: ReportSummary, *, max_drop: float = 0.0) -> tuple[GateOutcome, ...]:
    """Check faithfulness against the baseline, tier by tier; fails without a pair.

    A tier fails when the whole interval of its paired mean difference lies below `-max_drop`: it got worse by more
    than that, and by more than which rows were drawn explains. With one pair, that pair decides.

    Args:
        max_drop: in [0, 1].
    """
    wanted = f"no drop beyond {max_drop:g}" if max_drop else "no drop"
    pairs = summary.comparison.tiers if summary.comparison else []
    if not pairs:
        return (GateOutcome("baseline", wanted, "no row has a pair in the baseline", passed=False),)
    return tuple(
        GateOutcome(
            "baseline" if len(pairs) == 1 else f"{each.tier}:baseline",
            wanted,
            format_mean(each.difference, signed=True),
            passed=_highest(each.difference) >= -max_drop - _NOISE,
        )
        for each in pairs
    )


def all_passed(outcomes: Iterable[GateOutcome]) -> bool:
    """Return True if every gate passed."""
    return all(outcome.passed for outcome in outcomes)


def format_mean(mean: ScoreMean, *, signed: bool = False) -> str:
    """Format a mean with its interval and number of rows."""
    if mean.mean is None:
        return "no row has this score"
    sign = "+" if signed else ""
    interval = "" if mean.low is None or mean.high is None else f" [{mean.low:{sign}.3f}, {mean.high:{sign}.3f}]"
    return f"{mean.mean:{sign}.3f}{interval}, {mean.rows:,} row{'' if mean.rows == 1 else 's'}"


def _highest(difference: ScoreMean) -> float:
    value = difference.mean if difference.high is None else difference.high
    return value or 0.0


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_QUOTED else f"{text[:_LONGEST_QUOTED]}…")


def _or(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _meant(name: str, names: tuple[str, ...]) -> str:
    close = get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""
