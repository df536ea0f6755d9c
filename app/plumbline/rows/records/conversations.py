"""Chat messages of any provider as one conversation.

OpenAI's, Anthropic's, Bedrock's, Gemini's, LangChain's, LlamaIndex's, OpenTelemetry's and the Vercel AI SDK's formats.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from plumbline.ground.errors import quoted
from plumbline.ground.phrases import load_data
from plumbline.ground.texts import CodedText
from plumbline.judging.text.sample import (
    EVIDENCE_ROLES,
    TURN_CONTEXTS,
    ContextLabels,
    Message,
    Passage,
    Sample,
    build_conversation,
)
from plumbline.rows.records.record import A_LIST, A_STRING, BadRow, checked_text, describe_type, parse_passage

_NAMES: Final = load_data("rows/records/names")
_ROLES: Final = tuple(_NAMES["roles"])
_ROLE_BY_NAME: Final = {name: role for role, names in _NAMES["roles"].items() for name in names}
_CALLS: Final = frozenset(_NAMES["parts"]["calls"])
# Anthropic's own tools have a name before it.
_RESULTS: Final = re.compile(r"(?!web_)(?:\w+_)?tool_result|tool_call_response|tool-result")
# Items of OpenAI's Responses for tools of its own: file_search_call, mcp_call, web_search_call.
_OWN_TOOL: Final = re.compile(r"\w+_call(?:_output)?|mcp_\w+")
_DOCUMENTS: Final = frozenset(_NAMES["parts"]["documents"])
_TEXTS: Final = frozenset({*_NAMES["parts"]["texts"], None})
_ENDS: Final = tuple(".!?:。！？：")
_A_MESSAGE: Final = CodedText("a_message")
_Object = Mapping[str, object]


def parse_conversation(fields: Mapping[str, object]) -> Sample:
    """Return the sample of a conversation, from the fields of a request; raise BadRow with a message's place."""
    fields = {name: value for name, value in fields.items() if value}
    messages, contexts, reference = fields.get("messages"), fields.get("contexts", []), fields.get("reference")
    roles, scope = fields.get("evidence_roles", []), fields.get("turn_contexts", TURN_CONTEXTS[0])
    if not isinstance(messages, list):
        seen = CodedText("is_of_type", name="messages", type=describe_type(messages))
        raise BadRow(CodedText("is_missing", name="messages") if messages is None else seen, A_LIST)
    if not isinstance(roles, list) or not {*map(str, roles)} <= {*EVIDENCE_ROLES}:
        raise BadRow(CodedText("roles_unknown"), CodedText("a_list_of", names=tuple(EVIDENCE_ROLES)))
    if scope not in TURN_CONTEXTS:
        found = CodedText("has_value", name="turn_contexts", value=quoted(str(scope)))
        raise BadRow(found, CodedText("one_of", names=tuple(TURN_CONTEXTS)))
    return build_conversation(
        parse_messages(messages),
        _passages(contexts, "contexts"),
        reference=None if reference is None else checked_text(reference, "reference", A_STRING),
        evidence_roles=roles,
        turn_contexts=TURN_CONTEXTS[TURN_CONTEXTS.index(scope)],
        given=fields,
    )


def parse_messages(messages: Sequence[object]) -> list[Message]:
    """Return chat messages of any format. Raises BadRow: one has no known form; it names the place."""
    tool_by_call: dict[object, str] = {}
    return [_message(item, f"messages[{place}]", tool_by_call) for place, item in enumerate(messages)]


def _message(item: object, name: str, tool_by_call: dict[object, str]) -> Message:
    """Return a message; `tool_by_call` has the names of the tools called so far by the ids of their calls."""
    if not isinstance(item, Mapping):
        raise BadRow(CodedText("is_of_type", name=name, type=describe_type(item)), _A_MESSAGE)
    # LangChain's dumps and OpenInference's lists hold the message in an object
    ids = item["id"][-1:] if isinstance(item.get("id"), list) else ()
    kinds = [item.get("role"), item.get("type"), item.get("from"), *ids]
    for wrapper in ("kwargs", "data", "message"):
        if isinstance(inner := item.get(wrapper), Mapping):
            item, kinds = inner, [inner.get("role"), *kinds, inner.get("type")]
    role = next((_ROLE_BY_NAME[kind] for kind in kinds if isinstance(kind, str) and kind in _ROLE_BY_NAME), None)
    own_tool = next((kind for kind in kinds if isinstance(kind, str) and _OWN_TOOL.fullmatch(kind)), None)
    role = role or (own_tool and "tool")
    if role is None:
        seen = next((quoted(kind) for kind in kinds if isinstance(kind, str)), "missing")
        raise BadRow(CodedText("has_value", name=f"{name}.role", value=seen), CodedText("one_of", names=_ROLES))
    calls = item.get("tool_calls")
    for call in (item, *(calls if isinstance(calls, list) else ())):
        _note_call(call, tool_by_call)
    given = item.get("parts") or item.get("blocks")
    content = given or _first(item, "content", "output", "results", "outputs", "value")
    # RAGFlow's messages have the passages of an answer beside it
    cited = "reference" if isinstance(item.get("reference"), list) else "contexts"
    passages = _passages(item.get(cited) or [], f"{name}.{cited}")
    kinds_within = (
        [each.get("type") for each in content if isinstance(each, Mapping)] if isinstance(content, list) else []
    )
    if role == "tool" and not any(_RESULTS.fullmatch(str(kind)) for kind in kinds_within):
        call_id = _first(item, "tool_call_id", "call_id")
        passages += _result(content, call_id, _first(item, "name", "tool_name") or tool_by_call.get(call_id), name)
        return Message(role, "", tuple(passages))
    parts = content if isinstance(content, list) else [content]
    texts = [_part(part, f"{name}.content[{place}]", passages, tool_by_call) for place, part in enumerate(parts)]
    text = _join(texts) if role == "assistant" else "\n".join(each for each in texts if each)
    # Anthropic's results of tools come as a user's message without a text
    return Message("tool" if role == "user" and passages and not text.strip() else role, text, tuple(passages))


