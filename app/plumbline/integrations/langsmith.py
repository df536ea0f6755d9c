"""LangSmith and openevals: an evaluator, as a function of inputs and outputs."""

from collections.abc import Callable, Mapping
from typing import Any

from plumbline.integrations.checker import Checker
from plumbline.schemas.explanation import explain

Evaluator = Callable[..., dict[str, Any]]


def faithfulness_evaluator(checker: Checker | None = None, *, key: str = "faithfulness") -> Evaluator:
    """Return the evaluator for `client.evaluate(evaluators=[...])`.

    Question, contexts and answer are found in inputs and outputs by their usual names. Without a score `score` is None
    and `value` the status.
    """
    judge = checker or Checker()

    def evaluate(inputs: Mapping[str, Any], outputs: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        result = judge.check_fields({"input": inputs, "output": outputs})
        if result.faithfulness is None:
            return {"key": key, "score": None, "value": result.status, "comment": explain(result)}
        return {"key": key, "score": result.faithfulness, "comment": explain(result)}

    return evaluate
