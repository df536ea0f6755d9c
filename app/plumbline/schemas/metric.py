"""Metrics besides faithfulness on the wire, and the passages that verdicts rest on."""

import re
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from plumbline.schemas.wire import Share, WireModel, is_none

_NO_LETTER: Final = re.compile(r"[\W_]+")


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


class Criterion(WireModel):
    """A criterion of your own, judged in the same call as the rest: a question about the answer, and its labels."""

    model_config = ConfigDict(strict=True)

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
            raise PydanticCustomError("labels_alike", "expected labels that differ by their letters or digits")
        return labels


class MetricVerdictItem(WireModel):
    """One verdict that a metric is counted from."""

    of: str = Field(
        description="What was judged: `question_parts` (things that the question asks for: `fully`, `partly`, `evaded`,"
        " `no`), `passages` (contexts: `relevant`, `irrelevant`), `reference_in_answer` (facts of the reference: "
        "`stated`, `contradicted`, `missing`), `reference_in_contexts` (`found`, `missing`), `claims_by_reference` "
        "(claims of the answer: `stated`, `contradicted`, `not_mentioned`), `criterion_NAME` (your labels)."
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
        description="`judged`: by a judge, or counted from the words, as `bleu`. `uncalibrated`: an estimate by "
        "similarity, for order alone. `not_judged`: see `reason`. "
        "`not_applicable`: the sample lacks what it needs, or there is nothing to count."
    )
    reason: str | None = Field(
        description="Null where there is a value. `no_question`, `no_contexts`, `no_reference`, `nothing_to_count`; "
        "`abstained`, `empty_answer`, `not_judged` as the status of the result; `not_by_tier_lexical`: this tier "
        "cannot judge it; `too_long`: a text of over 50,000 characters, for `bleu`, `chrf` and `gleu`; or the reason "
        "of the call that failed: `invalid_reply`, `timeout`, ..."
    )
    parts: dict[str, Share | None] | None = Field(
        default=None,
        exclude_if=is_none,
        description="Numbers that the value is made of: of `correctness` recall, precision and share contradicted.",
    )
    verdicts: list[MetricVerdictItem]
