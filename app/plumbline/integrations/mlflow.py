"""MLflow: a scorer for `mlflow.genai.evaluate`."""

from typing import Any

from mlflow.entities import AssessmentError, AssessmentSource, Feedback
from mlflow.genai import scorer

from plumbline.integrations.checker import Checker
from plumbline.schemas.explanation import explain


def faithfulness_scorer(checker: Checker | None = None, *, name: str = "faithfulness") -> Any:
    """Return the scorer. Contexts are those of outputs or inputs, else the documents of the trace's retriever spans.

    An answer without a score is a feedback with an error and no value.
    """
    judge = checker or Checker()

    def score(inputs: Any = None, outputs: Any = None, trace: Any = None) -> Any:
        fields = {"input": inputs, "output": outputs}
        spans = trace.search_spans(span_type="RETRIEVER") if trace is not None else []
        if documents := [document for span in spans for document in span.outputs or ()]:
            fields["contexts"] = documents
        result = judge.check_fields(fields)
        source = AssessmentSource(source_type="LLM_JUDGE" if result.tier == "llm" else "CODE", source_id="plumbline")
        if result.faithfulness is None:
            error = AssessmentError(error_code=result.status.upper(), error_message=explain(result))
            return Feedback(name=name, source=source, error=error)
        return Feedback(name=name, source=source, value=result.faithfulness, rationale=explain(result))

    return scorer(name=name)(score)