def _part(part: object, name: str, passages: list[Passage], tool_by_call: dict[object, str]) -> str:
    """Return the text of a part of a message; what was returned or retrieved goes to `passages`."""
    if not isinstance(part, Mapping):
        return checked_text(part, name, CodedText("a_string_or_typed_object"))
    _note_call(part, tool_by_call)
    kind = part.get("type")
    # Bedrock's, Gemini's and the Vercel AI SDK's objects in an object
    held = _first(part, "functionResponse", "function_response", "toolInvocation", "toolResult")
    if isinstance(held, Mapping):
        part = held
    is_result = _RESULTS.fullmatch(str(kind)) or (str(kind).startswith("tool-") and kind not in _CALLS)
    if is_result or isinstance(held, Mapping):
        call_id = _first(part, "tool_use_id", "toolCallId", "toolUseId", "id")
        tool = part.get("toolName") or part.get("name") or tool_by_call.get(call_id)
        tool = tool or (str(kind).removeprefix("tool-") if "state" in part else None)
        value = _first(part, "content", "response", "result", "output", "errorText")
        if isinstance(value, Mapping) and {*value} == {"type", "value"}:
            value = value["value"]
        parts = value if isinstance(value, list) else []
        documents = [each for each in parts if isinstance(each, Mapping) and each.get("type") in _DOCUMENTS]
        for each in documents:
            passages += _document(each, name)
        passages += [] if documents else _result(value, call_id, tool, name)
    elif kind in _DOCUMENTS:
        passages += _document(part, name)
    elif kind in _TEXTS and part.get("thought") is not True:
        # Anthropic's web search returns only these words in the clear.
        cited = part.get("citations")
        for each in cited if isinstance(cited, list) else ():
            if isinstance(each, Mapping) and each.get("type") == "web_search_result_location":
                found = {"content": each.get("cited_text"), "title": each.get("title"), "source": each.get("url")}
                passages += _document(found, name)
        text = next((part[each] for each in ("text", "content", "refusal") if isinstance(part.get(each), str)), "")
        return checked_text(text, name, A_STRING)
    return ""


def _join(parts: Sequence[str]) -> str:
    """Return the parts of an answer as one text: providers cut it anywhere, at citations and in streams.

    A new line stands where something else was between two parts, or where one that has ended is followed by a capital.
    """
    found, before, is_apart = [], "", False
    for part in parts:
        if part and before and (is_apart or (before.endswith(_ENDS) and part[0].isalpha() and not part[0].islower())):
            found.append("\n")
        found.append(part)
        before, is_apart = part or before, not part
    return "".join(found)


def _first(item: _Object, *names: str) -> object:
    return next((item[name] for name in names if item.get(name) is not None), "")


def _note_call(call: object, tool_by_call: dict[object, str]) -> None:
    wrapped = _first(call, "tool_call", "toolUse") if isinstance(call, Mapping) else None
    call = wrapped if isinstance(wrapped, Mapping) else call
    if not isinstance(call, Mapping) or call.get("type", "function") not in (*_CALLS, "function"):
        return
    function = call.get("function")
    name = function.get("name") if isinstance(function, Mapping) else call.get("name") or call.get("toolName")
    call_id = _first(call, "call_id", "toolCallId", "toolUseId", "id")
    if isinstance(name, str) and isinstance(call_id, str):
        tool_by_call[call_id] = name


def _result(value: object, call_id: object, tool: object, name: str) -> list[Passage]:
    """Return what a tool returned as a passage; of several parts one text."""
    parts = value if isinstance(value, list) else [value]
    is_text = all(isinstance(part, str) or (isinstance(part, Mapping) and "text" in part) for part in parts)
    text = "\n".join(_part_texts(parts)) if is_text else json.dumps(value, ensure_ascii=False)
    labels = ContextLabels(id=_label(call_id), tool=_label(tool))
    return [(checked_text(text, name, A_STRING), labels)] if text.strip() else []


def _document(part: _Object, name: str) -> list[Passage]:
    """Return a document or a search result of Anthropic's format, where it is a text."""
    source = part.get("source")
    held = source if isinstance(source, Mapping) else part
    content = held.get("content", held.get("data") if held.get("type") == "text" else None)
    text = "\n".join(_part_texts(content if isinstance(content, list) else [content]))
    labels = ContextLabels(title=_label(part.get("title")), source=_label(source))
    return [(checked_text(text, name, A_STRING), labels)] if text.strip() else []


def _part_texts(parts: list[object]) -> Iterator[str]:
    for part in parts:
        text = part.get("text") if isinstance(part, Mapping) else part
        if isinstance(text, str):
            yield text


def _label(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _passages(value: object, name: str) -> list[Passage]:
    if not isinstance(value, list):
        raise BadRow(CodedText("is_of_type", name=name, type=describe_type(value)), CodedText("a_list_of_contexts"))
    return [parse_passage(item, f"{name}[{place}]") for place, item in enumerate(value)]
