"""OpenTelemetry: a result as the event `gen_ai.evaluation.result` on the span of the answer that it is about."""

from typing import TYPE_CHECKING, Final

from plumbline.schemas.evaluation import EvaluationResult
from plumbline.schemas.explanation import decision_word, explain

if TYPE_CHECKING:
    from opentelemetry.trace import Span

EVENT: Final = "gen_ai.evaluation.result"


def evaluation_attributes(
    result: EvaluationResult, *, response_id: str | None = None, has_texts: bool = False
) -> dict[str, str | float]:
    """Return the attributes of the event, by the semantic conventions of GenAI (in development).

    Without a score there is no `score.value`; the label is then the status, and `error.type` the first tier's reason.

    Args:
        response_id: `gen_ai.response.id` of the evaluated answer.
        has_texts: let the explanation quote the answer and the contexts; else it has counts and scores alone.
    """
    label = decision_word(result, "pass", "fail")
    explanation = explain(result) if has_texts else explain(result).partition("\n")[0]
    attributes: dict[str, str | float] = {
        "gen_ai.evaluation.name": "faithfulness",
        "gen_ai.evaluation.score.label": label,
        "gen_ai.evaluation.explanation": explanation,
    }
    if result.faithfulness is not None:
        attributes["gen_ai.evaluation.score.value"] = result.faithfulness
    if response_id is not None:
        attributes["gen_ai.response.id"] = response_id
    if result.status == "not_judged":
        attributes["error.type"] = next((each.reason for each in result.trace.attempts if each.reason), "not_judged")
    return attributes


def add_evaluation_event(
    result: EvaluationResult,
    span: "Span | None" = None,
    *,
    response_id: str | None = None,
    has_texts: bool = False,
) -> None:
    """Add the event to a span, by default the current one; arguments as of `evaluation_attributes`."""
    if span is None:
        from opentelemetry import trace  # noqa: PLC0415 - not in the light half

        span = trace.get_current_span()
    span.add_event(EVENT, evaluation_attributes(result, response_id=response_id, has_texts=has_texts))
