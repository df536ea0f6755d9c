"""Worked cases: small judgments and runs with the value that trec_eval, another named tool or a hand calculation gives.

Each case of tests/data/retrieval_measures.json names its source. `refused`: the input must raise InvalidInput.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.conventions import build_conventions
from plumbline.retrieval.evaluation import evaluate
from plumbline.retrieval.ids import build_id_rule
from plumbline.retrieval.run import Run

_CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "retrieval_measures.json").read_text(encoding="utf-8")
)


def _mean(case: dict[str, Any]) -> float | None:
    conventions = build_conventions(**case.get("conventions", {}))
    rule = None
    if conventions.id_rule != "none":
        rule = build_id_rule(conventions.id_rule, pattern=conventions.id_pattern)
    run = Run("run", case["run"])
    evaluation = evaluate(case["qrels"], run, [case["measure"]], conventions=conventions, normalise_id=rule)
    return evaluation.means[case["measure"]]


@pytest.mark.parametrize(
    "case", [case for case in _CASES if case["expected"] != "refused"], ids=lambda case: case["name"]
)
def test_a_worked_case_gives_its_value(case: dict[str, Any]) -> None:
    value = _mean(case)

    assert value == (None if case["expected"] is None else pytest.approx(case["expected"], abs=1e-9, rel=0))


@pytest.mark.parametrize(
    "case", [case for case in _CASES if case["expected"] == "refused"], ids=lambda case: case["name"]
)
def test_a_case_that_would_count_a_document_twice_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"twice"):
        _mean(case)


def test_judging_chunks_gives_the_rank_among_chunks() -> None:
    # The third chunk is the relevant one: 1/3, where the ranking of its three documents gives 1/2.
    run = Run("chunks", {"q1": ["A::0", "A::3", "B::1", "C::0"]})

    evaluation = evaluate({"q1": {"B::1": 1}}, run, ["mrr"])

    assert evaluation.means["mrr"] == pytest.approx(1 / 3)
