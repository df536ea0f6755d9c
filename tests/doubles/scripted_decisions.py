"""A provider of decision models in both shapes, over the scripted judge's socket: what it answers, and its faults.

    judge.reply_with(decide(always("supported")))

OpenAI's shape is answered at `/decisions`, System One's at `/systemone`, and chat is refused.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.doubles.scripted_faults import close_mid_body, delayed
from tests.doubles.scripted_replies import (
    RecordedRequest,
    Reply,
    Scripted,
    Step,
    TokenCount,
    html_error_page,
    openai_error,
    raw_body,
    status,
)

MODEL = "decision-1"
VERDICTS = ("supported", "contradicted", "not_mentioned")
# English and JSON, four characters a token.
_CHARACTERS_PER_TOKEN = 4
_JSON_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question of a request, in words that are the same for both shapes.

    `values`: what it chooses from. `statement`: the longest JSON string in the instructions, else all of them. `state`:
    what the questions are about.
    """

    name: str
    instructions: str
    values: tuple[str, ...]
    statement: str
    state: Mapping[str, Any]

    @property
    def is_verdict(self) -> bool:
        return set(VERDICTS) <= set(self.values)

    @property
    def contexts(self) -> dict[str, str]:
        """The passages of the state by their ids."""
        return _texts_by_id(self.state.get("contexts"))


# The probability of each value of a question.
Oracle = Callable[[AskedQuestion], Mapping[str, float]]


def always(value: str, probability: float = 0.95) -> Oracle:
    """An oracle that gives one value this probability wherever a question has it, else the first one."""
    return lambda asked: lean(asked, value, probability)


def lean(asked: AskedQuestion, value: str, probability: float) -> dict[str, float]:
    """This probability for a value of the question, and the rest in equal parts for the others."""
    values = asked.values
    chosen = value if value in values else values[0]
    rest = (1.0 - probability) / max(1, len(values) - 1)
    return {each: probability if each == chosen else rest for each in values}


def copies(asked: AskedQuestion) -> Mapping[str, float]:
    """Support what stands in a context word for word, at the place where it stands."""
    said = asked.statement.strip().rstrip(".。")
    places = [name for name, text in asked.contexts.items() if said in text]
    if asked.is_verdict:
        return lean(asked, "supported" if places else "not_mentioned", 0.95)
    return lean(asked, next((each for each in asked.values if str(each) in places), asked.values[-1:][0]), 0.9)


def decide(oracle: Oracle, *, fault: str | None = None, most_questions: int | None = None) -> Scripted:
    """What answers every request of a decision model; `fault` is one of `FAULTS`, at every request.

    Args:
        most_questions: more than so many are refused.
    """

    def step(request: RecordedRequest) -> Step:
        if request.method == "GET":
            models = [{"id": MODEL, "object": "model", "output_modalities": ["decisions"]}]
            return status(200, {"object": "list", "data": models})
        if not request.path.endswith(("/systemone", "/decisions")):
            return refuse_chat()
        asked = read_questions(request)
        if most_questions is not None and len(asked) > most_questions:
            return openai_error(400, None, f"questions: at most {most_questions}")
        reply = answer(request, [(each, oracle(each)) for each in asked])
        return FAULTS[fault](reply, request) if fault else reply

    return step


def edited(
    oracle: Oracle, edit: Callable[[dict[str, Any], list[AskedQuestion]], dict[str, Any]]
) -> Callable[[RecordedRequest], Reply]:
    """What answers by the oracle, with a body that is changed, given the questions."""

    def step(request: RecordedRequest) -> Reply:
        asked = read_questions(request)
        reply = answer(request, [(each, oracle(each)) for each in asked])
        return replace(reply, body=json.dumps(edit(json.loads(reply.body), asked)).encode())

    return step


def refuse_chat() -> Reply:
    """What an address of decision models says to a chat completion."""
    return openai_error(400, None, "Model is a decision model, not a language model. Use POST /v1/systemone.")


def read_questions(request: RecordedRequest) -> list[AskedQuestion]:
    """The questions of a request in either shape, in their order."""
    body = request.json
    state = _state(body.get("state", body.get("input")))
    questions = body["questions"]
    named = questions.items() if isinstance(questions, dict) else ((each.get("name"), each) for each in questions)
    found = []
    for name, each in named:
        instructions = _plain(each["instructions"])
        quoted = [str(json.loads(text)) for text in _JSON_STRING.findall(instructions)]
        statement = max(quoted, key=len, default=instructions)
        found.append(AskedQuestion(name, instructions, _values(each), statement, state))
    return found


