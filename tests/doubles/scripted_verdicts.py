"""A service that judges by one rule: an answer that holds the false sentence does not pass."""

import json
from typing import Any

from tests.doubles.scripted_service import NDJSON, Answer, Asked, json_answer, result_of

FALSE = "It is 65 metres high."


def service_result(answer: str, name: str | None = None) -> dict[str, Any]:
    """A judge's result: an answer with the false sentence does not pass."""
    if answer == "I do not know.":
        return result_of(name, status="abstained", faithfulness=None, passed=None, tier=None)
    is_false = FALSE in answer
    claim = {
        "id": "c1", "sentence": 0, "text": answer, "start": 0, "end": len(answer), "weight": 1.0,
        "verdict": "contradicted" if is_false else "supported", "support": 0.0 if is_false else 1.0,
        "reason": "The context says 41." if is_false else None,
    }  # fmt: skip
    score = 0.0 if is_false else 1.0
    return result_of(
        name, tier="llm", faithfulness=score, passed=not is_false, claims=[claim],
        decision={"rule": "threshold", "threshold": 0.5},
        scores={"lowest_support": score, "unsupported_claims": int(is_false)},
    )  # fmt: skip


def judge(asked: Asked) -> Answer:
    if asked.path == "/v1/evaluations":
        return json_answer(service_result(asked.json["answer"]))
    rows = []
    for index, each in enumerate(asked.json["samples"]):
        name = each.get("custom_id")
        rows.append({"custom_id": name, "index": index, "result": service_result(each["answer"], name)})
    return Answer([json.dumps(row).encode() + b"\n" for row in rows] + [b'{"summary":{}}\n'], media_type=NDJSON)
