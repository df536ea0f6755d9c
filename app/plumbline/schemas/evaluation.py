"""The main job on the wire: a sample to judge, and everything that is said of it."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    create_model,
    field_validator,
)
from pydantic_core import PydanticCustomError

from plumbline.schemas.metric import Criterion, EvidenceItem, MetricItem
from plumbline.schemas.turns import ConversationItem
from plumbline.schemas.wire import Share, WireModel, is_none

TierName = Literal["llm", "detector", "embedding", "lexical"]
PassRule = Literal["all_supported", "calibrated", "threshold"]
JudgeName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
MetricName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*(@[1-9][0-9]{0,2})?$", max_length=64)]

MAX_ID_CHARACTERS = 200
_MAX_DEADLINE_SECONDS = 600


_Label = Annotated[str, StringConstraints(min_length=1, max_length=2_000)]


class ContextItem(WireModel):
    """A retrieved passage with the names by which the answer may cite it."""

    model_config = ConfigDict(strict=True)

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


class SampleTexts(WireModel):
    """The texts of one sample, wherever a request has them."""

    model_config = ConfigDict(strict=True)

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


class EvaluationOptions(WireModel):
    """Options of an evaluation."""

    model_config = ConfigDict(strict=True)

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
        "that is empty, the rule of the tier that answers, see `passed_by`.",
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
        default=None, description="Name of a second judge that looks only at claims that could turn `passed`."
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
        "`context_recall`, `correctness`, `noise_sensitivity`. `bleu`, `chrf` and `gleu` compare with the "
        "`reference` without a judge. See `metrics` of the result.",
    )
    criteria: list[Criterion] | None = Field(
        default=None,
        exclude_if=is_none,
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
            raise PydanticCustomError("tiers_repeated", "each tier may be named once")
        return tiers


class NamedSample(WireModel):
    model_config = ConfigDict(strict=True)

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
            raise PydanticCustomError(
                "contexts_too_long",
                "the contexts have {total} characters together; at most {limit} are read",
                {"total": total, "limit": limits.context_characters},
            )
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


class SentenceItem(WireModel):
    """A sentence of the answer: `answer[start:end] == text`."""

    index: int = Field(ge=0)
    text: str
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    kind: Literal["prose", "heading", "list_item", "table_row", "code", "markup"] = Field(
        description="`markup` (rules, bullets without words) is not judged; a short heading only when it stands alone."
    )


class ClaimItem(WireModel):
    """A checkable assertion of one sentence. Tiers `embedding` and `lexical` take the whole sentence as one claim."""

    id: str
    sentence: int = Field(description="Index into `sentences`.")
    text: str
    start: int = Field(description="Where its sentence begins in the answer.")
    end: int
    verdict: Literal["supported", "partial", "contradicted", "not_mentioned", "not_a_claim"]
    support: Share | None = Field(
        description="llm: the verdict's weight (supported 1, partial 0.5, else 0). Other tiers: calibrated similarity, "
        "`supported` from 0.5. Null for `not_a_claim`."
    )
    weight: float = Field(
        gt=0,
        description="Weight in `faithfulness`, the weighted mean of support: that of its sentence, shared by the "
        "claims of that sentence. A sentence weighs 1 in llm, its length in characters in the other tiers.",
    )
    reason: str | None = Field(
        description="llm: the judge's reason. Other tiers: names and numbers of the sentence that no context has."
    )
    evidence: list[EvidenceItem]
    flags: list[str]


class VerdictCounts(WireModel):
    """Number of claims with each verdict."""

    supported: int
    partial: int
    contradicted: int
    not_mentioned: int
    not_a_claim: int


class AttemptItem(WireModel):
    """One tier's try, in the order in which they were made."""

    tier: TierName
    outcome: Literal["answered", "failed"]
    reason: str | None = Field(description="Null when it answered; else one of a closed set, `timeout` for example.")
    detail: str | None
    seconds: float = Field(ge=0)
    calls: int = Field(ge=0, description="Requests that reached a provider, retries included.")


class Tokens(WireModel):
    """Tokens as the provider counted them; null where it did not say."""

    prompt: int | None
    completion: int | None


class JudgeItem(WireModel):
    """The model that answered, and for an LLM the prompt by name, version, language and SHA-256."""

    model: str
    prompt: str | None
    prompt_digest: str | None
    calls: int
    tokens: Tokens
    cache: Literal["hit", "miss", "bypass"] | None = Field(
        description="`hit` if the judgement came from the cache; null for tiers without one."
    )
    controls: int | None = Field(
        default=None,
        description="Sentences whose verdict we know, judged among the answer's to see if the judge can be trusted; "
        "null for tiers without any.",
    )
    controls_right: int | None = Field(
        default=None, description="Of them those that it judged rightly; else see the flag `control_failed`."
    )


class UsageItem(WireModel):
    """Usage of all tiers together, failed ones included. Tokens are the providers' counts."""

    calls: int
    unmetered_calls: int = Field(description="Calls for which the provider gave no count of tokens.")
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = Field(description="Of the prompt tokens, those that the provider had cached.")
    cost: float | None = Field(description="In the currency of the price table; null when a call's price is not known.")


