"""The form of a chat request: its optional fields, and the ladder by which it does without those that are refused."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, Self

from plumbline.ground.judge_settings import JudgeKind
from plumbline.judging.ports.exchange import ChatRequest
from plumbline.models.chat.call_failures import named_apis
from plumbline.models.chat.endpoints import Endpoint, Provider, Structure, TokenLimit

# What each rung of the ladder leaves out: the fields as they are sent, and other words that point to it. Words decide
# only which rung is tried first; one without a hint is tried in this order.
_RUNGS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "structure": (("response_format", "json_schema", "json_object"), ("json", "schema", "grammar", "structured")),
    "thinking": (
        ("enable_thinking", "chat_template_kwargs", "reasoning_effort", "thinking"),
        ("reasoning", "template"),
    ),
    "temperature": (("temperature",), ()),
    "system": (("system role", "system message", "messages[0].role"), ("system", "developer instruction", "role")),
    "limit": (
        ("max_tokens", "max_completion_tokens"),
        ("max_new_tokens", "maxtokens", "output tokens", "output_tokens"),
    ),
}
_LOOSER: Final[Mapping[Structure, Structure]] = {"json_schema": "json_object", "json_object": "plain"}
_OTHER_LIMIT: Final[Mapping[TokenLimit, TokenLimit]] = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}
# A bound on the reply stands in a complaint as a number of its own: no version, date or status.
_NUMBER: Final = re.compile(
    r"(?:(?<![a-z0-9_.,\-/\[])|(?<=[^a-z0-9.][01][\-~]))(\d{1,6}|\d{1,3},\d{3})(?![a-z0-9_\-/]|[.,]\d)"
)
_LEAST_TOKENS: Final = 64
# Of one sentence, and the controls'.
_LEAST_QUESTIONS: Final = 4
_STATUSES: Final = frozenset(HTTPStatus)
# A request that thoughts cut short is sent again with room for them.
_ROOM_FOR_THOUGHTS: Final = 4
# "maximum context length is 8192 tokens" (OpenAI, vLLM), "context length (8192 tokens)" (SGLang), "n_ctx": 8192
# (llama.cpp), "range of input length should be [1, 30720]" (DashScope), "213462 tokens > 200000 maximum" (Anthropic).
_WINDOW: Final = re.compile(
    r"(?:context (?:length|window|size)(?: is| of)?(?: only)?:? \(?|(?<!\\)\"n_ctx\": |must be <= "
    r"|input length should be \[\d{1,9}, |\d tokens > |context limit: \d+ \+ \d+ > |tokens allowed \()(\d{3,9})(?!\d)"
)
# No judge is of use with less, and a number that small is more likely another one.
LEAST_WINDOW: Final = 1_024
# A server that refused so many requests in every form, and answered none, is sent the first form alone.
_HOPELESS: Final = 3


@dataclass(frozen=True, slots=True)
class RequestForm:
    """The optional fields that are sent to a provider.

    Args:
        thinking: fields that keep a model from thinking; `is_thinking_settled`, `is_limit_renamed`: they changed once.
        most_tokens: the bound on a reply that the provider told.
        has_room: the limit on the reply leaves room for thoughts.
    """

    structure: Structure
    token_limit: TokenLimit
    thinking: Mapping[str, object] = field(default_factory=dict, hash=False)
    sends_ids: bool = True
    sends_temperature: bool = True
    sends_system: bool = True
    is_thinking_settled: bool = False
    is_limit_renamed: bool = False
    most_tokens: int | None = None
    has_room: bool = False

    @classmethod
    def strictest(cls, provider: Provider) -> Self:
        return cls(provider.structure, provider.token_limit, provider.thinking_off)

    def parameters(self, request: ChatRequest, endpoint: Endpoint, *, room: int | None = None) -> dict[str, object]:
        """Build a body, with at most `room` tokens for the reply; null among the extra fields leaves one out."""
        provider = endpoint.provider
        messages = [{"role": "system", "content": request.system}, {"role": "user", "content": request.user}]
        if not self.sends_system:
            messages = [{"role": "user", "content": f"{request.system}\n\n{request.user}"}]
        parameters: dict[str, object] = {"model": endpoint.model, "messages": messages}
        parameters[self.token_limit] = self._output_tokens(request, room)
        # None is left out
        usual = 0.0 if provider.takes_temperature else None
        temperature = usual if request.temperature is None else request.temperature
        parameters["temperature"] = temperature if self.sends_temperature else None
        if self.structure == "json_object":
            parameters["response_format"] = {"type": "json_object"}
        elif self.structure == "json_schema":
            schema = _with_ids(request.schema, request.ids if provider.enumerates_ids and self.sends_ids else {})
            named = {"name": request.schema_name, "strict": True, "schema": schema}
            parameters["response_format"] = {"type": "json_schema", "json_schema": named}
        parameters |= self.thinking
        parameters |= endpoint.extra_body
        return {name: value for name, value in parameters.items() if value is not None}

    def _output_tokens(self, request: ChatRequest, room: int | None) -> int:
        tokens = request.max_output_tokens
        if self.has_room:
            tokens = max(tokens, min(tokens * _ROOM_FOR_THOUGHTS, room or tokens))
        return min(tokens, self.most_tokens or tokens)

    def rungs(self, complaint: str, limit: int) -> Iterator[tuple[str, "RequestForm"]]:
        """Yield the forms that differ in one thing, by what it is; `limit`: tokens of the reply that were asked for."""
        if self.structure == "json_schema":
            yield "structure", replace(self, sends_ids=False)
        if self.structure != "plain":
            yield "structure", replace(self, structure=_LOOSER[self.structure])
        # Qwen's models refuse a call that leaves it out, behind gateways too.
        needed = {"enable_thinking": False} if not self.thinking and "enable_thinking" in complaint else {}
        if not self.is_thinking_settled:
            yield "thinking", replace(self, thinking=needed, is_thinking_settled=True)
        yield "temperature", replace(self, sends_temperature=False)
        yield "system", replace(self, sends_system=False)
        if bound := _told_bound(complaint, limit):
            yield "limit", replace(self, most_tokens=bound)
        if not self.is_limit_renamed:
            yield "limit", replace(self, token_limit=_OTHER_LIMIT[self.token_limit], is_limit_renamed=True)


class LearntForm:
    """The request form that a model accepts, shared by all callers of this model at this address."""

    def __init__(self, provider: Provider) -> None:
        # Window of the model where the provider said that it is smaller than the settings have it.
        self.context_tokens: int | None = None
        # What the model is asked with, where it refused a chat and named that; most questions of a request.
        self.api: JudgeKind | None = None
        self.questions: int | None = None
        self.takes_breakpoints = provider.decisions.has_breakpoints
        self._preferred = provider.decisions.kind
        self.form = RequestForm.strictest(provider)
        self._accepted: set[str] = set()
        self._refused_wholly = 0

    def next_form(
        self,
        form: RequestForm,
        complaint: str,
        sent: Mapping[str, object],
        build: Callable[[RequestForm], Mapping[str, object]],
        *,
        is_server_fault: bool,
    ) -> RequestForm | None:
        """Return the form with one thing less in which a refused request is sent again; None to give up.

        What the complaint names goes first. What it does not name is left out unless it was accepted before, or the
        refusal came as a fault of the server.

        Args:
            complaint: what the provider wrote of the request, in lower case.
            sent: the body that it refused, in this form.
            build: makes the body of a form.
        """
        if not complaint or self._refused_wholly >= _HOPELESS:
            return None
        limit = sent.get(form.token_limit)
        found: list[tuple[int, RequestForm]] = []
        for thing, looser in form.rungs(complaint, limit if isinstance(limit, int) else 0):
            body = build(looser)
            if body == sent:
                continue
            names, hints = _RUNGS[thing]
            if any(name in complaint for name in names):
                found.append((0, looser))
            elif not is_server_fault and any(hint in complaint for hint in hints):
                found.append((1, looser))
            elif not is_server_fault and not _marks(sent) - _marks(body) <= self._accepted:
                found.append((2, looser))
        if found:
            return min(found, key=lambda each: each[0])[1]
        self._refused_wholly += not (self._accepted or is_server_fault)
        return None

    def accept(self, form: RequestForm, sent: Mapping[str, object], *, refused: Mapping[str, object] | None) -> None:
        """Learn from an answered request of this form and body.

        `refused`: the body with which the call began, if that was refused. A field that was once accepted stays.
        """
        self._accepted |= _marks(sent)
        self._refused_wholly = 0
        if refused is not None and self._accepted.isdisjoint(_marks(refused) - _marks(sent)):
            self.form = form

    def learn_api(self, complaint: str) -> bool:
        """Learn from a refused chat that the model is a decision model; return True for one."""
        if named := named_apis(complaint):
            self.api = self._preferred if self._preferred in named else named[0]
        return bool(named)

    def learn_limits(self, complaint: str, sent: Mapping[str, Any]) -> bool:
        """Learn from a refused request of questions how many, or which fields, are too many; return True to repeat it.

        With fewer questions it is another request, which the caller makes.
        """
        if self.takes_breakpoints and "breakpoint" in complaint:
            self.takes_breakpoints = False
            return True
        if (
            bound := _told_bound(complaint, len(sent["questions"]), least=_LEAST_QUESTIONS)
            if "question" in complaint
            else None
        ):
            self.questions = bound
        return False

    def learn_window(self, complaint: str, sent: Mapping[str, object]) -> None:
        """Learn the context window from the refusal of a request that was too long; what it quotes teaches nothing."""
        quoted = str(sent)
        named = [int(match[1]) for match in _WINDOW.finditer(complaint) if match[1] not in quoted]
        if named and min(named) >= LEAST_WINDOW:
            self.context_tokens = min(named)


def describe_difference(first: Mapping[str, object], last: Mapping[str, object]) -> list[str]:
    """Return what the last body leaves out or has otherwise than the first one, for people to read."""
    kinds = {"json_schema", "json_object", "response_format"}
    left_out = [f"without {name}" for name in sorted(_marks(first) - _marks(last) - kinds)]
    limits = [f"{name} {last[name]}" for name in _OTHER_LIMIT if name in last and last[name] != first.get(name)]
    return [*left_out, *limits]


def _told_bound(complaint: str, limit: int, least: int = _LEAST_TOKENS) -> int | None:
    """Return the largest number of a complaint that may be a bound below the limit that was sent."""
    numbers = [int(found[1].replace(",", "")) for found in _NUMBER.finditer(complaint)]
    return max((each for each in numbers if least <= each < limit and each not in _STATUSES), default=None)


def _with_ids(schema: Any, ids: Mapping[str, Sequence[object]]) -> Any:
    """Return the schema with the values enumerated that these members may have."""
    if isinstance(schema, list | tuple):
        return [_with_ids(each, ids) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {name: _with_ids(value, ids) for name, value in schema.items()}
    for name in ids.keys() & made.get("properties", {}).keys():
        made["properties"][name]["enum"] = list(ids[name])
    return made


def _marks(sent: Mapping[str, Any]) -> set[str]:
    """Return the names of the fields, the kind of `response_format`, and the system role."""
    kind = sent.get("response_format")
    roles = {"system role"} if sent["messages"][0]["role"] == "system" else set()
    return {*sent, *([str(kind["type"])] if isinstance(kind, dict) else []), *roles}
