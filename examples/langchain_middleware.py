"""A LangChain middleware that checks an agent's answers against what its tools returned. Copy it into your agent.

agent = create_agent(model, tools=[search], middleware=[FaithfulnessMiddleware(on_unsupported="retry")])
state = agent.invoke({"messages": [("user", "How high is the lighthouse?")]})
print(state["messages"][-1].text, state["faithfulness"]["passed"])
"""

import asyncio
from typing import Any, Literal, NotRequired

from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from plumbline.integrations.checker import Checker
from plumbline.schemas.explanation import is_blocked, summarize

NAME = "plumbline"
CORRECT = "Correct or leave out what the tools' results do not support, and answer again:\n"


class UnfaithfulAnswer(ValueError):
    """The tools' results do not support the answer; the message says what."""


class FaithfulnessState(AgentState):  # type: ignore[misc]
    """The agent's state, with the verdict on its last answer."""

    faithfulness: NotRequired[dict[str, Any] | None]  # type: ignore[valid-type]


class FaithfulnessMiddleware(AgentMiddleware):  # type: ignore[misc]
    """Checks each final answer; the contexts are the results of all tools so far.

    The verdict is `faithfulness` of the agent's state: `passed` (None: not judged, or unsure), `status`,
    `faithfulness`, `tier`, `unsupported`, `explanation`. Answers that call tools, and those before any tool has
    answered, are not checked.

    Args:
        checker: judges; None: the service of PLUMBLINE_URL, else this process.
        on_unsupported: `continue`; `retry`: the model reads what is unsupported and answers again, once a question;
            `error`: raises UnfaithfulAnswer, also where no tier judged or the tier is unsure.
        allow_unsure: with `error`, let an answer through of which the tier is unsure.
    """

    state_schema = FaithfulnessState

    def __init__(
        self,
        checker: Checker | None = None,
        *,
        on_unsupported: Literal["continue", "retry", "error"] = "continue",
        allow_unsure: bool = False,
    ) -> None:
        super().__init__()
        self._checker = checker or Checker()
        self._on_unsupported = on_unsupported
        self._allow_unsure = allow_unsure

    @hook_config(can_jump_to=["model"])  # type: ignore[untyped-decorator]
    def after_model(self, state: dict[str, Any], runtime: Any) -> dict[str, Any] | None:
        messages = state["messages"]
        contexts = [each.text for each in messages if isinstance(each, ToolMessage) and each.text]
        answer = messages[-1]
        if not contexts or not isinstance(answer, AIMessage) or answer.tool_calls:
            return None
        asked = [each for each in messages if isinstance(each, HumanMessage)]
        question = next((each.text for each in reversed(asked) if each.name != NAME), "")
        result = self._checker.check(answer.text, contexts, question=question)
        found = summarize(result)
        if self._on_unsupported == "error" and is_blocked(result, allow_unsure=self._allow_unsure):
            raise UnfaithfulAnswer(found["explanation"])
        if result.passed is False and self._on_unsupported == "retry" and asked[-1:] and asked[-1].name != NAME:
            correction = HumanMessage(CORRECT + found["explanation"], name=NAME)
            return {"faithfulness": found, "messages": [correction], "jump_to": "model"}
        return {"faithfulness": found}

    @hook_config(can_jump_to=["model"])  # type: ignore[untyped-decorator]
    async def aafter_model(self, state: dict[str, Any], runtime: Any) -> dict[str, Any] | None:
        return await asyncio.to_thread(self.after_model, state, runtime)
