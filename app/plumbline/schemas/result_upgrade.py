"""Results of versions 0.1 and 0.2, flat and with a list of sentences, in the shape of 0.3."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import from_json

from plumbline.schemas.batch import RowResult
from plumbline.schemas.evaluation import EvaluationResult
from plumbline.schemas.result_parts import MOST_QUOTED_CHARACTERS, ScoreItems, TraceItem, deciding_claims
from plumbline.schemas.wire import json_line

_UNSUPPORTED: Final = ("partial", "contradicted", "not_mentioned")


def upgrade_row(row: Any) -> Any:
    result = row.get("result") if isinstance(row, Mapping) else None
    upgraded = upgrade_result(result)
    return row if upgraded is result else {**row, "result": upgraded}


def upgrade_line(line: bytes) -> bytes:
    # A quote within a text is escaped, so that these can only be keys.
    if b'"trace":' in line or b'"result":' not in line:
        return line
    try:
        return json_line(RowResult.model_validate(upgrade_row(from_json(line))))
    except ValueError:
        return line


def upgrade_result(result: Any) -> Any:
    """Return a result of 0.1 or 0.2 in the shape of 0.3, and anything else as it is."""
    if not isinstance(result, Mapping) or "trace" in result or "sentences" not in result:
        return result
    try:
        return _upgrade(result)
    except (AttributeError, KeyError, TypeError):
        # No result of ours: readers say what is wrong with it.
        return result


def _upgrade(old: Mapping[str, Any]) -> dict[str, Any]:
    checkable = {
        claim["id"]: (claim["verdict"], claim["support"] or 0.0)
        for claim in old["claims"]
        if claim["verdict"] != "not_a_claim" and "duplicate" not in claim["flags"]
    }
    scores = {name: old.get(name) for name in ScoreItems.model_fields}
    decision = None
    if old["passed"] is not None:
        # 0.1 knew thresholds alone, and did not count what they are compared with.
        rule = old.get("passed_by") or "threshold"
        decision = {"rule": rule, "threshold": old["threshold"], "because": []}
        if scores["unsupported_claims"] is None:
            scores["unsupported_claims"] = sum(old["counts"][verdict] for verdict in _UNSUPPORTED)
            scores["lowest_support"] = min((support for _, support in checkable.values()), default=None)
        if old["passed"] is False:
            texts = {each["index"]: each["text"] for each in old["sentences"]}
            at_fault = deciding_claims(rule, checkable)
            decision["because"] = [
                {
                    "claim": claim["id"],
                    "sentence": texts.get(claim["sentence"], claim["text"])[:MOST_QUOTED_CHARACTERS],
                    "reason": claim["reason"],
                }
                for claim in old["claims"]
                if claim["id"] in at_fault
            ]
    kept = {name: old[name] for name in EvaluationResult.model_fields if old.get(name) is not None}
    if any(each["end"] - each["start"] != len(each["text"]) for each in old["sentences"]):
        kept["offset_unit"] = "utf16"
    return {
        **dict.fromkeys(name for name, field in EvaluationResult.model_fields.items() if field.is_required()),
        **kept,
        "decision": decision,
        "warnings": [{"text": each} for each in old["warnings"]],
        "scores": scores,
        "trace": {name: old[name] for name in TraceItem.model_fields if name in old},
    }