def answer(request: RecordedRequest, answers: Sequence[tuple[AskedQuestion, Mapping[str, float]]]) -> Reply:
    """A whole answer in the shape of the path, with a plausible count of tokens."""
    tokens = TokenCount(len(request.body) // _CHARACTERS_PER_TOKEN, 0)
    is_openai = request.path.endswith("/decisions")
    usage: dict[str, Any] = {"input_tokens": tokens.prompt, "output_tokens": 0}
    if is_openai:
        usage |= {
            "total_tokens": tokens.prompt,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
    built: Any = [_openai(each, chances) for each, chances in answers]
    if not is_openai:
        built = {each.name: _system_one(each, chances) for each, chances in answers}
    body = {"model": request.json.get("model", MODEL), "answers": built, "usage": usage}
    return replace(status(200, body), tokens=tokens)


def _openai(asked: AskedQuestion, chances: Mapping[str, float]) -> dict[str, Any]:
    top = max(chances, key=lambda each: chances[each])
    rounded = [{"value": value, "probability": round(chance, 2)} for value, chance in chances.items()]
    found = {"type": "choice", "name": asked.name, "confidence": round(chances[top], 2)}
    return {**found, "choice": top, "probabilities": rounded}


def _system_one(asked: AskedQuestion, chances: Mapping[str, float]) -> dict[str, Any]:
    top = max(chances, key=lambda each: chances[each])
    rounded = {value: round(chance, 4) for value, chance in chances.items()}
    return {"type": "choice", "choice": top, "probabilities": rounded, "confidence": round(chances[top], 4)}


def _values(question: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        tuple(each["value"] for each in question["choices"]) if "choices" in question else tuple(question["criteria"])
    )


def _state(given: Any) -> Mapping[str, Any]:
    """The JSON object of a state, which may stand in messages, in text or in several parts."""
    if isinstance(given, dict) and not {"content", "text", "json"} & set(given):
        return given
    found: dict[str, Any] = {}
    for text in _pieces(given):
        start = text.find("{")
        while start >= 0:
            try:
                value, end = json.JSONDecoder().raw_decode(text, start)
            except ValueError:
                start = text.find("{", start + 1)
                continue
            found |= value
            start = text.find("{", end)
    return found


def _pieces(given: Any) -> list[str]:
    if isinstance(given, str):
        return [given]
    if isinstance(given, list):
        return [piece for each in given for piece in _pieces(each)]
    if isinstance(given, dict):
        if {"content", "text", "json"} & set(given):
            return [piece for name in ("content", "text", "json") if name in given for piece in _pieces(given[name])]
        return [json.dumps(given)]
    return []


def _plain(instructions: Any) -> str:
    return "\n".join(_pieces(instructions))


def _texts_by_id(items: Any) -> dict[str, str]:
    if isinstance(items, dict):
        return {str(id_): str(text) for id_, text in items.items()}
    return {str(each["id"]): str(each["text"]) for each in items or () if isinstance(each, dict)}


# --- Faults: from a whole answer to a broken one -----------------------------------------------------------------

Fault = Callable[[Reply, RecordedRequest], Step]
Items = list[tuple[str, dict[str, Any]]]


def _on_items(change: Callable[[Items], Items]) -> Fault:
    """A fault of the answers, as pairs of name and answer in either shape."""

    def spoil(reply: Reply, request: RecordedRequest) -> Step:
        body = json.loads(reply.body)
        answers = body["answers"]
        if isinstance(answers, dict):
            body["answers"] = dict(change(list(answers.items())))
        else:
            body["answers"] = [
                {**each, "name": name} for name, each in change([(each["name"], each) for each in answers])
            ]
        return replace(reply, body=json.dumps(body).encode())

    return spoil


def _on_each(change: Callable[[dict[str, Any]], dict[str, Any]], every: int = 1) -> Fault:
    return _on_items(
        lambda items: [(name, each if at % every else change(each)) for at, (name, each) in enumerate(items)]
    )


def _on_chances(change: Callable[[float], Any], every: int = 1) -> Fault:
    """A fault of the probabilities alone."""

    def spoil(answer: dict[str, Any]) -> dict[str, Any]:
        chances = answer.get("probabilities")
        if isinstance(chances, dict):
            answer["probabilities"] = {value: change(chance) for value, chance in chances.items()}
        for each in chances if isinstance(chances, list) else ():
            each["probability"] = change(each["probability"])
        return answer

    return _on_each(spoil, every)


def _on_body(change: Callable[[dict[str, Any]], Any]) -> Fault:
    return lambda reply, _: replace(reply, body=json.dumps(change(json.loads(reply.body))).encode())


def _on_bytes(change: Callable[[bytes], bytes]) -> Fault:
    return lambda reply, _: replace(reply, body=change(reply.body))


def _rename_values(answer: dict[str, Any]) -> dict[str, Any]:
    chances = answer.get("probabilities")
    if isinstance(chances, dict):
        answer["probabilities"] = {f"{value}?": chance for value, chance in chances.items()}
    for each in chances if isinstance(chances, list) else ():
        each["value"] = f"{each['value']}?"
    return answer


def _lose_value(answer: dict[str, Any]) -> dict[str, Any]:
    chances = answer.get("probabilities")
    if isinstance(chances, dict):
        answer["probabilities"] = dict(list(chances.items())[1:])
    elif isinstance(chances, list):
        answer["probabilities"] = chances[1:]
    return answer


def _cross(reply: Reply, request: RecordedRequest) -> Step:
    """The other shape than the path's."""
    path = "/v1/systemone" if request.path.endswith("/decisions") else "/v1/decisions"
    body = json.loads(reply.body)
    answers = body["answers"]
    pairs = answers.items() if isinstance(answers, dict) else ((each["name"], each) for each in answers)
    chances = {name: _chances(each) for name, each in pairs}
    asked = [each for each in read_questions(request) if each.name in chances]
    return answer(replace(request, path=path), [(each, chances[each.name]) for each in asked])


def _chances(answer: Mapping[str, Any]) -> dict[str, float]:
    found = answer["probabilities"]
    return dict(found) if isinstance(found, dict) else {each["value"]: each["probability"] for each in found}


def _count_few_tokens(body: dict[str, Any]) -> dict[str, Any]:
    """What a provider counts that cut the state to a few words before it read it."""
    return {**body, "usage": {**body["usage"], "input_tokens": 12, "total_tokens": 12}}


_REFUSAL = {"type": "refusal"}
FAULTS: dict[str, Fault] = {
    # What the published references and issue threads report.
    "refused": _on_each(lambda _: dict(_REFUSAL), every=2),
    "range": _on_chances(lambda chance: chance + 0.4),
    "swapped": _on_items(lambda items: items[::-1]),
    "foreign": _on_items(lambda items: [(f"{name}-other", each) for name, each in items]),
    "busy": lambda *_: openai_error(429, "rate_limit_exceeded", "Rate limit reached. Please try again in 0.1s."),
    "crossed": _cross,
    "cut_state": _on_body(_count_few_tokens),
    # Our own.
    "one_refused": _on_items(
        lambda items: [(name, each if at else dict(_REFUSAL)) for at, (name, each) in enumerate(items)]
    ),
    "all_refused": _on_each(lambda _: dict(_REFUSAL)),
    "missing": _on_items(lambda items: items[:-1]),
    "half": _on_items(lambda items: items[: len(items) // 2]),
    "none": _on_items(lambda _: []),
    "extra": _on_items(lambda items: [*items, ("nobody-asked", dict(items[0][1]))]),
    "doubled": _on_items(lambda items: [*items, *items]),
    "sums": _on_chances(lambda chance: round(chance * 0.6, 2)),
    "sums_once": _on_chances(lambda chance: round(chance * 0.6, 2), every=2),
    "strings": _on_chances(str),
    "nulls": _on_chances(lambda _: None),
    "nan": _on_chances(lambda _: float("nan")),
    "infinite": _on_chances(lambda _: float("inf"), every=3),
    "negative": _on_chances(lambda chance: -chance),
    "percent": _on_chances(lambda chance: chance * 100),
    "true_as_number": _on_chances(lambda _: True),
    "nested_chances": _on_chances(lambda chance: {"value": chance}),
    "unknown_values": _on_each(_rename_values),
    "lost_value": _on_each(_lose_value),
    "other_type": _on_each(lambda _: {"type": "predicate", "probability": 0.9, "noul": 0.9}, every=2),
    "typeless": _on_each(lambda each: {name: value for name, value in each.items() if name != "type"}),
    "numbers_for_answers": _on_body(lambda body: {**body, "answers": 7}),
    "answers_as_text": _on_body(lambda body: {**body, "answers": json.dumps(body["answers"])}),
    "wrapped": _on_body(lambda body: {"data": body}),
    "no_usage": _on_body(lambda body: {name: value for name, value in body.items() if name != "usage"}),
    "usage_as_text": _on_body(lambda body: {**body, "usage": "12 tokens"}),
    "error_under_200": _on_body(lambda _: {"error": {"message": "upstream is down", "code": 503}}),
    "html_under_200": lambda *_: replace(html_error_page(502), status_code=200),
    "empty_body": _on_bytes(lambda _: b""),
    "cut_json": _on_bytes(lambda body: body[: len(body) // 2]),
    "cut_body": lambda reply, _: close_mid_body(reply, len(reply.body) // 2),
    "fenced": _on_bytes(lambda body: b"```json\n" + body + b"\n```"),
    "deep": _on_bytes(lambda _: b'{"answers": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "slow": lambda reply, _: delayed(reply, 0.3),
    "server_error": lambda *_: raw_body(b'{"error": {"message": "overloaded"}}', status=503),
}
