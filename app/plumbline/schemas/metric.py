"""Metrics besides faithfulness on the wire, and the passages that verdicts rest on."""

from typing import Literal

from pydantic import Field

from plumbline.schemas.wire import Share, WireModel, is_none


class EvidenceItem(WireModel):
    """A passage of a context."""

    context: int | None = Field(description="Index of the context; null when a judge quoted nothing that we found.")
    context_id: str | None = Field(
        default=None, exclude_if=is_none, description="Its id; left out where you gave none."
    )
    quote: str = Field(description="The passage; when verified, `contexts[context][start:end]` to the letter.")
    start: int | None = Field(description="Null where it was not found, or stands in the title.")
    end: int | None
    verified: bool = Field(description="True if the passage was found in that context.")


class MetricVerdictItem(WireModel):
    """One verdict that a metric is counted from."""

    of: str = Field(
        description="What was judged: `question_parts` (things that the question asks for: `fully`, `partly`, `evaded`,"
        " `no`), `passages` (contexts: `relevant`, `irrelevant`), `reference_in_answer` (facts of the reference: "
        "`stated`, `contradicted`, `missing`), `reference_in_contexts` (`found`, `missing`), `claims_by_reference` "
        "(claims of the answer: `stated`, `contradicted`, `not_mentioned`)."
    )
    context: int | None = Field(default=None, exclude_if=is_none, description="Index of the context it is about.")
    text: str = Field(description="The part it is about; empty where that is a whole context.")
    verdict: str
    sentences: list[int] = Field(description="Indices of the answer's sentences that the verdict rests on.")
    evidence: list[EvidenceItem]
    flags: list[str] = Field(description="`evidence_unverified`: it had no evidence that we found, and was lowered.")


class MetricItem(WireModel):
    """The value of one metric."""

    value: Share | None = Field(description="Null unless the status is `judged` or `uncalibrated`.")
    status: Literal["judged", "uncalibrated", "not_judged", "not_applicable"] = Field(
        description="`uncalibrated`: an estimate by similarity, for order alone. `not_judged`: see `reason`. "
        "`not_applicable`: the sample lacks what it needs, or there is nothing to count."
    )
    reason: str | None = Field(
        description="Null where there is a value. `no_question`, `no_contexts`, `no_reference`, `nothing_to_count`; "
        "`abstained`, `empty_answer`, `not_judged` as the status of the result; `not_by_tier_lexical`: this tier "
        "cannot judge it; or the reason of the call that failed: `invalid_reply`, `timeout`, ..."
    )
    parts: dict[str, Share | None] | None = Field(
        default=None,
        exclude_if=is_none,
        description="Numbers that the value is made of: of `correctness` recall, precision and share contradicted.",
    )
    verdicts: list[MetricVerdictItem]
