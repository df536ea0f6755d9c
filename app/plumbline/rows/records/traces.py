"""Traces as rows: the spans of a trace become one sample, wherever in a file they stand.

Spans are those of OTLP JSON, of Phoenix, of Langfuse and of MLflow. Attributes are OpenInference's
(https://arize-ai.github.io/openinference/spec/attributes/semantic-conventions.html) or OpenTelemetry's for GenAI
(https://github.com/open-telemetry/semantic-conventions-genai), also in their older form of numbered prompts.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from plumbline.ground.phrases import load_data
from plumbline.ground.texts import CodedText
from plumbline.judging.text.sample import Message
from plumbline.rows.records.conversations import parse_messages
from plumbline.rows.records.encodings import UTF_8
from plumbline.rows.records.json_rows import open_json
from plumbline.rows.records.record import (
    BadRow,
    RawRow,
    ReadPosition,
    RowSource,
    context_field,
    parse_json_text,
    parse_passage,
)

_DEEPEST: Final = 4
# The event of today's convention that has a call's messages as attributes.
_DETAILS: Final = "gen_ai.client.inference.operation.details"
_NAMES: Final = load_data("rows/records/traces")
_RETRIEVERS, _TOOLS = frozenset(_NAMES["retrievers"]), frozenset(_NAMES["tools"])
# The beginnings of texts that hold JSON
_OPENS, _ANY = ("{", "["), ("",)
_NO_ANSWER: Final = _RETRIEVERS | _TOOLS | {*_NAMES["without_answer"]}


@dataclass(frozen=True, slots=True)
class _Span:
    trace: str
    id: str
    parent: str
    start: str
    end: str
    kind: str
    name: str
    attributes: Mapping[str, object]

    @property
    def asked(self) -> list[Message]:
        return self._messages("user", "asked")

    @property
    def said(self) -> list[Message]:
        return self._messages("assistant", "said")

    @property
    def question(self) -> str:
        texts = [each.text for each in self.asked if each.role == "user" and each.text.strip()]
        return texts[-1] if texts else _text(self._value("input"), "question", "user")

    @property
    def answer(self) -> str:
        texts = [each.text for each in self.said if each.role == "assistant" and each.text.strip()]
        return "\n".join(texts) or _text(self._value("output"), "answer", "assistant")

    def result(self) -> str:
        value = _found(self.attributes, "result") or self._value("output") or ""
        value = parse_json_text(value, ('"',))
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    def documents(self) -> list[object]:
        """Return the documents of a retriever, or the ones that a reranker kept."""
        for value in (*_find_all(self.attributes, "documents"), self._value("output")):
            found = _list(value)
            if found is None and isinstance(opened := parse_json_text(value, _OPENS), Mapping):
                listed = (_list(opened.get(name)) for name in _NAMES["fields"]["documents"])
                found = next(filter(None, listed), None)
            if found:
                return found
        text = parse_json_text(self._value("output"), _OPENS)
        return [text] if isinstance(text, str) and text.strip() else []

    def _value(self, name: str) -> object:
        value = self.attributes.get(name)
        return value.get("value") if isinstance(value, Mapping) and "value" in value else value

    def _messages(self, role: str, name: str) -> list[Message]:
        for value in _find_all(self.attributes, name):
            if listed := _list(value):
                items = [{"role": role, **_unwrap(each)} for each in listed if isinstance(each, Mapping)]
                with suppress(BadRow):
                    return parse_messages(items)
        return []


class TraceRows(RowSource):
    """The traces of a file, held in memory, in the order of their first spans. Raises InvalidInput, as `open_json`."""

    def __init__(self, path: Path, *, encoding: str = UTF_8) -> None:
        self._source = open_json(path, encoding=encoding, max_bytes=None)

    def close(self) -> None:
        self._source.close()

    def __iter__(self) -> Iterator[RawRow]:
        spans_by_trace: dict[str, list[_Span]] = {}
        bad: dict[int, BadRow] = {}
        # Lines of bad rows, and of the first span of each trace
        lines: dict[str | int, int | None] = {}
        for raw in self._source:
            if isinstance(raw.fields, BadRow):
                bad[raw.row], lines[raw.row] = raw.fields, raw.line
                continue
            for span in _spans(raw.fields):
                spans_by_trace.setdefault(span.trace, []).append(span)
                lines.setdefault(span.trace, raw.line)
        for row, (key, line) in enumerate(lines.items()):
            fields = bad[key] if isinstance(key, int) else _row(key, spans_by_trace[key])
            yield RawRow(row, line, fields, ReadPosition(row + 1))


def is_trace(fields: Mapping[str, object]) -> bool:
    """Return True if the fields are those of a span, or of an export of spans."""
    return any(name in fields or _at(fields, name) for name in _NAMES["marks"])


def _spans(value: object) -> Iterator[_Span]:
    """Yield the spans in a value: one, a list, an export by OTLP, a trace of Langfuse with its observations."""
    if isinstance(value, list):
        for each in value:
            yield from _spans(each)
    elif isinstance(value, Mapping):
        inner = [value[name] for name in _NAMES["wrappers"] if name in value]
        if isinstance(observations := _list(value.get("observations")), list):
            own = {name: part for name, part in value.items() if name != "observations"}
            inner = [[{**own, "traceId": value.get("id")}, *observations]]
        for each in inner:
            yield from _spans(each)
        span = None if inner else _span(value)
        if span is not None:
            yield span
            yield from _spans(_list(value.get("children")) or [])


def _span(value: Mapping[str, object]) -> _Span | None:
    given = _nest(value)
    context = given.get("context")
    ids = {**given, **(context if isinstance(context, Mapping) else {})}
    trace = _first(ids, "traceId", "trace_id")
    if not trace:
        return None
    attributes = given.get("attributes")
    attributes = _nest(_otlp(attributes)) if isinstance(attributes, list) else attributes
    # Langfuse and OpenLLMetry have input and output next to the type, or among their own attributes
    found = dict(attributes) if isinstance(attributes, Mapping) else given
    entity = {name: parse_json_text(text, _ANY) for name, text in _mapping(_at(found, "traceloop.entity")).items()}
    found = {**_mapping(_at(found, "langfuse.observation")), **entity, **found}
    # MLflow's attributes are texts of JSON
    mlflow = {name: parse_json_text(text, _ANY) for name, text in _mapping(found.get("mlflow")).items()}
    places = {"input": "spanInputs", "output": "spanOutputs", "type": "spanType"}
    found = {**{name: mlflow[place] for name, place in places.items() if place in mlflow}, **found}
    for event in _list(given.get("events")) or ():
        if isinstance(event, Mapping) and event.get("name") == _DETAILS:
            pairs = event.get("attributes")
            held = _nest(_otlp(pairs)) if isinstance(pairs, list) else _nest(_mapping(pairs))
            found["gen_ai"] = {**_mapping(found.get("gen_ai")), **_mapping(held.get("gen_ai"))}
    return _Span(
        trace=str(mlflow.get("traceRequestId") or trace),
        **{field: _first(ids, *names) for field, names in _NAMES["span"].items()},
        kind=str(_found(found, "kind") or _first(ids, "span_kind", "type") or _first(found, "type")).upper(),
        name=str(_found(found, "name") or _first({**ids, **found}, "name")),
        attributes=found,
    )


def _row(trace: str, spans: Sequence[_Span]) -> Mapping[str, object] | BadRow:
    ordered = sorted(spans, key=lambda span: span.start)
    known = {span.id for span in spans}
    roots = [span for span in ordered if span.parent not in known]
    others = sorted(spans, key=lambda span: span.end, reverse=True)
    answering = next((each for each in (*roots, *others) if each.kind not in _NO_ANSWER and each.answer.strip()), None)
    if answering is None:
        return BadRow(CodedText("trace_without_answer", name=trace, count=len(spans)), CodedText("a_span_with_answer"))
    question = next((each.question for each in (answering, *ordered) if each.question.strip()), "")
    try:
        contexts = [*_contexts(ordered)]
    except BadRow as bad:
        return BadRow(CodedText("trace_says", name=trace, fault=bad.found), bad.expected)
    return {"custom_id": trace, "question": question, "contexts": contexts, "answer": answering.answer}


def _contexts(spans: Sequence[_Span]) -> Iterator[object]:
    """Yield documents and results of tools in the order of time, each text once."""
    is_reranked = any(span.kind == "RERANKER" and span.documents() for span in spans)
    seen: set[str] = set()
    for span in spans:
        passages: list[tuple[str, object]] = []
        if span.kind == "RERANKER" or (span.kind in _RETRIEVERS and not is_reranked):
            for place, document in enumerate(span.documents()):
                text, labels = parse_passage(document, f"{span.name}.documents[{place}]")
                passages.append((text, context_field(text, labels)))
        elif span.kind in _TOOLS and (result := span.result()).strip():
            call = _found(span.attributes, "call")
            labels_by_name = {"tool": span.name, **({"id": str(call)} if call else {})}
            passages.append((result, {"text": result, **labels_by_name}))
        for message in span.asked:
            passages += [(text, context_field(text, labels)) for text, labels in message.passages]
        for text, field in passages:
            if text not in seen:
                seen.add(text)
                yield field


def _text(value: object, field: str, role: str, depth: int = 0) -> str:
    """Return the text in an input or output: itself, of a field, or the last message of a role."""
    value = parse_json_text(value, _OPENS)
    if isinstance(value, str) or depth == _DEEPEST:
        return value if isinstance(value, str) else ""
    if isinstance(value, Mapping):
        inner = (_text(value.get(name), field, role, depth + 1) for name in _NAMES["fields"][field])
        return next(filter(str.strip, inner), "")
    listed = _list(value) or []
    if streamed := _join_chunks(listed):
        return streamed
    with suppress(BadRow):
        said = [each.text for each in parse_messages(listed) if each.role == role and each.text.strip()]
        return said[-1] if said else ""
    return next(filter(str.strip, (_text(each, field, role, depth + 1) for each in reversed(listed))), "")


def _join_chunks(chunks: Sequence[object]) -> str:
    """Return the text of an answer's chunks as they were streamed; empty if they are none."""
    first_choices = [choices[0] for each in chunks if (choices := _list(_at(each, "choices")))]
    said = [_at(each, "delta.content") for each in first_choices]
    return "".join(each for each in said if isinstance(each, str))


