"""Lines of results, decoded to what the report shows; ten times as fast as validating with `schemas.batch`."""

from typing import Annotated, Final, Literal, NamedTuple

import msgspec

from plumbline.schemas.evaluation import PassRule, TierName
from plumbline.schemas.report import ReportRowStatus, ReportTier

Verdict = Literal["supported", "partial", "contradicted", "not_mentioned", "not_a_claim"]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
# Whole numbers that every JSON reader reads exactly; sums of such costs stay finite.
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Cost = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]

# The decoder's one message that quotes a value of the file, and the text before the place in all its messages.
_UNKNOWN_VALUE: Final = "Invalid enum value"
_AT: Final = " - at `$"


class Sentence(msgspec.Struct, frozen=True, gc=False):
    index: int
    text: str


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """A passage of a context; `context` counts from 0."""

    context: int | None
    quote: str
    verified: bool


class Claim(msgspec.Struct, frozen=True):
    """A claim of one sentence, its verdict and evidence."""

    sentence: int
    text: str
    verdict: Verdict
    support: Share | None
    reason: str | None
    evidence: list[Evidence]
    flags: list[str]


class Counts(msgspec.Struct, frozen=True, gc=False):
    supported: Count
    partial: Count
    contradicted: Count
    not_mentioned: Count
    not_a_claim: Count


class Attempt(msgspec.Struct, frozen=True, gc=False):
    tier: str
    outcome: Literal["answered", "failed"]
    reason: str | None
    detail: str | None


class Citation(msgspec.Struct, frozen=True, gc=False):
    text: str
    sentence: Count
    context: Count | None
    verdict: Literal["supported", "partial", "wrong_passage", "not_supported", "no_such_passage"]


class RowMetric(msgspec.Struct, frozen=True, gc=False):
    value: Share | None


class RowUsage(msgspec.Struct, frozen=True, gc=False):
    """Tokens, calls and cost of a row."""

    calls: Count
    unmetered_calls: Count
    prompt_tokens: Count
    completion_tokens: Count
    cached_tokens: Count
    cost: Cost | None


class RowResult(msgspec.Struct, frozen=True):
    """The shown part of an `EvaluationResult`.

    Results of version 0.1 lack `passed_by`, `lowest_support` and `unsupported_claims`: a threshold decided them all,
    and the other two are taken from claims and counts.
    """

    status: Literal["judged", "abstained", "empty_answer", "not_judged"]
    tier: TierName | None
    faithfulness: Share | None
    faithfulness_strict: Share | None
    context_utilization: Share | None
    passed: bool | None
    threshold: Share | None
    confidence: Share | None
    sentences: list[Sentence]
    claims: list[Claim]
    counts: Counts
    attempts: list[Attempt]
    usage: RowUsage
    flags: list[str]
    warnings: list[str]
    passed_by: PassRule | None = None
    lowest_support: Share | None = None
    unsupported_claims: Count | None = None
    citations: list[Citation] | None = None
    citation_recall: Share | None = None
    citation_precision: Share | None = None
    metrics: dict[str, RowMetric] | None = None
    token_f1: Share | None = None
    exact_match: Share | None = None

    def __post_init__(self) -> None:
        if self.passed is None or self.passed_by is not None:
            return
        counts = self.counts
        supports = [
            claim.support for claim in self.claims if claim.support is not None and "duplicate" not in claim.flags
        ]
        msgspec.structs.force_setattr(self, "passed_by", "threshold")
        msgspec.structs.force_setattr(self, "lowest_support", min(supports, default=None))
        msgspec.structs.force_setattr(
            self, "unsupported_claims", counts.partial + counts.contradicted + counts.not_mentioned
        )

    def reference_score(self, name: str) -> float | None:
        """Return a score of `ReferenceMeans`: a field of the result, or a metric that was asked for."""
        metric = (self.metrics or {}).get(name)
        value: float | None = metric.value if metric else getattr(self, name, None)
        return value

    @property
    def has_unsupported(self) -> bool | None:
        """True if a claim is not `supported`; None without a score."""
        return None if self.unsupported_claims is None else self.unsupported_claims > 0


class FieldFault(msgspec.Struct, frozen=True, gc=False):
    pointer: str
    detail: str


class Fault(msgspec.Struct, frozen=True):
    """The error of a row without a result."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldFault] = []


class ResultRow(msgspec.Struct, frozen=True):
    """One row: a result or an error, never both."""

    custom_id: str | None
    row: Count
    line: int | None = None
    result: RowResult | None = None
    error: Fault | None = None

    def __post_init__(self) -> None:
        if (self.result is None) == (self.error is None):
            raise ValueError("expected either `result` or `error`")
        if self.result is not None and self.result.status == "judged" and self.scored is None:
            raise ValueError("a judged row needs `custom_id` and `faithfulness`")

    @property
    def status(self) -> ReportRowStatus:
        return "error" if self.result is None else self.result.status

    @property
    def scored(self) -> "Scored | None":
        """The score and its tier; None if there is none."""
        result = self.result
        if result is None or result.status != "judged" or result.faithfulness is None:
            return None
        if self.custom_id is None:
            return None
        rule, passed = result.passed_by, result.passed
        decided = None if rule is None or passed is None else Decided(rule, passed)
        return Scored(self.custom_id, result.tier or "none", result.faithfulness, decided)


class Decided(NamedTuple):
    """The rule that decided on a row, and its outcome."""

    rule: PassRule
    passed: bool


class Scored(NamedTuple):
    """A row's faithfulness, the tier that scored it, and the decision on it; None if the file has none."""

    custom_id: str
    tier: ReportTier
    faithfulness: float
    decided: Decided | None


_DECODER: Final = msgspec.json.Decoder(ResultRow)


def read_line(line: bytes | None) -> ResultRow | str:
    """Decode a line, with or without its end; None is a line too long to read.

    Returns a text in place of the row if the line is none: its problem, which quotes no value of it.
    """
    if line is None:
        return "too long to be a row of results"
    try:
        return _DECODER.decode(line)
    except UnicodeDecodeError:
        return "not UTF-8"
    except msgspec.ValidationError as error:
        message = str(error)
        if message.startswith(_UNKNOWN_VALUE):
            _, at, place = message.rpartition(_AT)
            message = f"unknown value{at}{place}"
        return f"no row of results: {message}"
    except msgspec.DecodeError as error:
        # The message names the error and its byte, never a character.
        return f"not JSON: {error}"
    except RecursionError:
        return "nested too deep to be a row of results"
