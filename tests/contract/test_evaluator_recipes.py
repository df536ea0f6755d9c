"""The evaluators of the page on evaluators, run against the interface of each framework, without the framework."""

import asyncio
import runpy
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from plumbline.integrations.checker import Checker
from tests.doubles.scripted_service import ScriptedService, scripted
from tests.doubles.scripted_verdicts import FALSE, judge
from tests.reading.evaluator_recipes import MIDDLEWARE, recipe

TRUE, DECLINED, CONTEXT = "It is 41 metres high.", "I do not know.", "The lighthouse is 41 metres high."
ANSWERS = [TRUE, FALSE, DECLINED]
Packages = dict[str, dict[str, Any]]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedService]:
    with scripted(judge) as running:
        monkeypatch.setenv("PLUMBLINE_URL", running.url)
        yield running


@pytest.fixture
def run(service: ScriptedService, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Run a recipe beside stand-ins for its framework; return its names."""
    ran: list[dict[str, Any]] = []

    def execute(title: str, packages: Packages, **names: Any) -> dict[str, Any]:
        _put_in_place(packages, monkeypatch)
        exec(recipe(title), names)  # noqa: S102 - code of our own page
        ran.append(names)
        return names

    yield execute
    for names in ran:
        names["checker"].close()


def _put_in_place(packages: Packages, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, members in packages.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize("title", ["LlamaIndex", "Haystack", "LangSmith", "DSPy", "MLflow"])
def test_both_pages_give_the_same_code(title: str) -> None:
    assert recipe(title) == recipe(title, "evaluators.zh.md")


def test_llamaindex_gets_a_result_that_is_invalid_where_there_is_no_score(run: Any) -> None:
    class BaseEvaluator:
        def evaluate_response(self, query: str, response: str) -> Any:
            return asyncio.run(self.aevaluate(query=query, response=response, contexts=[CONTEXT]))  # type: ignore[attr-defined]

    package = {"BaseEvaluator": BaseEvaluator, "EvaluationResult": SimpleNamespace}
    packages: Packages = {"llama_index": {}, "llama_index.core": {}, "llama_index.core.evaluation": package}
    engine = SimpleNamespace(query=lambda _: TRUE)

    found = run("LlamaIndex", packages, question="How high?", query_engine=engine)

    assert (found["result"].score, found["result"].passing, found["result"].contexts) == (1.0, True, [CONTEXT])
    evaluate = found["PlumblineEvaluator"]().evaluate_response
    assert (evaluate("How high?", FALSE).score, FALSE in evaluate("How high?", FALSE).feedback) == (0.0, True)
    declined = evaluate("How high?", DECLINED)
    assert (declined.invalid_result, hasattr(declined, "score")) == (True, False)
    assert "abstained" in declined.invalid_reason


def test_haystack_gets_a_mean_of_the_scores_that_there_are(run: Any, service: ScriptedService) -> None:
    def component(made: type) -> type:
        return made

    added: dict[str, Any] = {}
    package = {"component": component}
    component.output_types = lambda **_: lambda method: method  # type: ignore[attr-defined]
    run("Haystack", {"haystack": package}, pipeline=SimpleNamespace(add_component=added.__setitem__))

    found = added["faithfulness"].run(["How high?"] * 3, [[CONTEXT]] * 3, ANSWERS)

    assert found == {"score": 0.5, "individual_scores": [1.0, 0.0, None]}
    assert len(service.asked) == 1


def test_langsmith_gets_the_status_and_no_number_without_a_score(run: Any, service: ScriptedService) -> None:
    given: dict[str, Any] = {}
    client = SimpleNamespace(evaluate=lambda _, **options: given.update(options))
    run("LangSmith", {}, client=client, my_rag_app=None)
    (evaluate,) = given["evaluators"]

    outputs = [{"answer": each, "documents": [{"page_content": CONTEXT}]} for each in ANSWERS]
    found = [evaluate(inputs={"question": "How high?"}, outputs=each) for each in outputs]

    assert [(each["key"], each["score"], each.get("value")) for each in found] == [
        ("faithfulness", 1.0, None), ("faithfulness", 0.0, None), ("faithfulness", None, "abstained")
    ]  # fmt: skip
    assert FALSE in found[1]["comment"]
    assert (service.asked[0].json["question"], service.asked[0].json["contexts"]) == ("How high?", [CONTEXT])


def test_dspy_gets_a_score_with_feedback_a_decision_for_demonstrations_and_an_error(run: Any) -> None:
    package = {"GEPA": SimpleNamespace, "Prediction": SimpleNamespace}
    metric = run("DSPy", {"dspy": package}, lm=None)["optimizer"].metric
    gold = SimpleNamespace(toDict=lambda: {"question": "How high?", "context": CONTEXT})
    good, bad, none = [SimpleNamespace(toDict=lambda each=each: {"answer": each}) for each in ANSWERS]

    assert (metric(gold, bad).score, FALSE in metric(gold, bad).feedback) == (0.0, True)
    assert metric(gold, good, trace=[], pred_name="answer", pred_trace=[]).score == 1.0
    assert [metric(gold, each, trace=[]) for each in (good, bad)] == [True, False]
    with pytest.raises(ValueError, match="abstained"):
        metric(gold, none)


def test_mlflow_gets_a_feedback_with_an_error_without_a_score(run: Any, service: ScriptedService) -> None:
    given: dict[str, Any] = {}
    genai = SimpleNamespace(scorer=lambda function: function, evaluate=lambda **options: given.update(options))
    packages: Packages = {"mlflow": {"genai": genai}, "mlflow.entities": {"Feedback": SimpleNamespace}}
    run("MLflow", packages, rows=[], my_rag_app=None)
    (score,) = given["scorers"]
    span = SimpleNamespace(outputs=[{"page_content": CONTEXT}])
    trace = SimpleNamespace(search_spans=lambda span_type: [span] if span_type == "RETRIEVER" else [])

    good = score(inputs={"question": "How high?"}, outputs={"answer": TRUE, "context": ["Another."]})
    traced = score(inputs={"question": "How high?"}, outputs={"answer": TRUE}, trace=trace)
    none = score(inputs={"question": "How high?"}, outputs={"answer": DECLINED, "context": [CONTEXT]})

    assert (good.value, traced.value, hasattr(none, "value")) == (1.0, 1.0, False)
    assert "abstained" in str(none.error)
    assert [each.json["contexts"] for each in service.asked[:2]] == [["Another."], [CONTEXT]]


class _Message:
    def __init__(self, text: str, name: str | None = None, tool_calls: tuple[str, ...] = ()) -> None:
        self.text, self.name, self.tool_calls = text, name, tool_calls


class _Human(_Message):
    pass


class _Ai(_Message):
    pass


class _Tool(_Message):
    pass


@pytest.fixture
def middleware(service: ScriptedService, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Build the middleware of the example beside stand-ins for LangChain's classes."""
    agents = {"AgentMiddleware": object, "AgentState": dict, "hook_config": lambda **_: lambda method: method}
    messages = {"AIMessage": _Ai, "HumanMessage": _Human, "ToolMessage": _Tool}
    packages: Packages = {
        "langchain": {}, "langchain.agents": {}, "langchain.agents.middleware": agents,
        "langchain_core": {}, "langchain_core.messages": messages,
    }  # fmt: skip
    _put_in_place(packages, monkeypatch)
    example = runpy.run_path(str(MIDDLEWARE))
    with Checker(service.url) as checker:
        yield SimpleNamespace(
            build=lambda **options: example["FaithfulnessMiddleware"](checker, **options),
            refusal=example["UnfaithfulAnswer"],
        )


def _state(answer: _Message, *earlier: _Message) -> dict[str, Any]:
    return {"messages": [_Human("How high?"), _Ai("", tool_calls=("1",)), _Tool(CONTEXT), *earlier, answer]}


def test_langchains_middleware_leaves_the_verdict_in_the_state(middleware: Any) -> None:
    check = middleware.build().after_model

    found = [check(_state(_Ai(each)), None)["faithfulness"] for each in ANSWERS]

    assert [(each["passed"], each["status"]) for each in found] == [
        (True, "judged"), (False, "judged"), (None, "abstained")
    ]  # fmt: skip
    assert check(_state(_Ai("", tool_calls=("2",))), None) is None
    assert check({"messages": [_Human("How high?"), _Ai(FALSE)]}, None) is None


async def test_langchains_middleware_lets_the_model_answer_again_once(middleware: Any) -> None:
    retry = middleware.build(on_unsupported="retry")

    first = await retry.aafter_model(_state(_Ai(FALSE)), None)
    second = await retry.aafter_model(_state(_Ai(FALSE), _Ai(FALSE), *first["messages"]), None)

    assert (first["jump_to"], FALSE in first["messages"][0].text) == ("model", True)
    assert set(second) == {"faithfulness"}


def test_langchains_middleware_raises_for_what_is_not_supported(middleware: Any) -> None:
    check = middleware.build(on_unsupported="error").after_model

    assert check(_state(_Ai(TRUE)), None)["faithfulness"]["passed"] is True
    with pytest.raises(middleware.refusal, match="41"):
        check(_state(_Ai(FALSE)), None)
