"""The main job on the wire: a sample to judge, and everything that is said of it."""

import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    create_model,
    field_validator,
)

from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import CodedText
from plumbline.schemas.result_parts import (
    CitationItem,
    ClaimItem,
    ConversationItem,
    DecisionItem,
    MetricItem,
    ScoreItems,
    Status,
    TierName,
    TraceItem,
    VerdictCounts,
    WarningItem,
)
from plumbline.schemas.wire import Share, SparseModel, WireModel, invalid_value

JudgeName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
MetricName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*(@[1-9][0-9]{0,2})?$", max_length=64)]

FrameLibrary = Literal["pandas", "polars", "pyarrow"]
CLAIM_COLUMNS: Final = ("id", "sentence", "text", "verdict", "support", "reason", "context", "quote")
MAX_ID_CHARACTERS = 200
_MAX_DEADLINE_SECONDS = 600


_NO_LETTER: Final = re.compile(r"[\W_]+")
_Label = Annotated[str, StringConstraints(min_length=1, max_length=2_000)]


class ContextItem(WireModel, strict=True):
    """A retrieved passage with the names by which the answer may cite it."""

    text: str = Field(description="The passage.")
    id: _Label | None = Field(default=None, description="Your name for it, which citation marks and results use.")
    title: _Label | None = Field(default=None, description="Its title, which every tier reads before the passage.")
    source: _Label | None = Field(default=None, description="Its file or address.")
    tool: _Label | None = Field(default=None, description="The tool that returned it.")


# Left out of the places of errors: the caller did not write them.
CONTEXT_TAGS = ("(text)", "(object)")


def _context_tag(value: object) -> str:
    return CONTEXT_TAGS[isinstance(value, dict | ContextItem)]


ContextValue = Annotated[
    Annotated[str, Tag(CONTEXT_TAGS[0])] | Annotated[ContextItem, Tag(CONTEXT_TAGS[1])], Discriminator(_context_tag)
]


class SampleTexts(WireModel, strict=True):
    """The texts of one sample, wherever a request has them."""

    question: str = Field(default="", description="The question. Read by tier `llm`; no evidence for any tier.")
    contexts: list[ContextValue] = Field(
        description="The retrieved passages; `[]` if nothing was retrieved. Strings, or objects with an id, a title, "
        "a source."
    )
    answer: str = Field(description="The answer to judge.")
    reference: str | None = Field(
        default=None,
        description="A correct answer, for `token_f1` and `exact_match` (SQuAD) and for metrics that compare.",
    )

    @property
    def passages(self) -> list[str]:
        """Return the texts of the contexts, in which offsets of evidence count."""
        return [context if isinstance(context, str) else context.text for context in self.contexts]


