"""Retrieval on the wire. msgspec in place of pydantic: a run of 1,000 documents for 7,000 queries is 135 MB of JSON."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from plumbline.retrieval.comparison import LatencySummary, RunComparison, Summary
from plumbline.retrieval.evaluation import EvaluationCounts
from plumbline.retrieval.measure import DEFAULT_MEASURES
from plumbline.retrieval.run import ParsedRanking

Preset = Literal["trec_eval", "pytrec_eval", "beir", "ragas_id", "seed-0", "seed-1", "seed-2", "seed-3", "seed-4"]


# What the document says of a field. It is checked where it is used, which says more than msgspec would.
_Rank = Annotated[int, Meta(extra_json_schema={"minimum": 1})]
_Seed = Annotated[int, Meta(extra_json_schema={"minimum": 0})]
_Resamples = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": 100_000})]
_Alpha = Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0, "exclusiveMaximum": 1})]
_NotNegative = Annotated[float, Meta(extra_json_schema={"minimum": 0})]
# By query, or rows with columns; `plumbline.retrieval.inputs` checks what is in them.
_Given = dict[str, Any] | list[dict[str, Any]]
_GainMap = Annotated[
    dict[int, Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": 1e100})]],
    Meta(extra_json_schema={"minProperties": 1, "propertyNames": {"pattern": "^[1-9][0-9]*$"}}),
]
_Method = Annotated[str, Meta(extra_json_schema={"enum": ["rrf", "wsum", "combmnz", "borda"]})]
_Norm = Annotated[str, Meta(extra_json_schema={"enum": ["none", "min-max", "z-score"]})]
_MOST_RUNS = 50


class _Wire(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all retrieval messages: unknown fields are refused."""


class ConventionsIn(_Wire, frozen=True, kw_only=True):
    """The conventions that change numbers: a preset, and what differs from it. The response repeats all of them."""

    preset: Preset = "trec_eval"
    rel_level: _Rank | None = None
    ndcg_rel_level: Literal["ignore", "drop_below"] | None = None
    gain_map: _GainMap | None = None
    max_rel: _Rank | None = None
    map_normaliser: Literal["R", "min_R_k", "retrieved_relevant", "sum_of_weights"] | None = None
    judged_only: bool | None = None
    max_documents: _Rank | None = None
    id_rule: Literal["none", "strip_chunk", "urn_uuid", "regex"] | None = None
    id_pattern: str | None = None
    duplicates: Literal["first", "max_score", "error"] | None = None
    dedupe: Literal["before_cutoff", "after_cutoff"] | None = None
    ties: Literal["docno_desc", "docno_asc", "input_order"] | None = None
    score_precision: Literal["float64", "float32"] | None = None
    missing_queries: Literal["zero", "skip", "error"] | None = None
    no_relevant: Literal["zero", "skip"] | None = None
    recall_points: Literal["nearest", "at_least"] | None = None
    ignore_identical_ids: bool | None = None


class SystemFacts(_Wire, frozen=True, kw_only=True):
    """Figures that the caller measured of the system behind the run; null if not measured, never 0."""

    build_seconds: float | None = None
    index_chunks: int | None = None
    index_bytes: int | None = None


class RunIn(_Wire, frozen=True, kw_only=True):
    """One run: `results` by query (ids best first, scores by id, hits) or as rows; or raw texts of an LLM.

    `append_missing`: candidates that such a text leaves out follow its ranking.
    """

    name: str
    results: _Given | None = None
    llm_outputs: dict[str, str] | None = None
    candidates: dict[str, list[str]] | None = None
    append_missing: bool = False
    latency_ms: dict[str, _NotNegative] | None = None
    system: SystemFacts | None = None


class EvaluationOptions(_Wire, frozen=True, kw_only=True):
    """Options of a retrieval evaluation.

    `alternatives`: a list among relevant ids names documents of which one is enough. `allow_disjoint`: a run may have
    no query or no document in common with the judgments.
    """

    measures: tuple[str, ...] = DEFAULT_MEASURES
    conventions: ConventionsIn = ConventionsIn()
    per_query: bool = False
    resamples: _Resamples = 1_000
    seed: _Seed = 0
    alternatives: bool = False
    allow_disjoint: bool = False


class FormOptions(EvaluationOptions, frozen=True, kw_only=True):
    """The part `options` of a request with files."""

    append_missing: bool = False


class RetrievalEvaluationRequest(EvaluationOptions, frozen=True, kw_only=True):
    """Judgments, one or many runs, and the measures to compute; `lengths` are tokens by document, for budgets."""

    qrels: _Given
    lengths: dict[str, _NotNegative] | None = None
    runs: Annotated[list[RunIn], Meta(extra_json_schema={"minItems": 1, "maxItems": _MOST_RUNS})]


class ComparisonRequest(RetrievalEvaluationRequest, frozen=True, kw_only=True):
    """The same with two runs or more: every pair, or each against a baseline."""

    runs: Annotated[list[RunIn], Meta(extra_json_schema={"minItems": 2, "maxItems": _MOST_RUNS})]
    baseline: str | None = None
    test: Literal["randomization", "t"] = "randomization"
    correction: Literal["holm", "bh", "none"] = "holm"
    alpha: _Alpha = 0.05
    format: Literal["json", "markdown", "csv"] = "json"


class FusionRequest(_Wire, frozen=True, kw_only=True):
    """Two runs or more into one."""

    runs: Annotated[list[RunIn], Meta(extra_json_schema={"minItems": 1, "maxItems": _MOST_RUNS})]
    method: _Method = "rrf"
    norm: _Norm | None = None
    weights: list[float] | None = None
    params: dict[str, float] = {}
    missing: Literal["zero", "min"] = "zero"
    depth: _Rank | None = None
    name: str = "fused"
    qrels: _Given | None = None
    measures: tuple[str, ...] = DEFAULT_MEASURES
    conventions: ConventionsIn = ConventionsIn()


class PerQueryOut(_Wire, frozen=True, kw_only=True):
    """Values by measure, each list in the order of `query_ids`."""

    query_ids: list[str]
    values: dict[str, list[float]]


class RunOut(_Wire, frozen=True, kw_only=True):
    """Result of one run; `rankings` are those read out of LLM outputs, with `per_query`."""

    name: str
    measures: dict[str, Summary]
    counts: EvaluationCounts
    per_query: PerQueryOut | None
    latency_ms: LatencySummary | None
    system: SystemFacts | None
    unparsed: list[str]
    warnings: list[str]
    rankings: dict[str, ParsedRanking] | None = None


class ComparisonResult(_Wire, frozen=True, kw_only=True):
    """Every comparison, the runs they compare, and the same as a table in the format asked for."""

    conventions: dict[str, Any]
    runs: list[RunOut]
    comparisons: tuple[RunComparison, ...]
    table: str | None


class FusionResult(_Wire, frozen=True, kw_only=True):
    """The fused run (scores by id, best first), how it was made, and its measures where judgments came with it."""

    name: str
    results: dict[str, dict[str, float]]
    method: str
    norm: str
    weights: list[float]
    params: dict[str, float]
    report: RunOut | None
    warnings: list[str]


class RetrievalEvaluationResult(_Wire, frozen=True, kw_only=True):
    """Every run, and the conventions that its numbers were made with, all of them resolved."""

    conventions: dict[str, Any]
    runs: list[RunOut]
