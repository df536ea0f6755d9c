"""Traces as rows: spans of OpenInference, OpenTelemetry GenAI and Langfuse become samples."""

import json
from pathlib import Path
from typing import Any

import pytest

from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import Record, RecordProblem, context_fields

QUESTION, ANSWER = "When was the Marlow Bridge opened?", "It was opened in 1931."
WIKI = "The Marlow Bridge was opened in 1931."
TRACES = (Path(__file__).parents[1] / "data" / "traces.json").read_text(encoding="utf-8")
LENGTH = "Marlow Bridge: 412 metres."


def otlp_value(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [otlp_value(each) for each in value]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def otlp_span(trace: str, number: int, attributes: dict[str, Any], *, parent: int = 0, **others: Any) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": f"{trace}{number}",
        **({"parentSpanId": f"{trace}{parent}"} if parent else {}),
        "name": f"span {number}",
        "startTimeUnixNano": str(1_700_000_000_000_000_000 + number),
        "endTimeUnixNano": str(1_700_000_000_000_000_900 - number),
        "attributes": [{"key": key, "value": otlp_value(value)} for key, value in attributes.items()],
        **others,
    }


def otlp_lines(*spans: dict[str, Any]) -> list[Any]:
    return [
        {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "app"}, "spans": [span]}]}]}
        for span in spans
    ]


def trace_of(form: str, trace: str) -> Any:
    """Return a trace of tests/data/traces.json as its tool exports it, with this id."""
    return json.loads(TRACES.replace("TRACE", trace))[form]


def genai_trace(trace: str) -> list[dict[str, Any]]:
    spans: list[dict[str, Any]] = trace_of("otel_genai", trace)
    return spans


def read(tmp_path: Path, values: list[Any] | dict[str, Any], columns: str, *, name: str = "traces.jsonl") -> list[Any]:
    file = tmp_path / name
    lines = name.endswith(".jsonl") and isinstance(values, list)
    text = "\n".join(json.dumps(each) for each in values) if lines else json.dumps(values, indent=1)
    file.write_text(text, encoding="utf-8")
    with RecordReader(file, columns=columns) as reader:
        return list(reader)


@pytest.mark.parametrize(
    ("values", "columns", "call"),
    [
        (otlp_lines(*genai_trace("a")), "otel_genai", {"id": "call-1"}),
        (otlp_lines(*genai_trace("a")), "otlp", {"id": "call-1"}),
        (trace_of("phoenix", "a"), "openinference", {"id": "call-1"}),
        ([trace_of("langfuse", "a")], "openinference", {}),
    ],
)
def test_the_spans_of_a_trace_become_question_contexts_and_answer(
    tmp_path: Path, values: list[Any], columns: str, call: dict[str, str]
) -> None:
    (record,) = read(tmp_path, values, columns)

    assert record.custom_id == "a"
    assert (record.sample.question, record.sample.answer) == (QUESTION, ANSWER)
    assert context_fields(record.sample) == [
        {"text": WIKI, "id": "wiki-7"},
        {"text": LENGTH, **call, "tool": "measure"},
    ]


def test_spans_of_several_traces_are_sorted_out_wherever_they_stand(tmp_path: Path) -> None:
    first, second = genai_trace("a"), genai_trace("b")
    mixed = [span for pair in zip(reversed(first), second, strict=True) for span in pair]

    records = read(tmp_path, otlp_lines(*mixed), "otel_genai")

    assert [record.custom_id for record in records] == ["a", "b"]
    assert all(record.sample.contexts == (WIKI, LENGTH) for record in records)


@pytest.mark.parametrize("name", ["traces.json", "traces.jsonl"])
def test_one_document_over_many_lines_is_read_whole(tmp_path: Path, name: str) -> None:
    whole = {"resourceSpans": [{"scopeSpans": [{"spans": genai_trace("a")}]}]}

    (record,) = read(tmp_path, whole, "otlp", name=name)

    assert record.sample.answer == ANSWER


