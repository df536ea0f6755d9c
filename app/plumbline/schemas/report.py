"""Reports on many rows as JSON (counts, means, costs, the comparison with a baseline), and rates by labels."""

from typing import Final, Literal

from pydantic import Field

from plumbline.ground.texts import Language
from plumbline.schemas.batch import TierCounts
from plumbline.schemas.result_parts import PassRule, UsageItem, VerdictCounts
from plumbline.schemas.wire import OurText, SparseModel, WireModel

ReportLanguage = Language
ReportFormat = Literal["html", "json"]
# `none`: decided without a tier, as an answer to no contexts at all is.
ReportTier = Literal["llm", "detector", "embedding", "lexical", "none"]
ReportRowStatus = Literal["judged", "abstained", "empty_answer", "not_judged", "error"]
LEVEL = 0.95
# Judged on request, beside the scores that every result has; `context_precision` is known with a depth, too (`@5`).
METRICS: Final = (
    "answer_relevance",
    "context_relevance",
    "context_precision",
    "context_recall",
    "correctness",
    "noise_sensitivity",
)


_DEEPEST: Final = 1_000


class ScoreMean(WireModel):
    """A mean over rows with its 95 % interval."""

    mean: float | None = Field(description="Null where no row has the score.")
    low: float | None = Field(description="Null below two rows.")
    high: float | None
    rows: int = Field(ge=0, description="Rows that have the score.")


class ScoreMeans(SparseModel):
    """The means over one group of judged rows."""

    faithfulness: ScoreMean
    faithfulness_strict: ScoreMean
    hallucination_rate: ScoreMean
    context_utilization: ScoreMean
    lowest_support: ScoreMean = Field(description="Mean of each row's least supported claim.")
    passed_share: ScoreMean = Field(
        description="Share of the rows that passed, each by its `passed_by`. Unsure rows did not; nor did rows in "
        "error, `not_judged` or with an empty answer, which count with the tier that scored most rows."
    )
    unsupported_share: ScoreMean = Field(description="Share of the rows with a claim that is not `supported`.")
    citation_recall: ScoreMean = Field(description="Of the rows whose answer has citation marks, as the next.")
    citation_precision: ScoreMean
    metrics: dict[str, ScoreMean] | None = Field(
        default=None, description="Of the metrics that rows were asked for; left out without any."
    )


def metric_of(name: str) -> str | None:
    """Return the metric of a name with or without a depth, `context_precision` of `context_precision@5`; else None.

    Those of a caller's own are `criterion_NAME`.
    """
    if name.startswith("criterion_"):
        return name
    bare, at, depth = name.partition("@")
    has_depth = bare == "context_precision" and depth.isdecimal() and 0 < int(depth) < _DEEPEST
    return bare if bare in METRICS and (has_depth or not at) else None


class ReferenceMeans(SparseModel):
    """The means over all rows with a reference, whatever their status: an abstained answer has no token right."""

    token_f1: ScoreMean
    exact_match: ScoreMean
    bleu: ScoreMean | None = Field(
        default=None, description="Of rows that were asked for it, as the next three; else left out."
    )
    chrf: ScoreMean | None = None
    gleu: ScoreMean | None = None
    token_set_f1: ScoreMean | None = None


class TierReport(WireModel):
    """Report on one tier. Scores of different tiers are not comparable."""

    tier: ReportTier
    judged: int = Field(description="Rows that have a score of this tier, those in `without_tier` included.")
    without_tier: int = Field(
        description="Rows of them that no tier was asked about: an answer to no contexts scores 0 on every scale. They "
        "count with the tier that scored most rows."
    )
    passed: int
    unsure: int = Field(default=0, description="Judged rows of which `passed` is null: they neither passed nor failed.")
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
    difference: ScoreMean = Field(
        description="Mean of faithfulness now - before over the pairs, with its interval; null below four pairs."
    )
    p_value: float = Field(description="Two-sided, of no difference, by the method of the interval: random signs.")
    better: int
    equal: int
    worse: int
    newly_failing: int = Field(
        description="Pairs that passed in the baseline and fail now, decided by the same rule; so `newly_passing`."
    )
    newly_passing: int
    flip_p_value: float = Field(description="Of as many changes either way by chance: McNemar's exact test.")


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
    problem: OurText