def _otlp(pairs: list[object]) -> dict[str, object]:
    """Return the attributes of OTLP JSON: a list of keys with typed values."""
    return {
        str(pair["key"]): _otlp_value(pair.get("value"))
        for pair in pairs
        if isinstance(pair, Mapping) and "key" in pair
    }


def _otlp_value(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    if isinstance(listed := value.get("arrayValue"), Mapping):
        return [_otlp_value(each) for each in _list(listed.get("values")) or ()]
    if isinstance(pairs := value.get("kvlistValue"), Mapping):
        return _otlp(_list(pairs.get("values")) or [])
    # 64 bits are written as a text
    return next((int(each) if kind == "intValue" else each for kind, each in value.items()), None)


def _nest(flat: Mapping[str, object]) -> dict[str, object]:
    """Return an object with its dotted names as objects in objects: `llm.model_name` in `llm`."""
    nested: dict[str, object] = {}
    for name, value in flat.items():
        place, parts = nested, name.split(".")
        for part in parts[:-1]:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                inner = place[part] = {"value": inner}
            place = inner
        held = _nest(value) if isinstance(value, Mapping) else value
        if isinstance(held, list):
            held = [_nest(each) if isinstance(each, Mapping) else each for each in held]
        before = place.get(parts[-1])
        place[parts[-1]] = {**before, **held} if isinstance(before, dict) and isinstance(held, dict) else held
    return nested


def _unwrap(message: Mapping[str, object]) -> dict[str, object]:
    """Return an OpenInference message without its wrappers."""
    inner = message.get("message")
    found = dict(inner) if isinstance(inner, Mapping) else dict(message)
    for name, wrapper in (("contents", "message_content"), ("tool_calls", "tool_call")):
        listed = [
            each.get(wrapper, each) if isinstance(each, Mapping) else each for each in _list(found.get(name)) or ()
        ]
        if listed:
            found["content" if name == "contents" else name] = listed
    return found


def _find_all(attributes: Mapping[str, object], name: str) -> list[object]:
    """Return what stands in the places of a name, where something does."""
    return list(filter(None, (_at(attributes, path) for path in _NAMES["attributes"][name])))


def _found(attributes: Mapping[str, object], name: str) -> object:
    return next(iter(_find_all(attributes, name)), None)


def _at(value: object, path: str) -> object:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[object] | None:
    """Return a list, also of JSON in a text, or of an object with numbers for names."""
    value = parse_json_text(value, _OPENS)
    if isinstance(value, Mapping) and value and all(str(name).isdecimal() for name in value):
        return [value[name] for name in sorted(value, key=int)]
    return value if isinstance(value, list) else None


def _first(value: Mapping[str, object], *names: str) -> str:
    return next((str(value[name]) for name in names if value.get(name)), "")