def test_a_data_frame_of_phoenix_is_read(tmp_path: Path) -> None:
    rows = [
        {
            "context.trace_id": "a",
            "context.span_id": "1",
            "span_kind": "RETRIEVER",
            "attributes.retrieval.documents": [{"document.content": WIKI}],
        },
        {"context.trace_id": "a", "context.span_id": "2", "span_kind": "LLM", "attributes.output.value": ANSWER},
    ]

    (record,) = read(tmp_path, rows, "openinference", name="spans.json")

    assert (record.sample.contexts, record.sample.answer) == ((WIKI,), ANSWER)


def test_the_older_convention_with_numbered_prompts_is_read(tmp_path: Path) -> None:
    numbered = {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": QUESTION,
        "gen_ai.prompt.1.role": "tool",
        "gen_ai.prompt.1.content": WIKI,
        "gen_ai.completion.0.content": ANSWER,
    }

    (record,) = read(tmp_path, otlp_lines(otlp_span("b", 1, numbered)), "otel_genai")

    assert (record.sample.question, record.sample.contexts, record.sample.answer) == (QUESTION, (WIKI,), ANSWER)


def openinference_span(number: int, kind: str, **attributes: Any) -> dict[str, Any]:
    """A span of trace a: the first is the root; names of attributes have __ for the dot."""
    return {
        "name": kind.lower(),
        "context": {"trace_id": "a", "span_id": f"a{number}"},
        "parent_id": None if number == 1 else "a1",
        "start_time": f"2026-05-01T10:00:0{number}Z",
        "attributes": {
            "openinference.span.kind": kind,
            **{name.replace("__", "."): value for name, value in attributes.items()},
        },
    }


def langfuse_span(number: int, kind: str, given: object, returned: object) -> dict[str, Any]:
    own = {"type": kind, "input": json.dumps(given), "output": json.dumps(returned)}
    attributes = {f"langfuse.observation.{name}": value for name, value in own.items()}
    return otlp_span("a", number, attributes, parent=int(number > 1))


def openllmetry_span(number: int, kind: str, given: object, returned: object) -> dict[str, Any]:
    own = {"traceloop.entity.input": json.dumps(given), "traceloop.entity.output": json.dumps(returned)}
    return otlp_span("a", number, {"traceloop.span.kind": kind, **own}, parent=int(number > 1))


def call_details() -> list[dict[str, Any]]:
    """Today's convention with the messages of a call in an event."""
    messages = {
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}],
        "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}],
    }
    attributes = [{"key": name, "value": otlp_value(json.dumps(value))} for name, value in messages.items()]
    event = {"name": "gen_ai.client.inference.operation.details", "attributes": attributes}
    retrieval = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": json.dumps([{"content": WIKI}])}
    return [
        otlp_span("a", 1, {"gen_ai.operation.name": "chat"}, events=[event]),
        otlp_span("a", 2, retrieval, parent=1),
    ]


ROOT = openinference_span(1, "CHAIN", input__value=QUESTION, output__value=ANSWER)
FOUND = json.dumps([{"pageContent": WIKI}])
CHUNKS = [{"choices": [{"delta": {"content": text}}]} for text in ("It was ope", "ned in ", "1931.")]