class CitationItem(WireModel):
    """A passage that a citation mark of the answer names; a mark that names two, [1, 2], is two of them."""

    text: str = Field(description="The mark, as it stands at `answer[start:end]`.")
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    sentence: int = Field(ge=0, description="Index into `sentences`.")
    label: str = Field(description="What the mark names: a number or an id.")
    context: int | None = Field(description="Index of the context; null if there is none of that name.")
    context_id: str | None = Field(
        default=None, exclude_if=is_none, description="Its id; left out where you gave none."
    )
    verdict: Literal["supported", "partial", "wrong_passage", "not_supported", "no_such_passage"] = Field(
        description="`supported`: the passage alone supports the statement before the mark. `partial`: a part of it, "
        "or all of it together with others cited there. `wrong_passage`: another context does, see `better_context`."
    )
    better_context: int | None = Field(
        description="For `wrong_passage`: index of a context that supports it. Else null."
    )


class EvaluationResult(WireModel):
    """The result of one sample. An unknown number is null, never NaN, -1 or 0."""

    # Fields with a default are always sent; results of version 0.1 lack them.
    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    id: str | None
    status: Literal["judged", "abstained", "empty_answer", "not_judged"] = Field(
        description="`judged`: there is a score. `abstained`: the answer declines or asserts nothing to check."
        " `empty_answer`: no letter or digit in it. `not_judged`: no tier could answer, see `attempts`."
    )
    tier: TierName | None = Field(description="The tier that answered; null when none was needed or none could.")
    faithfulness: Share | None = Field(
        description="Mean over the checkable sentences of the mean support of their claims. Scores of different tiers "
        "are not comparable."
    )
    faithfulness_strict: Share | None = Field(description="llm: as faithfulness, partial counting 0. Else null.")
    hallucination_rate: Share | None = Field(description="1 - faithfulness.")
    lowest_support: Share | None = Field(
        default=None, description="Least support of a checkable claim; null without a score."
    )
    contradiction_rate: Share | None = Field(description="llm: share of checkable claims contradicted. Else null.")
    unsupported_rate: Share | None = Field(description="llm: share of checkable claims not mentioned. Else null.")
    unsupported_claims: int | None = Field(
        default=None,
        ge=0,
        description="Number of checkable claims whose verdict is not `supported`: `partial`, `contradicted` and "
        "`not_mentioned`, without duplicates. Null without a score.",
    )
    context_utilization: Share | None = Field(
        description="Share of the answer's sentences that are related to the contexts: one context sentence holds at "
        "least half of their content words, after normalisation (NFKC, case, punctuation, stopwords)."
    )
    contexts_used: list[int] = Field(description="Indices of contexts with verified evidence for a supported claim.")
    contexts_used_share: Share | None = Field(
        description="Contexts used / contexts given: utilization as RAGChecker and Vertex mean it."
    )
    token_f1: Share | None = Field(description="Token F1 with the reference; null without one.")
    exact_match: Share | None = Field(description="1 when equal to the reference after SQuAD normalisation, else 0.")
    passed: bool | None = Field(
        description="True if the answer may be shown, by the rule in `passed_by`; null without a score."
    )
    passed_by: PassRule | None = Field(
        default=None,
        description="Rule of `passed`. `threshold`: faithfulness >= the threshold of the request or the service. "
        "Without one, `all_supported` in tier llm: `unsupported_claims` is 0; `calibrated` in the other tiers: "
        "faithfulness >= the score at which half of the answers in their calibration data were faithful.",
    )
    threshold: Share | None = Field(
        description="Faithfulness that decided: the one asked for, or the calibrated one; null with `all_supported`."
    )
    confidence: Share | None = Field(
        description="Calibrated probability that a human agrees with `passed`; with several votes of LLM judges "
        "instead (agreeing + 1) / (votes + 2), a vote agreeing when its verdicts alone decide the same. Null where "
        "there is neither."
    )
    citations: list[CitationItem] | None = Field(
        default=None, exclude_if=is_none, description="Left out, like the next three, if the answer has no mark."
    )
    citation_recall: Share | None = Field(
        default=None,
        exclude_if=is_none,
        description="Sentences fully supported by the passages they cite / sentences that assert (Gao et al. 2023).",
    )
    citation_precision: Share | None = Field(
        default=None,
        exclude_if=is_none,
        description="Citations that are sufficient, or needed beside others / citations (Gao et al. 2023).",
    )
    uncited_sentences: list[int] | None = Field(
        default=None, exclude_if=is_none, description="Indices of the sentences that assert and cite nothing."
    )
    metrics: dict[str, MetricItem] | None = Field(
        default=None,
        exclude_if=is_none,
        description="Each metric of the request, by name; left out unless one besides `faithfulness` was asked for.",
    )
    conversation: ConversationItem | None = Field(
        default=None,
        exclude_if=is_none,
        description="Left out without `messages`. With them, contexts are counted as they came: those of the request, "
        "then those of each message.",
    )
    sentences: list[SentenceItem]
    claims: list[ClaimItem]
    counts: VerdictCounts
    attempts: list[AttemptItem]
    judge: JudgeItem | None
    usage: UsageItem
    windows: int = Field(ge=1, description="Parts into which the contexts were cut for a judge to read them all.")
    flags: list[str] = Field(
        description="`no_context`, `degraded`, `uncalibrated`, `mostly_copied` (tiers embedding and lexical: half or "
        "more of the runs of four words stand in the contexts, and the boundary lies higher), `no_checkable_claims`, "
        "`threshold_unreachable`, `citation_without_passage` (a mark names no context), ..."
    )
    warnings: list[str]