class ShareEstimate(WireModel):
    """A share in [0, 1] with its 95 % interval."""

    share: float
    low: float
    high: float


class RateEstimate(WireModel):
    """Share of unfaithful answers, from labels of some rows and the scores of all."""

    corrected: ShareEstimate = Field(description="Corrected by the scores of the rows without a label.")
    labels_only: ShareEstimate
    power: float = Field(description="Weight of the scores in [0, 1]; 0 where they tell nothing.")
    worth: float = Field(description="Labels that would give an interval as narrow without scores.")


class Promise(WireModel):
    """A threshold from which at most `risk` of the answers are unfaithful, with the confidence that was asked for.

    Of what is blocked, read: at or below it, faithful.
    """

    threshold: float | None = Field(description="Null where the labels do not suffice.")
    let_through: float = Field(description="Share of all rows at or beyond the threshold.")
    labels_passed: int
    unfaithful_passed: int = Field(description="Those of them that break the promise.")
    more_labels: int = Field(description="About how many more labels a threshold would take, if any can.")


class JudgeAgreement(WireModel):
    """Decisions of a tier against labels of people. Where most answers are alike read `kappa`, not the accuracy."""

    faithful_passed: int
    faithful_failed: int
    unfaithful_passed: int
    unfaithful_failed: int
    base_rate: float = Field(description="Share of unfaithful ones among the labels.")
    kappa: float | None = Field(description="Cohen's; null where both always say one and the same.")
    sensitivity: ShareEstimate | None = Field(description="Share of the unfaithful that failed; null without one.")
    specificity: ShareEstimate | None = Field(description="Share of the faithful that passed.")
    disagreements: list[str] = Field(description="Rows to read, at most 50: their custom_id.")


class TierRate(WireModel):
    """The rate of one tier's rows. Scores of different tiers are not comparable."""

    tier: ReportTier
    rows: int = Field(description="Rows with a score.")
    labels: int = Field(description="Rows of them with a label.")
    refused: str | None = Field(default=None, description="The reason why there is no estimate.")
    estimate: RateEstimate | None = None
    labels_for_width: int | None = Field(default=None, description="Labels that the asked width takes, about.")
    promise: Promise | None = None
    block: Promise | None = Field(
        default=None,
        description="The same for what is blocked: at or below `threshold` at most `risk` of the answers are faithful.",
    )
    judge_rows: int | None = Field(default=None, description="Rows between both thresholds: a judge's calls.")
    agreement: JudgeAgreement | None = None
    sentences: JudgeAgreement | None = Field(
        default=None, description="The same by sentence, where people marked them."
    )


class GateOutcome(WireModel):
    """The outcome of one gate: its name, the wanted and the found value in words."""

    name: str
    wanted: OurText
    got: OurText
    passed: bool


class ReportSummary(WireModel):
    """The report in numbers: rows = judged + abstained + empty_answer + not_judged + error."""

    rows: int = Field(description="Lines that could be read.")
    statuses: StatusCounts
    passed: int
    unsure: int = Field(default=0, description="Judged rows of which `passed` is null.")
    pending: int = Field(default=0, description="Rows of a job that have no result yet; they are not in `rows`.")
    gates: list[GateOutcome] = Field(
        default=[], description="At least: 95 % of the rows judged, abstentions aside; half of these passed or failed."
    )
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
    rates: list[TierRate] | None = Field(
        default=None,
        description="Share of unfaithful answers by tier, where rows were labelled; a mean of scores is none.",
    )
    bad_lines: int = Field(description="Lines that were skipped.")
    first_bad_lines: list[BadLine] = Field(description="At most 20.")
    interval_method: str
