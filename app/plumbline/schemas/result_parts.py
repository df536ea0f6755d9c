"""The parts of a result on the wire."""

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

from pydantic import Field

from plumbline.schemas.wire import CODE, FIELDS, Share, SparseModel, WireModel

TierName = Literal["llm", "detector", "embedding", "lexical"]
PassRule = Literal["all_supported", "copied", "covered", "hard_reason", "calibrated", "threshold", "unsure"]
Status = Literal["judged", "abstained", "empty_answer", "not_judged"]

_DOUBTFUL_SUPPORT: Final = 0.5
MOST_QUOTED_CHARACTERS: Final = 300


class EvidenceItem(SparseModel):
    """A passage of a context."""

    context: int | None = Field(
        default=None, description="Index of the context; left out when a judge quoted nothing that we found."
    )
    context_id: str | None = Field(default=None, description="Its id, where you gave one.")
    quote: str = Field(description="The passage; when verified, `contexts[context][start:end]` to the letter.")
    start: int | None = Field(default=None, description="Left out where it was not found, or stands in the title.")
    end: int | None = None
    verified: bool = Field(description="True if the passage was found in that context.")
    kind: Literal["quoted", "located"] | None = Field(
        default=None,
        description="`located`: the judge named the context at most, and code found the passage in it; left out for a "
        "quote.",
    )


class WarningItem(SparseModel):
    """A warning: its text, and what it says apart from a language."""

    text: str
    code: str | None = Field(default=None, description="Stable name of what it says; left out in results of 0.2.")
    fields: dict[str, Any] = Field(default={}, description=FIELDS)


class ClaimItem(SparseModel):
    """A checkable assertion of one sentence. Tiers `embedding` and `lexical` take the whole sentence as one claim."""

    id: str
    sentence: int = Field(ge=0, description="Number of its sentence in the answer, counted from 0.")
    text: str
    start: int = Field(ge=0, description="Its sentence is `answer[start:end]`.")
    end: int = Field(ge=0)
    verdict: Literal["supported", "partial", "contradicted", "not_mentioned", "not_a_claim"]
    support: Share | None = Field(
        default=None,
        description="llm: the verdict's weight (supported 1, partial 0.5, else 0); of a decision model the probability "
        "of `supported`, calibrated where labels fitted it. Other tiers: calibrated similarity, "
        "`supported` from 0.5. Left out for `not_a_claim`.",
    )
    judge: str | None = Field(
        default=None, description="llm: the model that decided, where a second one was asked about some sentences."
    )
    weight: float = Field(
        gt=0,
        description="Weight of its sentence, shared by the claims of that sentence: 1 in llm, where `faithfulness` is "
        "the weighted mean of support; its length in characters in the other tiers.",
    )
    reason: str | None = Field(
        default=None,
        description="What counts against an answer has one. llm: the judge's; of a verdict that code changed, what it "
        "found. Other tiers: what no context has of the sentence, or what else is wrong with it.",
    )
    reason_code: str | None = Field(default=None, description=CODE)
    reason_fields: dict[str, Any] = Field(default={}, description=FIELDS)
    evidence: list[EvidenceItem] = Field(default=[])
    flags: list[str] = Field(default=[])


class VerdictCounts(WireModel):
    """Number of claims with each verdict."""

    supported: int = 0
    partial: int = 0
    contradicted: int = 0
    not_mentioned: int = 0
    not_a_claim: int = 0


class DecidingClaim(SparseModel):
    """A claim that decided against the answer."""

    claim: str = Field(description="Its id.")
    sentence: str = Field(description="The text of its sentence, at most 300 characters.")
    reason: str | None = Field(default=None, description="That of the claim.")


class DecisionItem(SparseModel):
    """The decision on an answer: its rule, and the claims that decided against it."""

    rule: PassRule = Field(
        description="`threshold`: faithfulness >= the threshold of the request or the service. Without one, "
        "`all_supported` in tier llm: `scores.unsupported_claims` is 0. Tiers embedding and lexical pass an answer by "
        "`copied`: its sentences are nearly copied from the contexts, or by `covered`: a long answer to a question "
        "whose score is right in nine of ten; they fail one by `hard_reason`: a number, name, link or code that no "
        "context has, a denial, or a sentence about something else; else they are `unsure`, and `passed` is null. "
        "`calibrated` in tier detector: faithfulness >= the score at which half of the answers in "
        "its calibration data were faithful."
    )
    threshold: Share | None = Field(
        default=None,
        description="Faithfulness that decided, with `threshold` and `calibrated`.",
    )
    because: list[DecidingClaim] = Field(
        default=[],
        description="Where `passed` is false: with `all_supported` the claims that are not supported, with "
        "`hard_reason` those with the flag of that name; else those whose support is under 0.5, or the one with the "
        "least.",
    )


