"""Exchanges with decision models: typed questions about one state, and the probabilities of their answers; no text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DecisionQuestion:
    """One question about the state, whose `name` no other request has.

    `choices`: what each value means, empty where the value says it.
    """

    name: str
    instructions: str
    choices: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """Questions about one state, whose parts are read in this order; providers may keep what they read of contexts."""

    guidance: str
    contexts: Sequence[Mapping[str, object]]
    rest: Mapping[str, object]
    questions: tuple[DecisionQuestion, ...]


@dataclass(frozen=True, slots=True)
class DecisionReply:
    """The valid answers by the question's name: the probability of each value, in [0, 1].

    `refused`: questions that the model declined. One that is in neither was not answered, or not as it was asked.
    `is_foreign`: there are answers, and none is to a question of the request. `prompt_tokens`: as the provider counted
    them; None if it did not.
    """

    answers: Mapping[str, Mapping[str, float]]
    refused: frozenset[str]
    model: str
    is_foreign: bool = False
    prompt_tokens: int | None = None
