"""Request parameters of one model, adapted to the fields that its provider refuses."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from plumbline.judging.ports.exchange import ChatRequest
from plumbline.models.chat.call_failures import contains_any
from plumbline.models.chat.endpoints import Endpoint, Provider, Structure, TokenLimit

_STRUCTURE_WORDS = ("response_format", "json_schema", "json_object", "json mode", "json_mode", "structured output")
_THINKING_WORDS = ("enable_thinking", "chat_template_kwargs", "reasoning_effort", "thinking")
_REFUSAL_WORDS = (
    "unsupported", "not support", "unrecognized", "unrecognised", "unknown", "extra inputs", "extra fields",
    "not permitted", "not allowed", "unexpected", "instead",
)  # fmt: skip
_TELLING_WORDS = (
    *_STRUCTURE_WORDS, *_THINKING_WORDS, *_REFUSAL_WORDS, "temperature", "max_tokens", "max_completion_tokens",
)  # fmt: skip
_LOOSER: Mapping[Structure, Structure] = {"json_schema": "json_object", "json_object": "plain"}
_OTHER_LIMIT: Mapping[TokenLimit, TokenLimit] = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}


@dataclass(frozen=True, slots=True)
class RequestForm:
    """The optional fields that are sent to a provider."""

    structure: Structure
    token_limit: TokenLimit
    is_limit_renamed: bool = False
    sends_temperature: bool = True
    sends_thinking_off: bool = True

    def parameters(self, request: ChatRequest, endpoint: Endpoint) -> dict[str, object]:
        """Build the body of a request; the endpoint's extra fields come last, and null leaves a field out."""
        provider = endpoint.provider
        system = request.system
        if self.structure == "json_object" and not any("json" in text.lower() for text in (system, request.user)):
            # DashScope refuses JSON mode unless a message has the word.
            system += "\n\nReply with one JSON object."
        parameters: dict[str, object] = {
            "model": endpoint.model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": request.user}],
            self.token_limit: request.max_output_tokens,
        }
        temperature = provider.temperature if request.temperature is None else request.temperature
        if temperature is not None and self.sends_temperature:
            parameters["temperature"] = temperature
        if self.structure == "json_object":
            parameters["response_format"] = {"type": "json_object"}
        elif self.structure == "json_schema":
            schema = {"name": request.schema_name, "strict": True, "schema": dict(request.schema)}
            parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
        if self.sends_thinking_off:
            parameters |= provider.thinking_off
        parameters |= endpoint.extra_body
        return {name: value for name, value in parameters.items() if value is not None}

    def without_refused_field(self, complaint: str, sent: Mapping[str, object], provider: Provider) -> "RequestForm":
        """Return the form with one field less, or the same if the complaint names none that was sent.

        Args:
            complaint: what the provider wrote of the request, in lower case.
            sent: the body that it refused. A word of its messages teaches nothing: the provider may quote it.
            provider: of the model.
        """
        quoted = str(sent["messages"]).lower()
        complaint = " ".join(word for word in _TELLING_WORDS if word in complaint and word not in quoted)
        if self.sends_thinking_off and provider.thinking_off and contains_any(complaint, _THINKING_WORDS):
            return replace(self, sends_thinking_off=False)
        if self.structure != "plain" and contains_any(complaint, _STRUCTURE_WORDS):
            return replace(self, structure=_LOOSER[self.structure])
        if "temperature" in sent and "temperature" in complaint:
            return replace(self, sends_temperature=False)
        other = _OTHER_LIMIT[self.token_limit]
        is_about_limit = (
            not self.is_limit_renamed and self.token_limit in complaint and contains_any(complaint, _REFUSAL_WORDS)
        )
        # The newer name goes only to servers that asked for it.
        if is_about_limit and (other == "max_tokens" or other in complaint):
            return replace(self, token_limit=other, is_limit_renamed=True)
        return self


class LearntForm:
    """The request form that a model accepts, shared by all callers of this model at this address.

    A complaint may be in the words of one sample: others are spared a refused field once two samples were answered
    without it, and never if a request with this field was once answered.
    """

    def __init__(self, provider: Provider) -> None:
        self._form = RequestForm(provider.structure, provider.token_limit)
        self._accepted: set[str] = set()
        self._found: tuple[RequestForm, object] | None = None

    @property
    def form(self) -> RequestForm:
        return self._form

    def form_for(self, sample: object) -> RequestForm:
        """Return the form for a sample's next request: the one in which it was answered, if the usual was refused."""
        return self._found[0] if self._found is not None and self._found[1] is sample else self._form

    def accept(
        self, form: RequestForm, sent: Mapping[str, object], *, refused: Mapping[str, object] | None, sample: object
    ) -> None:
        """Learn from an answered request.

        Args:
            form, sent: of the request.
            refused: the body with which the call began, if that was refused.
            sample: stands for the sample that it is about, by its identity.
        """
        self._accepted |= _marks(sent)
        if refused is None or not self._accepted.isdisjoint(_marks(refused) - _marks(sent)):
            return
        before, self._found = self._found, (form, sample)
        if before is not None and before[0] == form and before[1] is not sample:
            self._form = form


def _marks(sent: Mapping[str, object]) -> set[str]:
    """Return the names of the fields, and the kind of `response_format`."""
    kind = sent.get("response_format")
    return {*sent, *([str(kind["type"])] if isinstance(kind, dict) else [])}
