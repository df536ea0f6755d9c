"""Lines of results, decoded to what the report shows; ten times as fast as validating with `schemas.batch`."""

from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

import msgspec

from plumbline.ground.errors import PASSING_REASONS, InvalidInput
from plumbline.ground.texts import CodedText, restore
from plumbline.schemas.evaluation import EvaluationResult
from plumbline.schemas.problem import INTERNAL, problem_title
from plumbline.schemas.report import ReportRowStatus, ReportTier
from plumbline.schemas.result_parts import PassRule, TierName
from plumbline.schemas.result_upgrade import upgrade_row

Verdict = Literal["supported", "partial", "contradicted", "not_mentioned", "not_a_claim"]
# Of claims; a greeting is none.
UNSUPPORTED: Final[tuple[Verdict, ...]] = ("contradicted", "not_mentioned", "partial")
GRAVEST_FIRST: Final[tuple[Verdict, ...]] = (*UNSUPPORTED, "supported")
OffsetUnit = Literal["code_point", "utf16"]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
# Whole numbers that every JSON reader reads exactly; sums of such costs stay finite.
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Cost = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]

# The decoder's one message that quotes a value of the file, and the text before the place in all its messages.
_UNKNOWN_VALUE: Final = "Invalid enum value"
_AT: Final = " - at `$"
# Timed out, too many requests
_PASSING_STATUSES: Final = (408, 429)


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """A passage of a context; `context` counts from 0."""

    quote: str
    verified: bool
    context: int | None = None
    start: Count | None = None
    kind: str | None = None


class Claim(msgspec.Struct, frozen=True):
    id: str
    sentence: Count
    text: str
    start: Count
    end: Count
    verdict: Verdict
    support: Share | None = None
    judge: str | None = None
    reason: str | None = None
    reason_code: str | None = None
    reason_fields: dict[str, Any] = {}
    evidence: list[Evidence] = []
    flags: list[str] = []


class Counts(msgspec.Struct, frozen=True, gc=False):
    supported: Count = 0
    partial: Count = 0
    contradicted: Count = 0
    not_mentioned: Count = 0
    not_a_claim: Count = 0


class Because(msgspec.Struct, frozen=True, gc=False):
    claim: str
    sentence: str


class Decision(msgspec.Struct, frozen=True):
    """The rule that decided, and the claims that decided against the answer."""

    rule: PassRule
    threshold: Share | None = None
    because: list[Because] = []


class Attempt(msgspec.Struct, frozen=True, gc=False):
    tier: str
    outcome: Literal["answered", "failed"]
    reason: str | None = None
    detail: str | None = None
    detail_code: str | None = None
    detail_fields: dict[str, Any] = {}
    seconds: float = 0.0


class Warned(msgspec.Struct, frozen=True, gc=False):
    text: str
    code: str | None = None
    fields: dict[str, Any] = {}


class Citation(msgspec.Struct, frozen=True, gc=False):
    text: str
    sentence: Count
    verdict: Literal["supported", "partial", "wrong_passage", "not_supported", "no_such_passage"]
    context: Count | None = None


class RowMetric(msgspec.Struct, frozen=True, gc=False):
    value: Share | None


class RowScores(msgspec.Struct, frozen=True, gc=False):
    faithfulness_strict: Share | None = None
    lowest_support: Share | None = None
    unsupported_claims: Count | None = None
    token_f1: Share | None = None
    exact_match: Share | None = None
    citation_recall: Share | None = None
    citation_precision: Share | None = None


class RowUsage(msgspec.Struct, frozen=True, gc=False):
    """Tokens, calls and cost of a row; none where it made no call."""

    calls: Count = 0
    unmetered_calls: Count = 0
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    cached_tokens: Count = 0
    cost: Cost | None = 0.0


class RowJudge(msgspec.Struct, frozen=True, gc=False):
    model: str | None = None
    prompt: str | None = None
    prompt_digest: str | None = None
    kind: str | None = None


class HeadTrace(msgspec.Struct, frozen=True):
    judge: RowJudge | None = None


class HeadResult(msgspec.Struct, frozen=True):
    """The part of a result that is compared with another."""

    status: Literal["judged", "abstained", "empty_answer", "not_judged"]
    tier: TierName | None
    faithfulness: Share | None
    passed: bool | None
    trace: HeadTrace
    decision: Decision | None = None
    counts: Counts = Counts()
    confidence: Share | None = None


class RowTrace(HeadTrace, frozen=True):
    attempts: list[Attempt] = []
    usage: RowUsage = RowUsage()


