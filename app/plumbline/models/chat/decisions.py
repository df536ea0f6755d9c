"""Requests to decision models in OpenAI's shape and in System One's, and the reading of answers by their own shape."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from pydantic import BaseModel, Field
from pydantic_core import from_json

from plumbline.ground.errors import FailureReason
from plumbline.ground.judge_settings import JudgeKind
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.decisions import DecisionQuestion, DecisionReply, DecisionRequest
from plumbline.judging.ports.exchange import estimate_tokens
from plumbline.models.chat.call_failures import CallFailure, embedded_failure, showable_word
from plumbline.models.chat.completions import NO_TOKENS, PROBLEM_FIELDS, WRAPPERS, ReportedTokens
from plumbline.models.chat.endpoints import Endpoint

# Kind, name and braces of a question.
_FRAME_TOKENS: Final = 24
# Estimates are from above: English has .72 of them. No text that people read has under a third.
_LEAST_READ: Final = 0.3
_LEAST_CUT: Final = 2_048
# Probabilities are rounded to two decimals, each by so much at most.
_ROUNDING: Final = 0.005
_SLACK: Final = 0.001
_REFUSALS: Final = ("refusal", "unsupported")


def decision_tokens(request: DecisionRequest) -> int:
    """Estimate the tokens of a request from above."""
    texts = [request.guidance, _json(request.contexts), _json(request.rest)]
    texts += [each.instructions + _json(each.choices) for each in request.questions]
    return sum(map(estimate_tokens, texts)) + _FRAME_TOKENS * len(request.questions)


def is_cut(read: int, needed: int) -> bool:
    """Return True if a provider counted so few tokens of a request of so many that it cannot have read all of it."""
    return needed >= _LEAST_CUT and read < _LEAST_READ * needed


def decision_parameters(
    request: DecisionRequest, endpoint: Endpoint, kind: JudgeKind, *, marks_prefix: bool
) -> dict[str, object]:
    """Build the body of a request; the endpoint's extra fields come last, and null leaves a field out.

    `marks_prefix`: a cache breakpoint stands behind the contexts.
    """
    if kind == "systemone":
        state = {"guidance": request.guidance, "contexts": request.contexts, **request.rest}
        asked: object = {each.name: _system_one(each) for each in request.questions}
        parameters: dict[str, object] = {"model": endpoint.model, "state": state, "questions": asked}
    else:
        breakpoint_ = {"prompt_cache_breakpoint": {"mode": "explicit"}} if marks_prefix else {}
        content = [
            {"type": "input_text", "text": _json({"contexts": request.contexts}), **breakpoint_},
            {"type": "input_text", "text": _json(request.rest)},
        ]
        messages = [
            {"type": "message", "role": "developer", "content": request.guidance},
            {"type": "message", "role": "user", "content": content},
        ]
        parameters = {"model": endpoint.model, "input": messages, "questions": [*map(_decision, request.questions)]}
    return {name: value for name, value in {**parameters, **endpoint.extra_body}.items() if value is not None}


def _decision(question: DecisionQuestion) -> dict[str, object]:
    choices = [{"value": value, **({"description": says} if says else {})} for value, says in question.choices.items()]
    return {"type": "choice", "name": question.name, "instructions": question.instructions, "choices": choices}


def _system_one(question: DecisionQuestion) -> dict[str, object]:
    criteria = {value: says or None for value, says in question.choices.items()}
    return {"type": "choice", "instructions": question.instructions, "criteria": criteria}


class Decisions(BaseModel):
    """The body of a reply, and the questions that were asked."""

    answers: dict[str, Any] | list[Any] | None = None
    model: object = None
    tokens: ReportedTokens = Field(NO_TOKENS, validation_alias="usage")
    error: object = None
    is_truncated: ClassVar[bool] = False
    _asked: Sequence[DecisionQuestion] = ()

    def reply(self, endpoint: Endpoint) -> DecisionReply:
        """Return the answers to the questions that were asked; raise CallFailure for an error in their place."""
        if self.answers is None:
            raise embedded_failure(self.error, endpoint) if self.error else _no_decisions()
        by_name = {each.name: each for each in self._asked}
        found: dict[str, list[object]] = {}
        for name, answer in self._named(self.answers):
            if name in by_name:
                found.setdefault(name, []).append(answer)
        # Of two answers to one question neither is known to be meant.
        single = {name: each[0] for name, each in found.items() if len(each) == 1 and isinstance(each[0], dict)}
        chances = {name: _read_answer(by_name[name], each) for name, each in single.items()}
        return DecisionReply(
            answers={name: each for name, each in chances.items() if each is not None},
            refused=frozenset(name for name, each in single.items() if each.get("type") in _REFUSALS),
            model=showable_word(self.model, endpoint) or endpoint.model,
            is_foreign=bool(self.answers) and not found,
            prompt_tokens=self.tokens.prompt,
        )

    def _named(self, answers: Mapping[str, Any] | Sequence[Any]) -> Iterator[tuple[str, object]]:
        """Yield each answer with the name of its question; those without names stand in the order of the questions."""
        if isinstance(answers, Mapping):
            yield from answers.items()
            return
        names = [each.get("name") if isinstance(each, dict) else None for each in answers]
        if not any(names) and len(answers) == len(self._asked):
            names = [each.name for each in self._asked]
        yield from ((name, each) for name, each in zip(names, answers, strict=True) if isinstance(name, str))


def read_decisions(content: bytes, request: DecisionRequest) -> Decisions:
    """Parse a reply of either shape, in a gateway's wrapper or not; raise CallFailure if it is none."""
    try:
        loaded = from_json(content.removeprefix("\ufeff".encode()))
        for name in WRAPPERS if isinstance(loaded, dict) and "answers" not in loaded else ():
            if isinstance(inner := loaded.get(name), dict) and "answers" in inner:
                loaded = inner
        is_problem = not isinstance(loaded, dict) or ("answers" not in loaded and any(map(loaded.get, PROBLEM_FIELDS)))
        body = Decisions.model_validate({"error": loaded} if is_problem else loaded)
    except ValueError as error:
        raise _no_decisions() from error
    body._asked = request.questions
    return body


