"""Scores for Phoenix and Langfuse as their APIs take them, and the event on a span."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from plumbline.ground.errors import InvalidInput
from plumbline.integrations.checker import Checker
from plumbline.integrations.span_events import add_evaluation_event
from plumbline.integrations.trace_scores import langfuse_score, phoenix_annotation
from plumbline.schemas.evaluation import EvaluationResult
from tests.doubles.scripted_verdicts import FALSE, service_result

RESULTS = {
    "good": EvaluationResult.model_validate(service_result("It is 41 metres high.")),
    "bad": EvaluationResult.model_validate(service_result(FALSE)),
    "none": EvaluationResult.model_validate(service_result("I do not know.")),
}


def test_phoenix_gets_one_annotation_a_span_and_no_number_without_a_score() -> None:
    data = [phoenix_annotation(*each) for each in RESULTS.items()]

    assert [each["span_id"] for each in data] == ["good", "bad", "none"]
    assert [(each["result"]["label"], each["result"]["score"]) for each in data] == [
        ("faithful", 1.0), ("unfaithful", 0.0), ("abstained", None)
    ]  # fmt: skip
    assert FALSE in data[1]["result"]["explanation"]
    assert {each["identifier"] for each in data} == {"plumbline"}


def test_langfuse_gets_scores_with_ids_of_their_own_so_that_the_second_replaces_the_first() -> None:
    scores = [langfuse_score(*each) for each in RESULTS.items()]

    assert [(each["id"], each["traceId"], each["dataType"], each["value"]) for each in scores] == [
        ("plumbline-good-faithfulness", "good", "NUMERIC", 1.0),
        ("plumbline-bad-faithfulness", "bad", "NUMERIC", 0.0),
        ("plumbline-none-faithfulness_status", "none", "CATEGORICAL", "abstained"),
    ]


def test_a_span_of_the_caller_gets_the_event_without_texts_unless_they_are_allowed() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("app").start_as_current_span("chat"):
        add_evaluation_event(RESULTS["bad"], response_id="resp-1")
        add_evaluation_event(RESULTS["bad"], has_texts=True)
        add_evaluation_event(RESULTS["none"])

    ((short, long, none),) = [each.events for each in exporter.get_finished_spans()]
    attributes = dict(short.attributes or {})
    explanation = str(attributes.pop("gen_ai.evaluation.explanation"))
    assert short.name == "gen_ai.evaluation.result"
    assert attributes == {
        "gen_ai.evaluation.name": "faithfulness", "gen_ai.evaluation.score.value": 0.0,
        "gen_ai.evaluation.score.label": "fail", "gen_ai.response.id": "resp-1",
    }  # fmt: skip
    assert explanation.startswith("1 of 1 claims of the answer not supported")
    assert FALSE not in explanation
    assert FALSE in str((long.attributes or {})["gen_ai.evaluation.explanation"])
    assert "gen_ai.evaluation.score.value" not in (none.attributes or {})


def test_texts_that_are_not_found_are_told_with_the_names_that_are() -> None:
    with pytest.raises(InvalidInput, match=r"no column is known for .*contexts.*found the columns 'input', 'output'"):
        Checker("http://127.0.0.1:9").check_fields({"input": {"q": "How high?"}, "output": {"text": "41 m"}})
