"""Reports built from lines of results, in one pass and bounded memory."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import msgspec

from plumbline.ground.texts import CodedText
from plumbline.rows.report.baseline import Baseline, ComparisonTally
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
        summary: everything that is counted.
        worst: the rows with the lowest faithfulness, tier by tier.
        unscored: rows without a score, errors first; at most 50 of each status.
    """

    summary: ReportSummary
    worst: tuple[KeptRow, ...]
    unscored: tuple[KeptRow, ...]

    @property
    def shown_ids(self) -> frozenset[str]:
        """Return the custom_ids of the rows that are shown."""
        return frozenset(kept.row.custom_id for kept in (*self.worst, *self.unscored) if kept.row.custom_id is not None)


class ReportBuilder:
    """Builder of a report from lines of results, one at a time.

    Args:
        worst: how many of the worst rows are shown, 0 to 10,000.
        baseline: the results to compare with.
        labels: of some rows, by custom_id or number; none: no rates.
    """

    def __init__(
        self,
        *,
        worst: int = DEFAULT_WORST,
        baseline: Baseline | None = None,
        labels: Mapping[str | int, RowLabel] = MappingProxyType({}),
    ) -> None:
        self._rates = RateTally(labels) if labels else None
        self._rows = RowTally()
        self._tiers: dict[ReportTier, TierTally] = {}
        self._kept = KeptRows(worst)
        self._comparison = None if baseline is None else ComparisonTally(baseline)
        self._lines = self._bad_lines = 0
        self._file = ""
        self._first_bad_lines: list[BadLine] = []

    @property
    def rows(self) -> int:
        return self._rows.rows

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
        self._rows.add(row)
        scored = row.scored
        if scored is not None and row.result is not None:
            self._tiers.setdefault(scored.tier, TierTally(scored.tier)).add(row.result, scored.faithfulness)
        self._kept.add(row, size=len(line or b""))
        if self._comparison is not None:
            self._comparison.add(row)
        if self._rates is not None:
            self._rates.add_row(row)
        return None

    def report(self) -> Report:
        tallies = [copy.deepcopy(self._tiers[tier]) for tier in TIERS if tier in self._tiers]
        # Rows without a tier are added to the largest one
        if len(tallies) > 1 and tallies[-1].tier == "none":
            max(tallies[:-1], key=lambda tally: tally.judged).take_in(tallies.pop())
        means = [tally.scores.means() for tally in tallies]
        # The means of one tier need not be drawn again
        is_alone = len(means) == 1
        worst = self._kept.worst()
        summary = ReportSummary(
            rows=self._rows.rows,
            statuses=self._rows.statuses(),
            passed=sum(tally.passed for tally in tallies),
            degraded=self._rows.degraded,
            tier_counts=self._rows.tier_counts(),
            statuses_by_tier=self._rows.statuses_by_tier(),
            tiers=[tally.report(each) for tally, each in zip(tallies, means, strict=True)],
            all_tiers=means[0] if is_alone else ScoreTallies.merged([tally.scores for tally in tallies]).means(),
            reference=self._rows.reference(),
            usage=self._rows.usage(),
            known_cost=self._rows.known_cost,
            rows_of_unknown_cost=self._rows.rows_of_unknown_cost,
            flags=self._rows.flags(),
            worst=[short for kept in worst if (short := _in_short(kept.row)) is not None],
            comparison=None if self._comparison is None else self._comparison.comparison(),
            rates=None if self._rates is None else self._rates.rates(),
            bad_lines=self._bad_lines,
            first_bad_lines=self._first_bad_lines,
            interval_method=METHOD,
        )
        return Report(summary, worst, self._kept.unscored())


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