class Criterion(WireModel, strict=True):
    """A criterion of your own, judged in the same call as the rest: a question about the answer, and its labels."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$", description="The metric is called `criterion_NAME`.")
    question: str = Field(min_length=1, max_length=500, description="For the judge: Is the tone formal?")
    labels: dict[Annotated[str, Field(min_length=1, max_length=40)], Share] = Field(
        min_length=2, max_length=10, description="The labels that the judge chooses from, each with its value."
    )
    quote_from: Literal["answer", "contexts"] | None = Field(
        default=None,
        description="Where the judge must quote from for any label but the lowest; without a quote that is found there "
        "the lowest counts.",
    )

    @field_validator("labels")
    @classmethod
    def _labels_differ_by_their_letters(cls, labels: dict[str, float]) -> dict[str, float]:
        folded = {_NO_LETTER.sub("", label.casefold()) for label in labels}
        if "" in folded or len(folded) < len(labels):
            raise invalid_value("labels_alike")
        return labels


class EvaluationOptions(WireModel, strict=True):
    """Options of an evaluation."""

    tiers: list[TierName] | None = Field(
        default=None,
        min_length=1,
        max_length=len(get_args(TierName)),
        json_schema_extra={"uniqueItems": True},
        description="The tiers to ask, in this order; default: llm, detector if one is set, embedding, lexical. "
        '`["llm"]` allows no fallback.',
    )
    threshold: Share | None = Field(
        default=None,
        description="Faithfulness from which `passed` is true, in every tier. Default: the service's setting; where "
        "that is empty, the rule of the tier that answers, see `decision`.",
    )
    deadline_seconds: float | None = Field(
        default=None,
        gt=0,
        le=_MAX_DEADLINE_SECONDS,
        allow_inf_nan=False,
        description="Seconds for all tiers together; at most the service's setting, which is the default.",
    )
    judges: list[JudgeName] | None = Field(
        default=None,
        min_length=1,
        max_length=5,
        description="Names of judges from the service's settings: each decides on every claim, most votes win, and "
        "`confidence` says how far they agree. Default: the one judge `default`.",
    )
    samples: int = Field(default=1, ge=1, le=9, description="Votes of each judge (self-consistency).")
    escalation: JudgeName | None = Field(
        default=None,
        description="Name of a second judge that gives its opinion on the claims that could turn `passed`.",
    )
    disputed: Literal["lower", "unsure"] = Field(
        default="lower",
        description="What `passed` is where the judge of `escalation` decides otherwise: by the lower support of each "
        "claim (`lower`), or null (`unsure`).",
    )
    cache: Literal["use", "bypass"] = Field(
        default="use", description="`bypass` asks the judge again, ignoring cached verdicts."
    )
    max_cost: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="Maximum cost of this sample, in the currency of the service's price table.",
    )
    citation_base: int | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Number of the first context in the answer's citation marks. Default: 0 if it cites [0], else 1.",
    )
    metrics: list[MetricName] | None = Field(
        default=None,
        min_length=1,
        max_length=20,
        json_schema_extra={"uniqueItems": True},
        description="What to judge, in the same call; default: `faithfulness` alone, which every result has. Also "
        "`context_utilization`, which every result has too, `answer_relevance`, `context_relevance`, "
        "`context_precision` (or `context_precision@k`), and with a `reference`, by one more call for all of them, "
        "`context_recall`, `correctness`, `noise_sensitivity`. `bleu`, `chrf`, `gleu` and `token_set_f1` compare "
        "with the `reference` without a judge. See `metrics` of the result.",
    )
    criteria: list[Criterion] | None = Field(
        default=None,
        exclude_if=lambda criteria: criteria is None,
        min_length=1,
        max_length=10,
        description="Questions of yours about the answer, each a metric of its own.",
    )
    offset_unit: Literal["code_point", "utf16"] = Field(
        default="code_point", description="Unit of `start` and `end`: `utf16` suits JavaScript and Java."
    )

    @field_validator("tiers")
    @classmethod
    def _tiers_are_distinct(cls, tiers: list[TierName] | None) -> list[TierName] | None:
        if tiers is not None and len(set(tiers)) < len(tiers):
            raise invalid_value("tiers_repeated")
        return tiers


class NamedSample(WireModel, strict=True):
    id: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_ID_CHARACTERS,
        description="Your name for the sample; repeated in the result.",
    )


# The fields of the last base come first.
class EvaluationRequest(EvaluationOptions, SampleTexts, NamedSample):
    """A question, the contexts retrieved for it and the answer to judge. Only contexts and answer are needed."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of one request, in code points. `context_characters` is for all contexts together."""

    contexts: int
    context_characters: int
    answer_characters: int
    question_characters: int


@lru_cache(maxsize=16)
def bounded_request(limits: RequestLimits) -> type[EvaluationRequest]:
    """Return the request model with the limits of one service, so that its OpenAPI document states them."""
    fields = bounded_texts(limits)
    return create_model("EvaluationRequest", __base__=EvaluationRequest, __doc__=EvaluationRequest.__doc__, **fields)


def bounded_texts(limits: RequestLimits) -> dict[str, Any]:
    """Return the fields of `SampleTexts` with the limits of one service, as `create_model` takes them."""
    field = SampleTexts.model_fields
    text = Annotated[str, StringConstraints(max_length=limits.context_characters), Tag(CONTEXT_TAGS[0])]
    context = Annotated[text | Annotated[ContextItem, Tag(CONTEXT_TAGS[1])], Discriminator(_context_tag)]

    def check_total(contexts: list[str | ContextItem]) -> list[str | ContextItem]:
        total = sum(len(each) if isinstance(each, str) else len(each.text) + len(each.title or "") for each in contexts)
        if total > limits.context_characters:
            raise invalid_value("contexts_too_long", total=total, limit=limits.context_characters)
        return contexts

    return {
        "question": (
            str,
            Field(default="", max_length=limits.question_characters, description=field["question"].description),
        ),
        "contexts": (
            Annotated[list[context], AfterValidator(check_total)],
            Field(max_length=limits.contexts, description=field["contexts"].description),
        ),
        "answer": (str, Field(max_length=limits.answer_characters, description=field["answer"].description)),
        "reference": (
            str | None,
            Field(default=None, max_length=limits.answer_characters, description=field["reference"].description),
        ),
    }


