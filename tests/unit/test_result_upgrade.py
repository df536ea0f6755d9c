"""Result files of 0.1 and 0.2 are read as those of 0.3; a result leaves out the keys that say nothing."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from plumbline.rows.records.result_table import flat_result
from plumbline.rows.report.result_lines import ResultRow, read_head, read_line
from plumbline.schemas.batch import RowResult
from plumbline.schemas.evaluation import EvaluationResult
from plumbline.schemas.result_upgrade import upgrade_line, upgrade_result
from plumbline.schemas.wire import SparseModel
from tests.making.result_rows import build_report

OLD_LINES = Path("tests/data/old_results.jsonl").read_bytes().splitlines()
NEW: dict[str, Any] = json.loads(Path("tests/data/sparse_result.json").read_text(encoding="utf-8"))
OF_0_1 = {
    **NEW,
    "decision": {"rule": "threshold", "threshold": 0.7, "because": NEW["decision"]["because"]},
    "trace": {
        **NEW["trace"],
        "judge": {name: NEW["trace"]["judge"][name] for name in NEW["trace"]["judge"] if "controls" not in name},
    },
}
NEW_LINE = json.dumps({"custom_id": "a", "row": 0, "result": NEW}).encode()


@pytest.mark.parametrize(("line", "expected"), [(OLD_LINES[0], OF_0_1), (OLD_LINES[1], NEW), (NEW_LINE, NEW)])
def test_lines_of_every_version_are_read_as_those_of_this_one(line: bytes, expected: dict[str, Any]) -> None:
    new = json.dumps({"custom_id": "a", "row": 0, "result": expected}).encode()

    assert json.loads(upgrade_line(line)) == json.loads(new)
    assert isinstance(read_line(line), ResultRow)
    assert read_line(line) == read_line(new)
    assert read_head(line) == read_head(new)
    assert flat_result(json.loads(line)) == flat_result(json.loads(new))
    assert build_report([line]).summary == build_report([new]).summary
    assert build_report([new], baseline_lines=[line]).summary.comparison is not None


def test_an_answer_fails_because_of_its_doubtful_sentences_or_of_the_weakest() -> None:
    old = json.loads(OLD_LINES[1])["result"]
    strong = {**old["claims"][1], "support": 0.6, "verdict": "supported"}

    by_support = upgrade_result({**old, "passed_by": "calibrated", "threshold": 0.5})
    by_least = upgrade_result({**old, "passed_by": "threshold", "threshold": 0.9, "claims": [old["claims"][0], strong]})
    passed = upgrade_result({**old, "passed": True})

    assert [each["claim"] for each in by_support["decision"]["because"]] == ["1.0"]
    assert [each["claim"] for each in by_least["decision"]["because"]] == ["1.0"]
    assert passed["decision"]["because"] == []


@pytest.mark.parametrize("value", [None, 3, {}, {"sentences": 3}, {"sentences": [{}], "claims": [{}]}, NEW])
def test_what_is_no_old_result_stays_as_it_is(value: object) -> None:
    assert upgrade_result(value) is value


def parts_of(model: type[BaseModel]) -> set[type[BaseModel]]:
    found = {model}
    for field in model.model_fields.values():
        waiting = [field.annotation]
        while waiting:
            each = waiting.pop()
            waiting += get_args(each)
            if isinstance(each, type) and issubclass(each, BaseModel):
                found |= parts_of(each)
    return found


def test_a_field_with_a_default_is_left_out_wherever_it_has_it() -> None:
    value = RowResult(custom_id="a", row=0, result=EvaluationResult.model_validate(NEW))

    always = {name for name, field in EvaluationResult.model_fields.items() if field.is_required()}
    whole = {part.__name__ for part in parts_of(EvaluationResult) if not issubclass(part, SparseModel)}
    schema = EvaluationResult.model_json_schema(mode="serialization")

    assert value.model_dump(mode="json")["result"] == json.loads(value.model_dump_json())["result"] == NEW
    assert schema["required"] == [
        "status", "tier", "faithfulness", "hallucination_rate", "context_utilization", "passed", "trace"
    ]  # fmt: skip
    assert always == set(schema["required"])
    # Parts that count: all their numbers are sent.
    assert whole == {"UsageItem", "VerdictCounts"}


def test_what_was_left_out_reads_as_none_or_empty() -> None:
    sent = dict.fromkeys(("tier", "faithfulness", "hallucination_rate", "context_utilization", "passed"))

    result = EvaluationResult.model_validate({"status": "empty_answer", **sent, "trace": {}})

    assert (result.decision, result.confidence, result.scores.token_f1, result.trace.judge) == (None,) * 4
    assert (result.claims, result.flags, result.trace.attempts, result.metrics) == ([], [], [], {})
    assert (result.counts.supported, result.trace.usage.calls, result.trace.windows) == (0, 0, 1)