def _no_decisions() -> CallFailure:
    return CallFailure(FailureReason.INVALID_REPLY, CodedText("reply_no_decisions"))


def _read_answer(question: DecisionQuestion, answer: Mapping[str, Any]) -> Mapping[str, float] | None:
    """Return the probability of each value; None for an answer of another kind, with other values, or whose numbers are
    no probabilities."""
    pairs = [(value, _probability(chance)) for value, chance in _pairs(answer.get("probabilities"))]
    chances = {value: chance for value, chance in pairs if isinstance(value, str) and chance is not None}
    is_whole = len(chances) == len(pairs) and chances.keys() == question.choices.keys()
    is_choice = answer.get("type") in (None, "choice") and _probability(answer.get("confidence", 1.0)) is not None
    if not is_choice or not is_whole:
        return None
    slack = _ROUNDING * len(chances) + _SLACK
    chosen = answer.get("choice")
    # The value that it names is the likeliest, or as likely as that.
    is_chosen = isinstance(chosen, str) and chances.get(chosen, -1.0) + 2 * _ROUNDING >= max(chances.values())
    return chances if is_chosen and abs(math.fsum(chances.values()) - 1.0) <= slack else None


def _pairs(probabilities: object) -> Iterator[tuple[object, object]]:
    if isinstance(probabilities, dict):
        yield from probabilities.items()
    elif isinstance(probabilities, list):
        yield from (
            (each.get("value"), each.get("probability")) if isinstance(each, dict) else (None, None)
            for each in probabilities
        )


def _probability(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0.0 <= value <= 1.0 else None  # type: ignore[operator, arg-type]


def _json(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False)