class CitationItem(SparseModel):
    """A passage that a citation mark of the answer names; a mark that names two, [1, 2], is two of them."""

    text: str = Field(description="The mark, as it stands at `answer[start:end]`.")
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    sentence: int = Field(ge=0, description="Number of its sentence, as of a claim.")
    label: str = Field(description="What the mark names: a number or an id.")
    context: int | None = Field(
        default=None, description="Index of the context; left out if there is none of that name."
    )
    context_id: str | None = Field(default=None, description="Its id, where you gave one.")
    verdict: Literal["supported", "partial", "wrong_passage", "not_supported", "no_such_passage"] = Field(
        description="`supported`: the passage alone supports the statement before the mark. `partial`: a part of it, "
        "or all of it together with others cited there. `wrong_passage`: another context does, see `better_context`."
    )
    better_context: int | None = Field(
        default=None, description="For `wrong_passage`: index of a context that supports it."
    )


class ScoreItems(SparseModel):
    """The further scores of an answer, each left out where it has no value."""

    faithfulness_strict: Share | None = Field(default=None, description="llm: as faithfulness, partial counting 0.")
    contradiction_rate: Share | None = Field(default=None, description="llm: share of checkable claims contradicted.")
    unsupported_rate: Share | None = Field(default=None, description="llm: share of checkable claims not mentioned.")
    lowest_support: Share | None = Field(default=None, description="Least support of a checkable claim.")
    unsupported_claims: int | None = Field(
        default=None,
        ge=0,
        description="Number of checkable claims whose verdict is not `supported`: `partial`, `contradicted` and "
        "`not_mentioned`, without duplicates.",
    )
    contexts_used_share: Share | None = Field(
        default=None, description="Contexts used / contexts given: utilization as RAGChecker and Vertex mean it."
    )
    token_f1: Share | None = Field(default=None, description="Token F1 with the reference.")
    exact_match: Share | None = Field(
        default=None, description="1 when equal to the reference after SQuAD normalisation, else 0."
    )
    citation_recall: Share | None = Field(
        default=None,
        description="Sentences fully supported by the passages they cite / sentences that assert (Gao et al. 2023).",
    )
    citation_precision: Share | None = Field(
        default=None, description="Citations that are sufficient, or needed with others / citations (Gao et al. 2023)."
    )


class AttemptItem(SparseModel):
    """One tier's try, in the order in which they were made."""

    tier: TierName
    outcome: Literal["answered", "failed"]
    reason: str | None = Field(default=None, description="Of a failure: one of a closed set, `timeout` for example.")
    detail: str | None = None
    detail_code: str | None = Field(default=None, description=CODE)
    detail_fields: dict[str, Any] = Field(default={}, description=FIELDS)
    seconds: float = Field(ge=0)
    calls: int = Field(ge=0, description="Requests that reached a provider, retries included.")


class Tokens(SparseModel):
    """Tokens as the provider counted them; left out where it did not say."""

    prompt: int | None = None
    completion: int | None = None


class JudgeItem(SparseModel):
    """The model that answered, and for an LLM the prompt by name, version, language and SHA-256."""

    model: str
    kind: Literal["decisions", "systemone"] | None = Field(
        default=None, description="What a decision model was asked with; left out for chat models and other tiers."
    )
    prompt: str | None = None
    prompt_digest: str | None = None
    calls: int
    tokens: Tokens = Tokens()
    cache: Literal["hit", "miss", "bypass"] | None = Field(
        default=None, description="`hit` if the judgement came from the cache; left out for tiers without one."
    )
    controls: int | None = Field(
        default=None,
        description="Sentences whose verdict we know, judged among the answer's to see if the judge can be trusted.",
    )
    controls_right: int | None = Field(default=None, description="Of them those that it judged rightly.")


class UsageItem(WireModel):
    """Usage of all tiers together, failed ones included. Tokens are the providers' counts."""

    calls: int
    unmetered_calls: int = Field(description="Calls for which the provider gave no count of tokens.")
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = Field(description="Of the prompt tokens, those that the provider had cached.")
    cost: float | None = Field(description="In the currency of the price table; null when a call's price is not known.")


NO_USAGE: Final = UsageItem(calls=0, unmetered_calls=0, prompt_tokens=0, completion_tokens=0, cached_tokens=0, cost=0.0)


