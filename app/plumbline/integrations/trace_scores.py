"""Phoenix and Langfuse: results as annotations of spans and scores of traces, as POSTs to their APIs take them.

One that is sent again replaces the first.
"""

from typing import Any, Final

from plumbline.schemas.evaluation import EvaluationResult
from plumbline.schemas.explanation import decision_word, explain

_NAME: Final = "faithfulness"


def phoenix_annotation(span_id: str, result: EvaluationResult) -> dict[str, Any]:
    """Return an annotation of a span; without a score its label is the status and it has no score."""
    label = decision_word(result, "faithful", "unfaithful")
    return {
        "span_id": span_id,
        "name": _NAME,
        "annotator_kind": "LLM" if result.tier == "llm" else "CODE",
        "result": {"label": label, "score": result.faithfulness, "explanation": explain(result)},
        "metadata": {"tier": result.tier, "status": result.status},
        "identifier": "plumbline",
    }


def langfuse_score(trace_id: str, result: EvaluationResult, *, observation_id: str | None = None) -> dict[str, Any]:
    """Return a score of a trace or of one of its observations; without a number it is the category `status`."""
    place = f"{trace_id}-{observation_id}" if observation_id else trace_id
    name, kind = (_NAME, "NUMERIC") if result.faithfulness is not None else (f"{_NAME}_status", "CATEGORICAL")
    score = {
        "id": f"plumbline-{place}-{name}",
        "traceId": trace_id,
        "name": name,
        "dataType": kind,
        "value": result.status if result.faithfulness is None else result.faithfulness,
        "comment": explain(result),
        "metadata": {"tier": result.tier, "passed": result.passed},
    }
    return {**score, "observationId": observation_id} if observation_id else score