class RowResult(HeadResult, frozen=True, kw_only=True):
    """The shown part of an `EvaluationResult`."""

    trace: RowTrace
    context_utilization: Share | None
    claims: list[Claim] = []
    citations: list[Citation] = []
    metrics: dict[str, RowMetric] = {}
    scores: RowScores = RowScores()
    flags: list[str] = []
    warnings: list[Warned] = []
    offset_unit: OffsetUnit = "code_point"

    def score(self, name: str) -> float | None:
        """Return a score by its name: one of every result, one of `scores`, or a metric that was asked for."""
        value: float | None = getattr(self.scores, name, getattr(self, name, None))
        return self.metrics[name].value if value is None and name in self.metrics else value

    @property
    def has_unsupported(self) -> bool | None:
        """True if a claim is not `supported`; None without a score."""
        count = self.scores.unsupported_claims
        return None if count is None else count > 0


def to_row_result(result: EvaluationResult) -> RowResult:
    return msgspec.convert(result.model_dump(), RowResult)


class _Detailed(msgspec.Struct, frozen=True, kw_only=True):
    detail: str
    detail_code: str | None = None
    detail_fields: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """Return the detail, which keeps its code."""
        return restore(self.detail, self.detail_code, self.detail_fields)


class FieldFault(_Detailed, frozen=True, kw_only=True):
    pointer: str


class Fault(_Detailed, frozen=True, kw_only=True):
    """The error of a row without a result."""

    type: str
    title: str
    status: int
    errors: list[FieldFault] = []

    @property
    def heading(self) -> str:
        """Return the title, which keeps its code."""
        return problem_title(self.type) or self.title


class RowHead(msgspec.Struct, frozen=True):
    """The part of a row that is compared with another."""

    custom_id: str | None
    row: Count
    result: HeadResult | None = None

    @property
    def scored(self) -> "Scored | None":
        """The score and its tier; None if there is none."""
        result = self.result
        if result is None or result.status != "judged" or result.faithfulness is None or self.custom_id is None:
            return None
        rule = None if result.decision is None else result.decision.rule
        fault = next((verdict for verdict in UNSUPPORTED if getattr(result.counts, verdict)), None)
        return Scored(self.custom_id, self.row, result.tier or "none", result.faithfulness, result.passed, rule, fault)


class ResultRow(RowHead, frozen=True):
    """One row: a result or an error, never both."""

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
    def cost(self) -> float | None:
        """The cost of its calls; None if unknown."""
        return 0.0 if self.result is None else self.result.trace.usage.cost

    @property
    def may_be_retried(self) -> bool:
        """True if there is no verdict for a reason that may have passed: of a provider, a limit, or a fault of ours."""
        if self.error is not None:
            return self.error.status in _PASSING_STATUSES or self.error.status >= INTERNAL.status
        attempts = self.result.trace.attempts if self.result and self.result.status == "not_judged" else []
        return any(each.reason in PASSING_REASONS for each in attempts)


class Scored(NamedTuple):
    """A row's faithfulness and the tier that scored it; `rule`: that decided; `fault`: its gravest unsupported verdict.

    `passed` is None where the tier is unsure, `rule` where the file has none.
    """

    custom_id: str
    row: int
    tier: ReportTier
    faithfulness: float
    passed: bool | None
    rule: PassRule | None
    fault: Verdict | None


_DECODER: Final = msgspec.json.Decoder(ResultRow)
_HEAD_DECODER: Final = msgspec.json.Decoder(RowHead)
T = TypeVar("T")


def _decode(decoder: msgspec.json.Decoder[T], line: bytes) -> T:
    """Decode a line of results, those of versions 0.1 and 0.2 included; raise as the decoder does."""
    try:
        return decoder.decode(line)
    except msgspec.ValidationError:
        row = msgspec.json.decode(line)
        if (upgraded := upgrade_row(row)) is row:
            raise
        return msgspec.convert(upgraded, decoder.type)


def read_line(line: bytes | None) -> ResultRow | str:
    """Decode a line, None for one too long to read; return its problem, which quotes nothing, if it is no row."""
    if line is None:
        return CodedText("result_too_long")
    try:
        return _decode(_DECODER, line)
    except UnicodeDecodeError:
        return CodedText("result_not_utf8")
    except msgspec.ValidationError as error:
        message = str(error)
        if message.startswith(_UNKNOWN_VALUE):
            _, at, place = message.rpartition(_AT)
            message = f"unknown value{at}{place}"
        return CodedText("no_result", flaw=message)
    except msgspec.DecodeError as error:
        # The message names the error and its byte, never a character.
        return CodedText("not_json", flaw=str(error))
    except RecursionError:
        return CodedText("result_too_deep")


def read_head(line: bytes) -> RowHead:
    """Decode the compared part of a line of results, in half the time; raise InvalidInput if it is none."""
    try:
        return _decode(_HEAD_DECODER, line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(CodedText("no_result", flaw=str(error))) from None
