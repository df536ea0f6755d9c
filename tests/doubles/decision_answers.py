"""What a scripted decision model answers, in OpenAI's shape and in System One's, by a rule of the test."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.doubles.scripted_replies import RecordedRequest, Reply, status

REFUSED_CHAT = "Model is a decision model, not a language model. Use POST /v1/systemone or /v1/decisions."


@dataclass(frozen=True, slots=True)
class Asked:
    """One question as it came, whatever its shape. `values`: empty for a yes or no; `state`: all that was shown."""

    name: str
    instructions: str
    values: tuple[str, ...]
    state: str


class Raw(dict[str, Any]):
    """An answer as it is to be sent."""


# From a question to the probability of each value, or of yes where it has none.
Rule = Callable[[Asked], Mapping[str, float] | float | Raw]


def read_questions(request: RecordedRequest) -> list[Asked]:
    """Return the questions of a request to either operation."""
    body = request.json
    state = json.dumps(body.get("state", body.get("input")), ensure_ascii=False)
    if isinstance(body["questions"], dict):
        return [
            Asked(name, each["instructions"], tuple(each.get("criteria") or ()), state)
            for name, each in body["questions"].items()
        ]
    return [
        Asked(each["name"], each["instructions"], tuple(it["value"] for it in each.get("choices", ())), state)
        for each in body["questions"]
    ]


def put(winner: str, values: tuple[str, ...], chance: float = 0.9) -> dict[str, float]:
    """Return the probabilities that give the winner this chance and the others the rest, in equal parts."""
    rest = (1 - chance) / max(1, len(values) - 1)
    return {value: chance if value == winner else rest for value in values}


def decide(rule: Rule, *, shape: str = "") -> Callable[[RecordedRequest], Reply]:
    """Return a step that answers by the rule, in the shape of the operation or in the one that is named."""

    def step(request: RecordedRequest) -> Reply:
        is_list = (shape or request.path.rpartition("/")[2]) == "decisions"
        answers = [(asked.name, _answer(rule(asked), is_list=is_list)) for asked in read_questions(request)]
        named: object = [{"name": name, **each} for name, each in answers] if is_list else dict(answers)
        tokens = len(request.body) // 4
        usage: dict[str, Any] = {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}
        details = {"input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 0}}
        usage |= details if is_list else {}
        return status(200, {"model": "decider-1", "answers": named, "usage": usage})

    return step


def refuse_chat(request: RecordedRequest) -> Reply:
    return status(400, {"error": {"type": "invalid_request_error", "code": None, "message": REFUSED_CHAT}})


def _answer(said: Mapping[str, float] | float | Raw, *, is_list: bool) -> dict[str, Any]:
    if isinstance(said, Raw):
        return said
    if not isinstance(said, Mapping):
        return {"type": "predicate", "probability": said} if is_list else {"type": "noul", "noul": said}
    top = max(said, key=said.__getitem__)
    pairs = [{"value": value, "probability": chance} for value, chance in said.items()]
    chances: object = pairs if is_list else dict(said)
    return {"type": "choice", "choice": top, "confidence": said[top], "probabilities": chances}
