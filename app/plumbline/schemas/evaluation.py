"""The main job on the wire: a sample to judge, and everything that is said of it."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, create_model, field_validator
from pydantic_core import PydanticCustomError

from plumbline.schemas.wire import WireModel

TierName = Literal["llm", "embedding", "lexical"]
PassRule = Literal["all_supported", "calibrated", "threshold"]
JudgeName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

MAX_ID_CHARACTERS = 200
_MAX_DEADLINE_SECONDS = 600


class SampleTexts(WireModel):
    """The texts of one sample, wherever a request has them."""

    model_config = ConfigDict(strict=True)

    question: str = Field(default="", description="The question. Read by tier `llm`; no evidence for any tier.")
    contexts: list[str] = Field(description="The retrieved passages; `[]` if nothing was retrieved.")
    answer: str = Field(description="The answer to judge.")
    reference: str | None = Field(
        default=None, description="A correct answer, to compute `token_f1` and `exact_match` (SQuAD)."
    )


class EvaluationOptions(WireModel):
    """Options of an evaluation."""

    model_config = ConfigDict(strict=True)

    tiers: list[TierName] | None = Field(
        default=None,
        min_length=1,
        max_length=3,
        json_schema_extra={"uniqueItems": True},
        description='The tiers to ask, in this order; default: llm, embedding, lexical. `["llm"]` allows no fallback.',
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
    offset_unit: Literal["code_point", "utf16"] = Field(
        default="code_point", description="Unit of `start` and `end`: `utf16` suits JavaScript and Java."
    )

    @field_validator("tiers")
    @classmethod
    def _tiers_are_distinct(cls, tiers: list[TierName] | None) -> list[TierName] | None:
        if tiers is not None and len(set(tiers)) < len(tiers):
            raise PydanticCustomError("tiers_repeated", "each tier may be named once")
        return tiers


class _Named(WireModel):
    model_config = ConfigDict(strict=True)

    id: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_ID_CHARACTERS,
        description="Your name for the sample; repeated in the result.",
    )


# The fields of the last base come first.
class EvaluationRequest(EvaluationOptions, SampleTexts, _Named):
    """A question, the contexts retrieved for it and the answer to judge. Only contexts and answer are needed."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of one request, in code points. `context_characters` is for all contexts together."""

    contexts: int
    context_characters: int
    answer_characters: int
    question_characters: int


def bounded_request(limits: RequestLimits) -> type[EvaluationRequest]:
    """Return the request model with the limits of one service, so that its OpenAPI document states them."""
    fields = bounded_texts(limits)
    return create_model("EvaluationRequest", __base__=EvaluationRequest, __doc__=EvaluationRequest.__doc__, **fields)


def bounded_texts(limits: RequestLimits) -> dict[str, Any]:
    """Return the fields of `SampleTexts` with the limits of one service, as `create_model` takes them."""
    field = SampleTexts.model_fields
    context = Annotated[str, StringConstraints(max_length=limits.context_characters)]

    def check_total(contexts: list[str]) -> list[str]:
        total = sum(map(len, contexts))
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


class EvidenceItem(WireModel):
    """A passage of a context."""

    context: int | None = Field(description="Index of the context; null when a judge quoted nothing that we found.")
    quote: str = Field(description="The passage; when verified, `contexts[context][start:end]` to the letter.")
    start: int | None
    end: int | None
    verified: bool = Field(description="True if the passage was found in that context.")


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
        "`threshold_unreachable`, ..."
    )
    warnings: list[str]
