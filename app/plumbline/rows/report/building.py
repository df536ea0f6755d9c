"""Reports built from lines of results, in one pass and bounded memory."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import msgspec

from plumbline.ground.texts import CodedText
from plumbline.rows.report.comparison import Baseline, ComparisonTally
from plumbline.rows.report.gates import USUAL_GATES, CiGate, judge_gates
from plumbline.rows.report.labelled_rates import RateTally, RowLabel
from plumbline.rows.report.result_lines import ResultRow, read_line
from plumbline.rows.report.shown_rows import KeptRow, KeptRows
from plumbline.rows.report.tallies import METHOD, TIERS, RowTally, ScoreTallies, TierTally
from plumbline.schemas.report import BadLine, ReportSummary, ReportTier, WorstRow
from plumbline.schemas.result_parts import VerdictCounts

DEFAULT_WORST: Final = 200
_MOST_BAD_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class Report:
    """The report on the results of one or several files.

    Args:
        summary: everything that is counted, and the outcomes of the gates.
        worst: the rows with the lowest faithfulness, tier by tier.
        unscored: rows without a score, errors first; at most 50 of each status.
    """

    summary: ReportSummary
    worst: tuple[KeptRow, ...]
    unscored: tuple[KeptRow, ...]


class ReportBuilder:
    """Builder of a report from lines of results, one at a time.

    Args:
        worst: how many of the worst rows are shown, 0 to 10,000.
        baseline: the results to compare with.
        labels: of some rows, by custom_id or number; none: no rates.
        gates: judged on all rows.

    Attributes:
        tally: the counts so far.
    """

    def __init__(
        self,
        *,
        worst: int = DEFAULT_WORST,
        baseline: Baseline | None = None,
        labels: Mapping[str | int, RowLabel] = MappingProxyType({}),
        gates: Sequence[CiGate] = USUAL_GATES,
    ) -> None:
        self._gates = gates
        self._rates = RateTally(labels) if labels else None
        self.tally = RowTally()
        self._tiers: dict[ReportTier, TierTally] = {}
        self._kept = KeptRows(worst)
        self._comparison = None if baseline is None else ComparisonTally(baseline)
        self._lines = self._bad_lines = 0
        self._file = ""
        self._first_bad_lines: list[BadLine] = []

    @property
    def rows(self) -> int:
        return self.tally.rows

    def begin_file(self, name: str = "") -> None:
        """Count lines from 1 again; problems of lines name the file if it has a name."""
        self._lines, self._file = 0, name

    def add(self, line: bytes | None) -> BadLine | None:
        """Add a line, with or without its end; None is a line too long to read. Blank lines are no rows.

        Returns the problem of a line that is no row.
        """
        self._lines += 1
        if line is not None and not line.strip():
            return None
        row = read_line(line)
        if isinstance(row, str):
            self._bad_lines += 1
            problem = CodedText("at_place", place=self._file, detail=row) if self._file else row
            bad = BadLine(line=self._lines, problem=problem)
            if len(self._first_bad_lines) < _MOST_BAD_LINES:
                self._first_bad_lines.append(bad)
            return bad
        self.add_row(row, size=len(line or b""))
        return None

    def add_row(self, row: ResultRow, *, size: int) -> None:
        """Add a decoded row, of a line of `size` bytes."""
        self.tally.add(row)
        scored = row.scored
        if scored is not None and row.result is not None:
            self._tiers.setdefault(scored.tier, TierTally(scored.tier)).add(row.result, scored.faithfulness)
        self._kept.add(row, size=size)
        if self._comparison is not None:
            self._comparison.add(row)
        if self._rates is not None:
            self._rates.add_row(row)

    def report(self, *, pending: int = 0) -> Report:
        """Return the report on the lines so far, of a run with so many more rows `pending`."""
        tallies = [copy.deepcopy(self._tiers[tier]) for tier in TIERS if tier in self._tiers]
        # Rows without a tier are added to the largest one
        if len(tallies) > 1 and tallies[-1].tier == "none":
            max(tallies[:-1], key=lambda tally: tally.judged).take_in(tallies.pop())
        statuses = self.tally.statuses()
        # Rows without a verdict did not pass; they are added to the largest tier, too
        unjudged = statuses.error + statuses.not_judged + statuses.empty_answer + self._bad_lines
        if tallies and unjudged:
            max(tallies, key=lambda tally: tally.judged).scores.by_name["passed_share"].add(0.0, unjudged)
        means = [tally.scores.means() for tally in tallies]
        # The means of one tier need not be drawn again
        is_alone = len(means) == 1
        worst = self._kept.worst()
        summary = ReportSummary(
            rows=self.tally.rows,
            statuses=statuses,
            passed=self.tally.passed,
            unsure=self.tally.unsure,
            pending=pending,
            degraded=self.tally.degraded,
            tier_counts=self.tally.tier_counts(),
            statuses_by_tier=self.tally.statuses_by_tier(),
            tiers=[tally.report(each) for tally, each in zip(tallies, means, strict=True)],
            all_tiers=means[0] if is_alone else ScoreTallies(tally.scores for tally in tallies).means(),
            reference=self.tally.reference(),
            usage=self.tally.usage(),
            known_cost=self.tally.known_cost,
            rows_of_unknown_cost=self.tally.rows_of_unknown_cost,
            flags=self.tally.flags(),
            worst=[short for kept in worst if (short := _in_short(kept.row)) is not None],
            comparison=None if self._comparison is None else self._comparison.comparison(),
            rates=None if self._rates is None else self._rates.rates(),
            bad_lines=self._bad_lines,
            first_bad_lines=self._first_bad_lines,
            interval_method=METHOD,
        )
        outcomes = judge_gates(summary, self._gates)
        return Report(summary.model_copy(update={"gates": outcomes}), worst, self._kept.unscored())


def _in_short(row: ResultRow) -> WorstRow | None:
    scored = row.scored
    if scored is None or row.result is None:
        return None
    decision, scores = row.result.decision, row.result.scores
    return WorstRow(
        custom_id=scored.custom_id,
        row=row.row,
        tier=scored.tier,
        faithfulness=scored.faithfulness,
        passed=row.result.passed,
        passed_by=decision and decision.rule,
        lowest_support=scores.lowest_support,
        unsupported_claims=scores.unsupported_claims,
        verdicts=VerdictCounts(**msgspec.structs.asdict(row.result.counts)),
    )
