"""Reports built from lines of results, in one pass and bounded memory."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from plumbline.rows.report.baseline import Baseline, ComparisonTally
from plumbline.rows.report.result_lines import LineProblem, LineReader, ResultRow
from plumbline.rows.report.shown_rows import KeptRow, KeptRows
from plumbline.rows.report.tallies import METHOD, TIERS, RowTally, ScoreTallies, TierTally, verdict_counts
from plumbline.schemas.evaluation import VerdictCounts
from plumbline.schemas.report import BadLine, Comparison, ReportSummary, ReportTier, ScoreMeans, WorstRow

DEFAULT_WORST: Final = 200
MOST_WORST: Final = 10_000
_MOST_BAD_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class Report:
    """The report on one file of results.

    Args:
        summary: everything that is counted.
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
    """

    def __init__(self, *, worst: int = DEFAULT_WORST, baseline: Baseline | None = None) -> None:
        self._reader = LineReader()
        self._rows = RowTally()
        self._tiers: dict[ReportTier, TierTally] = {}
        self._kept = KeptRows(worst)
        self._comparison = None if baseline is None else ComparisonTally(baseline)
        self._lines = self._bad_lines = 0
        self._first_bad_lines: list[BadLine] = []

    @property
    def rows(self) -> int:
        """The number of rows read so far."""
        return self._rows.rows

    def add(self, line: bytes | None) -> BadLine | None:
        """Add a line, with or without its end; None stands for a line too long to read.

        Blank lines are no rows. A line that is no row is counted as such, and said.
        """
        self._lines += 1
        if line is not None and not line.strip():
            return None
        read = self._reader.read(line)
        if isinstance(read, LineProblem):
            return self._bad(read)
        self._add_row(read, size=len(line or b""))
        return None

    def _add_row(self, row: ResultRow, *, size: int) -> None:
        self._rows.add(row)
        scored = row.scored
        if scored is not None and row.result is not None:
            self._tiers.setdefault(scored.tier, TierTally(scored.tier)).add(row.result, scored.faithfulness)
        self._kept.add(row, size=size)
        if self._comparison is not None:
            self._comparison.add(row)

    def _bad(self, found: LineProblem) -> BadLine:
        self._bad_lines += 1
        bad = BadLine(line=self._lines, problem=found.problem)
        if len(self._first_bad_lines) < _MOST_BAD_LINES:
            self._first_bad_lines.append(bad)
        return bad

    def report(self) -> Report:
        """Return the report on the lines so far."""
        worst = self._kept.worst()
        return Report(self._summary(worst), worst, self._kept.unscored())

    def _summary(self, worst: tuple[KeptRow, ...]) -> ReportSummary:
        tallies = self._tier_tallies()
        means = [tally.scores.means() for tally in tallies]
        return ReportSummary(
            rows=self._rows.rows,
            statuses=self._rows.statuses(),
            passed=sum(tally.passed for tally in tallies),
            degraded=self._rows.degraded,
            tier_counts=self._rows.tier_counts(),
            statuses_by_tier=self._rows.statuses_by_tier(),
            tiers=[tally.report(each) for tally, each in zip(tallies, means, strict=True)],
            all_tiers=_over_all(tallies, means),
            usage=self._rows.usage(),
            known_cost=self._rows.known_cost,
            rows_of_unknown_cost=self._rows.rows_of_unknown_cost,
            flags=self._rows.flags(),
            worst=[short for kept in worst if (short := _in_short(kept.row)) is not None],
            comparison=self._compared(),
            bad_lines=self._bad_lines,
            first_bad_lines=self._first_bad_lines,
            interval_method=METHOD,
        )

    def _tier_tallies(self) -> list[TierTally]:
        """Return the tiers with judged rows; rows without a tier are added to the largest one."""
        tallies = [copy.deepcopy(self._tiers[tier]) for tier in TIERS if tier in self._tiers]
        if len(tallies) > 1 and tallies[-1].tier == "none":
            max(tallies[:-1], key=lambda tally: tally.judged).take_in(tallies.pop())
        return tallies

    def _compared(self) -> Comparison | None:
        return None if self._comparison is None else self._comparison.comparison()


def build_report(
    lines: Iterable[bytes | None], *, worst: int = DEFAULT_WORST, baseline_lines: Iterable[bytes | None] | None = None
) -> Report:
    """Build the report on lines of results, see `ReportBuilder`."""
    baseline = None if baseline_lines is None else Baseline(baseline_lines)
    builder = ReportBuilder(worst=worst, baseline=baseline)
    for line in lines:
        builder.add(line)
    return builder.report()


def _over_all(tallies: list[TierTally], means: list[ScoreMeans]) -> ScoreMeans:
    # One tier: its own, which need not be drawn again.
    return means[0] if len(means) == 1 else ScoreTallies.merged([tally.scores for tally in tallies]).means()


def _in_short(row: ResultRow) -> WorstRow | None:
    scored = row.scored
    if scored is None or row.result is None:
        return None
    counts = row.result.counts
    verdicts = dict(zip(counts.__struct_fields__, verdict_counts(counts), strict=True))
    return WorstRow(
        custom_id=scored.custom_id,
        row=row.row,
        tier=scored.tier,
        faithfulness=scored.faithfulness,
        passed=row.result.passed,
        verdicts=VerdictCounts(**verdicts),
    )