@pytest.mark.parametrize(
    "spans",
    [
        [{**ROOT, "children": [openinference_span(2, "RETRIEVER", output__value=FOUND)]}],
        [ROOT, openinference_span(2, "RETRIEVER", output__value=WIKI)],
        [ROOT, openinference_span(2, "TOOL", output__value=json.dumps(WIKI))],
        [
            openinference_span(1, "LLM", input__value=QUESTION, output__value=json.dumps([*CHUNKS, {"choices": []}])),
            openinference_span(2, "RETRIEVER", output__value=FOUND),
        ],
        [langfuse_span(1, "chain", {"question": QUESTION}, {"answer": ANSWER}),
         langfuse_span(2, "retriever", QUESTION, [{"content": WIKI}])],
        [openllmetry_span(1, "workflow", {"question": QUESTION}, ANSWER), openllmetry_span(2, "tool", {}, WIKI)],
        call_details(),
    ],
    ids=["nested", "plain document", "JSON string", "chunks", "Langfuse's spans", "OpenLLMetry", "event"],
)  # fmt: skip
@pytest.mark.parametrize("is_indented", [False, True])
def test_spans_of_other_shapes_lose_nothing(tmp_path: Path, spans: list[dict[str, Any]], is_indented: bool) -> None:
    file = tmp_path / "traces.jsonl"
    # as the console exporter of Python writes them
    file.write_text("".join(json.dumps(each, indent=4 if is_indented else None) + "\n" for each in spans))

    with RecordReader(file, columns="openinference") as reader:
        (record,) = reader

    assert isinstance(record, Record)
    assert (record.sample.question, record.sample.contexts, record.sample.answer) == (QUESTION, (WIKI,), ANSWER)


def test_whole_numbers_of_otlp_are_numbers(tmp_path: Path) -> None:
    result = {"kvlistValue": {"values": [{"key": "metres", "value": {"intValue": "412"}}]}}
    attributes = [{"key": "gen_ai.tool.call.result", "value": result}]
    tool = otlp_span("a", 3, {"gen_ai.operation.name": "execute_tool"}, parent=1)
    tool["attributes"] += attributes

    (record,) = read(tmp_path, otlp_lines(*call_details()[:1], tool), "otlp")

    assert record.sample.contexts == ('{"metres": 412}',)


def test_a_bad_line_between_indented_spans_is_a_problem_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "traces.jsonl"
    file.write_text("\n".join([json.dumps(ROOT, indent=4), '{\n"torn": \n}', json.dumps(ROOT, indent=4)]))

    with RecordReader(file, columns="openinference") as reader:
        record, problem = reader

    assert record.custom_id == "a"
    line = len(json.dumps(ROOT, indent=4).splitlines()) + 1
    assert str(problem).startswith(f"row 1 (line {line}): not JSON")


def test_what_a_reranker_left_out_is_no_context(tmp_path: Path) -> None:
    spans = trace_of("phoenix", "a")
    kept = {"openinference.span.kind": "RERANKER", "reranker.output_documents.0.document.content": LENGTH}
    spans[2]["attributes"] = kept

    (record,) = read(tmp_path, spans, "openinference")

    assert record.sample.contexts == (LENGTH,)


def test_a_trace_without_an_answer_is_a_row_problem_that_names_it(tmp_path: Path) -> None:
    record, problem = read(tmp_path, otlp_lines(*genai_trace("a"), *genai_trace("b")[:3]), "otel_genai")

    assert isinstance(record, Record)
    assert isinstance(problem, RecordProblem)
    assert str(problem) == (
        "row 1 (line 5): trace b has no answer in its 3 spans; expected a span with the answer as its output"
    )


def test_documents_without_their_text_are_a_problem_and_no_answer_without_contexts(tmp_path: Path) -> None:
    spans = genai_trace("a")
    spans[1]["attributes"][1]["value"]["stringValue"] = '[{"id": "wiki-7", "score": 0.9}]'

    _, problem = read(tmp_path, otlp_lines(*genai_trace("b"), *spans), "otel_genai")

    assert "trace a: span 2.documents[0] is an object with 'id', 'score'" in str(problem)


def test_spans_are_known_without_a_preset(tmp_path: Path) -> None:
    file = tmp_path / "traces.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in otlp_lines(*genai_trace("a"))), encoding="utf-8")

    with RecordReader(file) as reader:
        (record,) = reader

    assert isinstance(record, Record)
    assert record.custom_id == "a"
    assert reader.explanation.endswith("; one row for each trace")
