"""The report on many rows as JSON: counts, means with intervals, what costs, and the comparison with a baseline."""

from typing import Literal

from pydantic import Field

from plumbline.schemas.batch import TierCounts
from plumbline.schemas.evaluation import PassRule, UsageItem, VerdictCounts
from plumbline.schemas.wire import WireModel

ReportLanguage = Literal["en", "zh"]
ReportFormat = Literal["html", "json"]
# `none`: decided without a tier, as an answer to no contexts at all is.
ReportTier = Literal["llm", "embedding", "lexical", "none"]
ReportRowStatus = Literal["judged", "abstained", "empty_answer", "not_judged", "error"]
LEVEL = 0.95


class ScoreMean(WireModel):
    """A mean over rows with its 95 % interval."""

    mean: float | None = Field(description="Null where no row has the score.")
    low: float | None = Field(description="Null below two rows.")
    high: float | None
    rows: int = Field(ge=0, description="Rows that have the score.")


class ScoreMeans(WireModel):
    """The means over one group of judged rows."""

    faithfulness: ScoreMean
    faithfulness_strict: ScoreMean
    hallucination_rate: ScoreMean
    context_utilization: ScoreMean
    lowest_support: ScoreMean = Field(description="Mean of each row's least supported claim.")
    passed_share: ScoreMean = Field(description="Share of the rows that passed, each by its `passed_by`.")
    unsupported_share: ScoreMean = Field(description="Share of the rows with a claim that is not `supported`.")


class ReferenceMeans(WireModel):
    """The means over all rows with a reference, whatever their status: an abstained answer has no token right."""

    token_f1: ScoreMean
    exact_match: ScoreMean


class TierReport(WireModel):
    """Report on one tier. Scores of different tiers are not comparable."""

    tier: ReportTier
    judged: int = Field(description="Rows that have a score of this tier, those in `without_tier` included.")
    without_tier: int = Field(
        description="Rows of them that no tier was asked about: an answer to no contexts scores 0 on every scale. They "
        "count with the tier that scored most rows."
    )
    passed: int
    passed_by: dict[PassRule, int] = Field(description="Rows, passed or not, by the rule that decided.")
    degraded: int = Field(description="Rows that this tier answered after another had failed.")
    scores: ScoreMeans
    histogram: list[int] = Field(
        description="Rows by faithfulness in 20 equal parts of [0, 1]; each part holds its lower end, the last 1 too."
    )
    verdicts: VerdictCounts = Field(description="Claims by verdict.")


class StatusCounts(WireModel):
    """Rows by status."""

    judged: int = 0
    abstained: int = 0
    empty_answer: int = 0
    not_judged: int = 0
    error: int = 0


class WorstRow(WireModel):
    """A row among the worst of its tier, in short."""

    custom_id: str
    row: int
    tier: ReportTier
    faithfulness: float
    passed: bool | None
    passed_by: PassRule | None
    lowest_support: float | None
    unsupported_claims: int | None
    verdicts: VerdictCounts


class RowMove(WireModel):
    """A row that scored otherwise than in the baseline; `difference` = now - before."""

    custom_id: str
    row: int
    tier: ReportTier
    before: float
    now: float
    difference: float


class TierComparison(WireModel):
    """Rows of one tier, paired with the baseline's by `custom_id`."""

    tier: ReportTier
    paired: int
    difference: ScoreMean = Field(description="Mean of faithfulness now - before over the pairs, with its interval.")
    better: int
    equal: int
    worse: int
    newly_failing: int = Field(
        description="Pairs that passed in the baseline and fail now, decided by the same rule; so `newly_passing`."
    )
    newly_passing: int


class Comparison(WireModel):
    """This file against a baseline: pairs have one `custom_id` and one tier, and both have a score."""

    tiers: list[TierComparison]
    other_tier: int = Field(description="Rows in both files, scored by different tiers: not compared.")
    only_here: int = Field(description="Scored rows here that have no scored row in the baseline.")
    only_in_baseline: int = Field(description="Scored rows of the baseline that have no scored row here.")
    repeated_ids: int = Field(description="Rows of either file whose custom_id was there before: not compared.")
    baseline_rows: int
    baseline_bad_lines: int
    worse: list[RowMove] = Field(description="Those that lost most, worst first.")
    better: list[RowMove] = Field(description="Those that won most, best first.")


class BadLine(WireModel):
    """A line that is no row of results."""

    line: int = Field(ge=1)
    problem: str


class ReportSummary(WireModel):
    """The report in numbers: rows = judged + abstained + empty_answer + not_judged + error."""

    rows: int = Field(description="Lines that could be read.")
    statuses: StatusCounts
    passed: int
    degraded: int = Field(description="Rows that a lower tier answered after one had failed.")
    tier_counts: TierCounts = Field(description="Rows that each tier answered, those without a score included.")
    statuses_by_tier: dict[ReportTier, StatusCounts] = Field(
        description="`none`: no tier was needed or none could answer."
    )
    tiers: list[TierReport] = Field(
        description="Tiers with judged rows: llm, embedding, lexical; `none` only where no tier was asked. at all."
    )
    all_tiers: ScoreMeans = Field(
        description="Over all judged rows. Where `tiers` has more than one entry these are mixed scales: read `tiers`."
    )
    reference: ReferenceMeans = Field(description="Of answers with their reference; no tier takes part.")
    usage: UsageItem = Field(description="Of all results together; `cost` is null when one of them is not known.")
    known_cost: float = Field(description="Of the results whose cost is known.")
    rows_of_unknown_cost: int
    flags: dict[str, int] = Field(description="How many results carry each flag, most first; at most 50 flags.")
    worst: list[WorstRow] = Field(description="Lowest faithfulness first; each tier has its share of the places.")
    comparison: Comparison | None
    bad_lines: int = Field(description="Lines that were skipped.")
    first_bad_lines: list[BadLine] = Field(description="At most 20.")
    interval_method: str