class TraceItem(SparseModel):
    """The way to a result: the tiers that were asked, the model that answered, and what it used."""

    attempts: list[AttemptItem] = Field(default=[])
    judge: JudgeItem | None = None
    usage: UsageItem = Field(default=NO_USAGE, description="Left out without a call.")
    windows: int = Field(
        default=1,
        ge=1,
        description="Parts into which the contexts were cut for a judge to read them all; left out where it is 1.",
    )


class MetricVerdictItem(SparseModel):
    """One verdict that a metric is counted from."""

    of: str = Field(
        description="What was judged: `question_parts` (things that the question asks for: `fully`, `partly`, `evaded`,"
        " `no`), `passages` (contexts: `relevant`, `irrelevant`), `reference_in_answer` (facts of the reference: "
        "`stated`, `contradicted`, `missing`), `reference_in_contexts` (`found`, `missing`), `claims_by_reference` "
        "(claims of the answer: `stated`, `contradicted`, `not_mentioned`), `criterion_NAME` (your labels)."
    )
    context: int | None = Field(default=None, description="Index of the context it is about.")
    text: str | None = Field(default=None, description="The part it is about; left out where that is a whole context.")
    verdict: str
    sentences: list[int] = Field(default=[], description="Numbers of the answer's sentences that the verdict rests on.")
    evidence: list[EvidenceItem] = Field(default=[])
    flags: list[str] = Field(
        default=[], description="`evidence_unverified`: it had no evidence that we found, and was lowered."
    )


class MetricItem(SparseModel):
    """The value of one metric."""

    value: Share | None = Field(description="Null unless the status is `judged` or `uncalibrated`.")
    status: Literal["judged", "uncalibrated", "not_judged", "not_applicable"] = Field(
        description="`judged`: by a judge, or counted from the words, as `bleu`. `uncalibrated`: an estimate by "
        "similarity, for order alone. `not_judged`: see `reason`. "
        "`not_applicable`: the sample lacks what it needs, or there is nothing to count."
    )
    reason: str | None = Field(
        default=None,
        description="Left out with a value. `no_question`, `no_contexts`, `no_reference`, `nothing_to_count`; "
        "`abstained`, `empty_answer`, `not_judged` as the status of the result; `not_by_tier_lexical`: this tier "
        "cannot judge it; `too_long`: a text of over 50,000 characters, for metrics that compare words; or the reason "
        "of the call that failed: `invalid_reply`, `timeout`, ...",
    )
    parts: dict[str, Share | None] | None = Field(
        default=None,
        description="Numbers that the value is made of: of `correctness` recall, precision and share contradicted.",
    )
    verdicts: list[MetricVerdictItem] = Field(default=[])


class TurnItem(SparseModel):
    """A message of the assistant that was judged; its claims are those of its sentences."""

    message: int = Field(ge=0, description="Its position in `messages`, counted from 0.")
    start: int = Field(ge=0, description="Subtract it from `start` and `end` of a claim for the place in its text.")
    end: int = Field(ge=0)
    sentences: list[int] = Field(default=[], description="Numbers of its sentences.")
    contexts: list[int] = Field(default=[], description="Indices of the contexts that were evidence for it.")
    status: Status
    tier: TierName | None
    faithfulness: Share | None
    passed: bool | None
    lowest_support: Share | None = None
    unsupported_claims: int | None = None
    confidence: Share | None = None
    flags: list[str] = Field(default=[])
    metrics: dict[str, Share | None] = Field(default={}, description="Values of the metrics asked for.")


class ConversationItem(SparseModel):
    """The turns of a conversation. Its `faithfulness` is their mean, and it passes if each of them does."""

    lowest_faithfulness: Share | None = Field(default=None, description="That of the worst turn.")
    turns: list[TurnItem]


def deciding_claims(rule: str, checkable: Mapping[str, tuple[str, float]], flagged: Collection[str] = ()) -> list[str]:
    """Return the ids of the claims that decided against an answer.

    `checkable`: verdict and support of each claim that can be checked, by its id; `flagged`: ids of those with a hard
    reason against them.
    """
    if rule == "hard_reason" and flagged:
        return [claim for claim in checkable if claim in flagged]
    if rule == "all_supported":
        return [claim for claim, (verdict, _) in checkable.items() if verdict != "supported"]
    doubtful = [claim for claim, (_, support) in checkable.items() if support < _DOUBTFUL_SUPPORT]
    return doubtful or sorted(checkable, key=lambda claim: checkable[claim][1])[:1]
