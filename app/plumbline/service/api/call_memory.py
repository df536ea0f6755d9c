"""Contexts of LiteLLM's calls, kept from the request to the response, which lacks them."""

import time
from collections import OrderedDict
from typing import Any, Final, NamedTuple

from plumbline.ground.errors import InvalidInput

_MOST_CALLS: Final = 256
_MOST_CHARACTERS: Final = 64_000_000
_CALL_SECONDS: Final = 600.0


class _Call(NamedTuple):
    until: float
    contexts: list[str]
    question: str

    @property
    def characters(self) -> int:
        return sum(map(len, self.contexts)) + len(self.question)


class CallMemory:
    """The newest calls, for ten minutes, up to 64 million characters."""

    def __init__(self) -> None:
        self._calls: OrderedDict[tuple[str, str], _Call] = OrderedDict()
        self._characters = 0

    def recall(self, tenant: str, call_id: str, fields: dict[str, Any], *, is_request: bool) -> dict[str, Any]:
        """Keep the contexts of a request; return a response's fields with those of its request.

        Raises:
            InvalidInput: the request of a response is not known here.
        """
        key, now = (tenant, call_id), time.monotonic()
        if is_request or fields["contexts"]:
            self._forget(key)
            self._calls[key] = call = _Call(now + _CALL_SECONDS, fields["contexts"], fields["question"])
            self._characters += call.characters
        while self._calls and (
            len(self._calls) > _MOST_CALLS
            or self._characters > _MOST_CHARACTERS
            or next(iter(self._calls.values())).until < now
        ):
            self._forget(next(iter(self._calls)))
        if key not in self._calls:
            raise InvalidInput("the request of this call was not seen: let the guardrail run pre_call too, one worker")
        return {**fields, "contexts": self._calls[key].contexts, "question": self._calls[key].question}

    def _forget(self, key: tuple[str, str]) -> None:
        if key in self._calls:
            self._characters -= self._calls.pop(key).characters
