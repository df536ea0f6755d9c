"""Quality gates for continuous integration: bounds that results must meet, in one list for every way in."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from types import MappingProxyType
from typing import Final, cast

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.texts import CodedText, join_texts
from plumbline.schemas.report import (
    METRICS,
    GateOutcome,
    ReferenceMeans,
    ReportSummary,
    ReportTier,
    ScoreMean,
    ScoreMeans,
    metric_of,
)

_SCORES: Final = (
    *(name for name in ScoreMeans.model_fields if name != "metrics"), *ReferenceMeans.model_fields, *METRICS
)  # fmt: skip
# Of all rows with a reference: no tier takes part.
_OF_REFERENCE: Final = tuple(ReferenceMeans.model_fields)
# Of which less is better.
_AT_MOST: Final = ("hallucination_rate", "unsupported_share", "noise_sensitivity", "degraded", "abstained")
_TIERS: Final = ("llm", "detector", "embedding", "lexical")
# A mean that only rounding keeps from its bound has reached it.
_NOISE: Final = 1e-12
_NO_ROW: Final = ScoreMean(mean=None, low=None, high=None, rows=0)


@dataclass(frozen=True, slots=True)
class CiGate:
    """A bound on the mean of a score, or on a count of all rows.

    Args:
        score: one that every result has; a metric that was asked for, as `context_precision@5`; or a name of
            `_OF_ALL_ROWS`, as `judged`.
        bound: in [0, 1]: a minimum; a maximum for those of which less is better.
        tier: the tier whose rows count; None for each tier that scored rows, by itself.
    """

    score: str
    bound: float
    tier: ReportTier | None = None

    def outcomes(self, summary: ReportSummary) -> tuple[GateOutcome, ...]:
        """Return one outcome per tier, or for all rows; a score that no row has fails."""
        if self.score in _OF_ALL_ROWS:
            return tuple(_OF_ALL_ROWS[self.score](summary, self.bound))
        if self.score in _OF_REFERENCE:
            mean = getattr(summary.reference, self.score) or _NO_ROW
            return (self._outcome(None, mean, summary),)
        chosen = [each for each in summary.tiers if self.tier in (None, each.tier)]
        mean_by_tier: dict[ReportTier, ScoreMean] = {each.tier: _mean_of(each.scores, self.score) for each in chosen}
        is_alone = self.tier is None and len(summary.tiers) == 1
        outcomes = [(None if is_alone else tier, mean) for tier, mean in mean_by_tier.items() if mean.rows]
        none = (self.tier, _NO_ROW)
        return tuple(self._outcome(tier, mean, summary) for tier, mean in outcomes or [none])

    def _outcome(self, tier: ReportTier | None, mean: ScoreMean, summary: ReportSummary) -> GateOutcome:
        wanted, passed = _compare(self.score, mean.mean, self.bound)
        name = self.score if tier is None else f"{tier}:{self.score}"
        return GateOutcome(name=name, wanted=wanted, got=_with_rows(mean, summary), passed=passed)


# Results are complete, and decided: on by default wherever results are counted.
USUAL_GATES: Final = (CiGate("judged", 0.95), CiGate("decided", 0.5))


def judge_gates(summary: ReportSummary, gates: Iterable[CiGate]) -> list[GateOutcome]:
    """Return the outcomes of all gates; where no row was judged, one of them fails."""
    outcomes = [outcome for gate in gates for outcome in gate.outcomes(summary)]
    if outcomes and all_passed(outcomes) and not _judged(summary):
        outcomes.append(
            GateOutcome(name="judged", wanted=CodedText("a_row"), got=CodedText("no_row_judged"), passed=False)
        )
    return outcomes


def all_passed(outcomes: Iterable[GateOutcome]) -> bool:
    return all(outcome.passed for outcome in outcomes)


def with_usual(gates: Iterable[CiGate]) -> tuple[CiGate, ...]:
    """Return the gates, and the usual ones on what none of them is about."""
    given = tuple(gates)
    names = {gate.score for gate in given}
    return (*given, *(usual for usual in USUAL_GATES if usual.score not in names))


def parse_gate(spec: str) -> CiGate:
    """Parse a gate: `faithfulness=0.8`, `judged=0.9`, `llm:faithfulness=0.8` for one tier; raise InvalidInput."""
    name, equals, bound_text = spec.partition("=")
    tier, colon, score = name.strip().rpartition(":")
    if not equals:
        raise InvalidInput(f"found {quoted(spec)}; expected a score and its bound, for example faithfulness=0.8")
    if metric_of(score) is None:
        _check_known("score", score, (*_SCORES, *_OF_ALL_ROWS))
    if colon:
        _check_known("tier", tier, _TIERS)
        if score in (*_OF_REFERENCE, *_OF_ALL_ROWS):
            raise InvalidInput(f"{score} is of all rows; give it without a tier", place=score)
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
    """Parse a share in [0, 1]. Raises InvalidInput: it is none; `place` names it."""
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0.0 <= share <= 1.0:
        raise InvalidInput(f"found {quoted(text)}; expected a number from 0 to 1", place=place)
    return share


def _judged(summary: ReportSummary) -> int:
    """Count the rows that were judged; those without contexts score 0 unseen, and are none of them."""
    return summary.statuses.judged - sum(each.without_tier for each in summary.tiers)


def _judged_outcome(summary: ReportSummary, least: float) -> Iterator[GateOutcome]:
    """Check the share of judged rows; those that abstained are outside of both counts. A bound of 0 turns it off."""
    statuses, judged = summary.statuses, _judged(summary)
    without_contexts = statuses.judged - judged
    others = {
        CodedText("in_error", count=statuses.error): statuses.error,
        CodedText("not_judged", count=statuses.not_judged): statuses.not_judged,
        CodedText("without_contexts", count=without_contexts): without_contexts,
        CodedText("empty_answers", count=statuses.empty_answer): statuses.empty_answer,
        CodedText("unreadable_lines", count=summary.bad_lines): summary.bad_lines,
        CodedText("pending", count=summary.pending): summary.pending,
    }
    if least > 0:
        yield _share_outcome("judged", judged, judged + sum(others.values()), least, _list_counts(others))


def _decided_outcome(summary: ReportSummary, least: float) -> Iterator[GateOutcome]:
    """Check the share of judged rows that passed or failed: of the others their tier is unsure. 0 turns it off."""
    judged = summary.statuses.judged
    if least > 0 and summary.unsure:
        yield _share_outcome("decided", judged - summary.unsure, judged, least, CodedText("turn_on_a_judge"))


def _degraded_outcome(summary: ReportSummary, most: float) -> Iterator[GateOutcome]:
    """Check the share of rows that fell to a lower tier or have no verdict at all, be it for an error of the row."""
    statuses = summary.statuses
    counts = {
        CodedText("of_lower_tier", count=summary.degraded): summary.degraded,
        CodedText("not_judged", count=statuses.not_judged): statuses.not_judged,
        CodedText("in_error", count=statuses.error): statuses.error,
    }
    yield _share_outcome("degraded", sum(counts.values()), summary.rows, most, _list_counts(counts))


def _abstained_outcome(summary: ReportSummary, most: float) -> Iterator[GateOutcome]:
    """Check the share of rows that abstained: an answer that declines has no score to fail by."""
    yield _share_outcome("abstained", summary.statuses.abstained, summary.rows, most)


def _share_outcome(name: str, count: int, rows: int, bound: float, why: CodedText | None = None) -> GateOutcome:
    share = count / rows if rows else None
    wanted, passed = _compare(name, share, bound)
    if share is None:
        got = CodedText("no_rows")
    elif why is None:
        got = CodedText("share_of_rows", share=share, count=count, all=rows)
    else:
        got = CodedText("share_of_rows_with", share=share, count=count, all=rows, why=why)
    return GateOutcome(name=name, wanted=wanted, got=got, passed=passed)


def _list_counts(counts: Mapping[CodedText, int]) -> CodedText | None:
    said = [text for text, count in counts.items() if count]
    return reduce(lambda first, more: CodedText("and_more", first=first, more=more), said) if said else None


def _compare(score: str, found: float | None, bound: float) -> tuple[CodedText, bool]:
    """Return what is wanted of a score in words, and whether the found value is so; None never is."""
    if score in _AT_MOST:
        return CodedText("at_most_bound", bound=bound), found is not None and found <= bound + _NOISE
    return CodedText("at_least_bound", bound=bound), found is not None and found >= bound - _NOISE


def _baseline_outcomes(summary: ReportSummary, max_drop: float) -> Iterator[GateOutcome]:
    """Check faithfulness against the baseline, tier by tier; fails without a pair.

    A tier fails when the whole interval of its paired mean difference lies below `-max_drop`, in [-1, 0]: it got worse
    by more than that, and by more than chance explains. With one pair, that pair decides.
    """
    wanted = CodedText("no_drop_beyond", bound=max_drop) if max_drop else CodedText("no_drop")
    pairs = summary.comparison.tiers if summary.comparison else []
    if not pairs:
        yield GateOutcome(name="baseline", wanted=wanted, got=CodedText("no_pair"), passed=False)
    for each in pairs:
        name = "baseline" if len(pairs) == 1 else f"{each.tier}:baseline"
        difference = each.difference
        highest = difference.mean if difference.high is None else difference.high
        passed = (highest or 0.0) >= -max_drop - _NOISE
        got = _with_rows(difference, summary, sign="+")
        yield GateOutcome(name=name, wanted=wanted, got=got, passed=passed)


_PROMISE_CONFIDENCE: Final = 0.95


def _promise_outcomes(summary: ReportSummary, risk: float) -> Iterator[GateOutcome]:
    """Check, tier by tier, that at most `risk` of the answers that pass are unfaithful: the exact binomial tail.

    The labels are of rows drawn alike; without them, or with too few, the gate fails.
    """
    wanted = CodedText("promise", risk=risk, confidence=_PROMISE_CONFIDENCE)
    rates = summary.rates or []
    if not rates:
        yield GateOutcome(name="promise", wanted=wanted, got=CodedText("no_labels"), passed=False)
    for rate in rates:
        name = "promise" if len(rates) == 1 else f"{rate.tier}:promise"
        if (found := rate.agreement) is None:
            got = rate.refused or CodedText("no_label_drawn")
            yield GateOutcome(name=name, wanted=wanted, got=got, passed=False)
            continue
        bad, rows = found.unfaithful_passed, found.unfaithful_passed + found.faithful_passed
        tail = math.fsum(math.comb(rows, k) * risk**k * (1 - risk) ** (rows - k) for k in range(bad + 1))
        got, passed = CodedText("labelled_bad", bad=bad, all=rows), tail <= 1 - _PROMISE_CONFIDENCE + _NOISE
        yield GateOutcome(name=name, wanted=wanted, got=got, passed=passed)


# Gates on counts of all rows, on the pairs of a baseline, on labels: none takes the name of a tier.
_OF_ALL_ROWS: Final[Mapping[str, Callable[[ReportSummary, float], Iterator[GateOutcome]]]] = MappingProxyType(
    {
        "degraded": _degraded_outcome,
        "abstained": _abstained_outcome,
        "promise": _promise_outcomes,
        "baseline": _baseline_outcomes,
        "judged": _judged_outcome,
        "decided": _decided_outcome,
    }
)


def format_mean(mean: ScoreMean, *, sign: str = "") -> str:
    """Format a mean with its interval, `–` if unknown; with `sign="+"` its sign is always shown."""
    if mean.mean is None:
        return "–"
    interval = "" if mean.low is None or mean.high is None else f" [{mean.low:{sign}.3f}, {mean.high:{sign}.3f}]"
    return f"{mean.mean:{sign}.3f}{interval}"


def _with_rows(mean: ScoreMean, summary: ReportSummary, *, sign: str = "") -> str:
    """Return a mean in words with its rows, and how many no score counts because they abstained."""
    found = CodedText("no_row_with_score")
    if mean.mean is not None:
        shown = format_mean(mean, sign=sign)
        found = CodedText("mean_of_row", mean=shown)
        if mean.rows != 1:
            found = CodedText("mean_of_rows", mean=shown, count=mean.rows)
    count = summary.statuses.abstained
    return join_texts([found, CodedText("rows_abstained", count=count, all=summary.rows)]) if count else found