class EvaluationResult(SparseModel):
    """The result of one sample. An unknown score is null, never NaN, -1 or 0; other keys without a value are left out.

    In Python, what was left out reads as None or empty.
    """

    id: str | None = None
    status: Status = Field(
        description="`judged`: there is a score. `abstained`: the answer declines or asserts nothing to check."
        " `empty_answer`: no letter or digit in it. `not_judged`: no tier could answer, see `trace.attempts`."
    )
    tier: TierName | None = Field(description="The tier that answered; null when none was needed or none could.")
    faithfulness: Share | None = Field(
        description="Mean over the checkable sentences of the mean support of their claims. Scores of different tiers "
        "are not comparable."
    )
    hallucination_rate: Share | None = Field(description="1 - faithfulness.")
    context_utilization: Share | None = Field(
        description="Share of the answer's sentences that are related to the contexts: one context sentence holds at "
        "least half of their content words, after normalisation (NFKC, case, punctuation, stopwords)."
    )
    passed: bool | None = Field(
        description="True if the answer may be shown, by the rule in `decision`; null without a score, and "
        "where the tier is unsure."
    )
    decision: DecisionItem | None = None
    confidence: Share | None = Field(
        default=None,
        description="Calibrated probability that a human agrees with `passed`; with several votes of LLM judges "
        "instead (agreeing + 1) / (votes + 2), a vote agreeing when its verdicts alone decide the same. Left out where "
        "there is neither.",
    )
    claims: list[ClaimItem] = Field(default=[])
    counts: VerdictCounts = VerdictCounts()
    citations: list[CitationItem] = Field(default=[])
    uncited_sentences: list[int] = Field(
        default=[],
        description="Numbers of the sentences that assert and cite nothing, in an answer with citation marks.",
    )
    metrics: dict[str, MetricItem] = Field(
        default={},
        description="Each metric of the request, by name; left out unless one besides `faithfulness` was asked for.",
    )
    conversation: ConversationItem | None = Field(
        default=None,
        description="Left out without `messages`. With them, contexts are counted as they came: those of the request, "
        "then those of each message.",
    )
    contexts_used: list[int] = Field(
        default=[], description="Indices of contexts with verified evidence for a supported claim."
    )
    scores: ScoreItems = ScoreItems()
    trace: TraceItem
    flags: list[str] = Field(
        default=[],
        description="`no_context`, `degraded`, `uncalibrated`, `no_checkable_claims`, `threshold_unreachable`, "
        "`citation_without_passage` (a mark names no context), ...",
    )
    warnings: list[WarningItem] = Field(default=[])
    offset_unit: Literal["code_point", "utf16"] = Field(
        default="code_point", description="Unit of all `start` and `end`, if it is `utf16`."
    )

    def to_frame(self, library: FrameLibrary = "pandas") -> Any:
        """Return a data frame of the claims, with the columns of `CLAIM_COLUMNS`; raises as `build_frame`."""
        rows = [
            {**claim.model_dump(), **(claim.evidence[0].model_dump() if claim.evidence else {})}
            for claim in self.claims
        ]
        return build_frame(rows, CLAIM_COLUMNS, library)


def build_frame(rows: Sequence[Mapping[str, object]], columns: Sequence[str], library: FrameLibrary) -> Any:
    """Return a data frame, or Arrow's table, with a row for each mapping.

    Raises InvalidInput: the library is not known, or not installed.
    """
    cells = {column: [row.get(column) for row in rows] for column in columns}
    if library not in get_args(FrameLibrary):
        raise InvalidInput(CodedText("no_frame_of", library=library))
    try:
        module = importlib.import_module(library)
    except ImportError:
        raise InvalidInput(CodedText("library_needed", library=library)) from None
    return module.table(cells) if library == "pyarrow" else module.DataFrame(cells)
