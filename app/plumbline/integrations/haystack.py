"""Haystack: a component that evaluates faithfulness, with the outputs of Haystack's own."""

from typing import Any

from haystack import component, default_to_dict

from plumbline.integrations.checker import Checker
from plumbline.schemas.explanation import explain


@component
class PlumblineFaithfulness:
    """Evaluates answers in one batch.

    Args:
        url: of a service; None: PLUMBLINE_URL, else this process.
        checker: replaces it.

    `individual_scores` has None, and `results` the status `error`, for an answer without a score; `score` is the mean
    of the others, None without any.
    """

    def __init__(self, url: str | None = None, *, checker: Checker | None = None) -> None:
        self.url = url
        self._checker = checker or Checker(url)

    @component.output_types(score=float | None, individual_scores=list[float | None], results=list[dict[str, Any]])  # type: ignore[untyped-decorator]
    def run(self, questions: list[str], contexts: list[list[str]], predicted_answers: list[str]) -> dict[str, Any]:
        rows = self._checker.check_many(
            {"question": question, "contexts": texts, "answer": answer}
            for question, texts, answer in zip(questions, contexts, predicted_answers, strict=True)
        )
        results: list[dict[str, Any]] = []
        for row in rows:
            result = row.result
            claims = [each for each in result.claims if each.support is not None] if result else []
            score = result.faithfulness if result else None
            reason = explain(result) if result else row.problem.detail if row.problem else ""
            results.append(
                {
                    "statements": [each.text for each in claims],
                    "statement_scores": [each.support for each in claims],
                    "score": score,
                    "status": "error" if score is None else "evaluated",
                    "reason": reason,
                }
            )
        scores = [each["score"] for each in results]
        known = [each for each in scores if each is not None]
        mean = sum(known) / len(known) if known else None
        return {"score": mean, "individual_scores": scores, "results": results}

    def to_dict(self) -> dict[str, Any]:
        described: dict[str, Any] = default_to_dict(self, url=self.url)
        return described
