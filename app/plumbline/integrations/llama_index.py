"""LlamaIndex: an evaluator of faithfulness."""

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.evaluation import BaseEvaluator, EvaluationResult

from plumbline.integrations.checker import Checker
from plumbline.schemas.explanation import explain, unjudged_reason


class PlumblineEvaluator(BaseEvaluator):  # type: ignore[misc]
    """Evaluates a response with its contexts; `evaluate_response` takes those of its source nodes.

    `checker`: judges; None: the service of PLUMBLINE_URL, else this process.

    What no tier judged, and an answer that declines, is an invalid result with its reason and no score.
    """

    def __init__(self, checker: Checker | None = None) -> None:
        self._checker = checker or Checker()

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **_: Any,
    ) -> EvaluationResult:
        if response is None or contexts is None:
            raise ValueError("response and contexts must be provided")
        result = await asyncio.to_thread(self._checker.check, response, contexts, question=query or "")
        reason = unjudged_reason(result)
        return EvaluationResult(
            query=query,
            response=response,
            contexts=list(contexts),
            score=result.faithfulness,
            passing=result.passed,
            feedback=explain(result),
            invalid_result=reason is not None,
            invalid_reason=reason,
        )

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, _: dict[str, Any]) -> None:
        """There are none: prompts are the service's."""
