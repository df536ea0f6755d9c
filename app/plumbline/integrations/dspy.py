"""DSPy: a metric, whose feedback names the claims at fault for optimizers that read it (GEPA)."""

from typing import Any

import dspy

from plumbline.integrations.checker import Checker
from plumbline.schemas.explanation import explain


class FaithfulnessMetric:
    """Calls as DSPy makes them: `metric(gold, pred, trace=None)`, and GEPA's with two arguments more.

    Question, contexts and answer are found in the example and the prediction by their usual names. The value is a
    `dspy.Prediction` with score and feedback; while demonstrations are collected (`trace`), True if the answer passed.

    Raises ValueError: there is no score; DSPy counts it as an error of that example.
    """

    def __init__(self, checker: Checker | None = None) -> None:
        self._checker = checker or Checker()

    def __call__(
        self, gold: Any, pred: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> Any:
        result = self._checker.check_fields({"input": gold.toDict(), "output": pred.toDict()})
        if result.faithfulness is None:
            raise ValueError(explain(result))
        if trace is not None and pred_name is None:
            return result.passed is True
        return dspy.Prediction(score=result.faithfulness, feedback=explain(result))
