"""Requests for every route of an OpenAPI document with planted words in whatever a caller can choose: fields, values,
names of fields, paths, queries, headers, media types, files; sound ones, and ones that are wrong in every way."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from plumbline.judging.ports.token_vectors import TokenizedTexts
from tests.doubles.fakes import WordEncoder

WORD = "PLANTED"
_TEXT = f"The {WORD}-text was opened in 1931."
_JSON = "application/json"


class PlantedEncoder(WordEncoder):
    """Has a bug whose message quotes a text."""

    async def read(self, texts: Sequence[str], *, seconds: float) -> TokenizedTexts:
        try:
            raise KeyError(texts[0])
        except KeyError as error:
            raise ZeroDivisionError(f"PLANTED {texts}") from error


class Planted(NamedTuple):
    """A request: what is wrong with it, and how it is sent."""

    what: str
    method: str
    url: str
    sent: dict[str, Any]


def planted_requests(document: Mapping[str, Any], ids: Mapping[str, str]) -> Iterator[Planted]:
    """All of them; those that delete come last.

    Args:
        ids: values for parameters of paths, besides planted ones.
    """
    operations = [
        (path, method, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if isinstance(operation, dict)
    ]
    for path, method, operation in sorted(operations, key=lambda each: each[1] == "delete"):
        # What is there is asked for last, as the request may remove it.
        for known in ({}, ids) if "{" in path else ({},):
            url = _filled(path, known)
            headers, query = _parameters(operation)
            for what, sent in _bodies(document, operation):
                headed = {**headers, **sent.pop("headers", {})}
                yield Planted(f"{what}, query and headers", method, url, {**sent, "headers": headed, "params": query})
                yield Planted(what, method, url, {**sent, "headers": {**headed, "Idempotency-Key": f"{WORD}-{what}"}})


def _filled(path: str, known: Mapping[str, str]) -> str:
    for part in path.split("{")[1:]:
        name = part.partition("}")[0]
        path = path.replace("{" + name + "}", known.get(name, f"{WORD}-{name}"))
    return path


def _parameters(operation: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    named = operation.get("parameters", [])
    # The name of the request is there to be logged.
    names = {each["name"] for each in named if each["in"] == "header"} - {"X-Request-ID"}
    headers = dict.fromkeys(names, f"{WORD}-header")
    return headers, {each["name"]: f"{WORD}-query" for each in named if each["in"] == "query"} | {"q": WORD}


def _bodies(document: Mapping[str, Any], operation: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    content = operation.get("requestBody", {}).get("content", {})
    if not content:
        yield "no body", {}
    for media_type, described in content.items():
        if media_type == _JSON:
            yield from _json_bodies(document, described["schema"])
            for name, example in described.get("examples", {}).items():
                yield f"example {name}", {"json": _planted(example.get("value", example))}
        else:
            yield from _forms(document, described["schema"])


def _json_bodies(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    sound = _example(document, schema)
    yield "sound", {"json": sound}
    yield "values", {"json": _replaced(sound)}
    yield "names", {"json": {**sound, WORD: WORD} if isinstance(sound, dict) else {WORD: sound}}
    yield "not JSON", {"content": b'{"PLANTED": "PLANTED', "headers": {"content-type": _JSON}}
    yield "media type", {"content": WORD.encode(), "headers": {"content-type": f"text/{WORD}"}}
    yield "encoding", {"content": WORD.encode(), "headers": {"content-type": _JSON, "content-encoding": WORD}}


def _forms(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    names = _resolved(document, schema).get("properties", {})
    files = {name: (f"{WORD}.jsonl", _lines(), f"text/{WORD}") for name in names}
    yield "form of files", {"files": files}
    yield "first-file", {"files": dict([*files.items()][:1])}
    yield "form of values", {"files": files, "data": dict.fromkeys(names, WORD)}
    yield "no form", {"content": WORD.encode(), "headers": {"content-type": f"multipart/form-data; boundary={WORD}"}}


def _lines() -> bytes:
    sound = {"custom_id": f"{WORD}-row", "contexts": [_TEXT], "answer": _TEXT, "question": _TEXT}
    wrong = {"custom_id": f"{WORD}-wrong", WORD: WORD, "contexts": WORD, "answer": 7}
    return b"\n".join([json.dumps(sound).encode(), json.dumps(wrong).encode(), b'{"PLANTED'])


def _example(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    """A value of the schema, its strings planted where they are free."""
    schema = _resolved(document, schema)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return _example(document, schema[several][0])
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    kind = schema.get("type")
    if kind == "object":
        known = {name: _example(document, each) for name, each in schema.get("properties", {}).items()}
        more = schema.get("additionalProperties")
        return known or ({f"{WORD}-key": _example(document, more)} if isinstance(more, dict) else {WORD: _TEXT})
    if kind == "array":
        return [_example(document, schema.get("items", {}))]
    if kind in ("integer", "number"):
        return schema.get("default") or schema.get("minimum") or 1
    return {"boolean": False, "null": None}.get(str(kind), _TEXT)


def _planted(value: Any) -> Any:
    """The same value with each string planted, but short ones, which name choices of ours."""
    if isinstance(value, str):
        return f"{WORD} {value}" if " " in value else value
    if isinstance(value, list):
        return [_planted(each) for each in value]
    return {name: _planted(each) for name, each in value.items()} if isinstance(value, dict) else value


def _replaced(value: Any) -> Any:
    """The same value with the planted word at every leaf."""
    if isinstance(value, list):
        return [_replaced(each) for each in value]
    return {name: _replaced(each) for name, each in value.items()} if isinstance(value, dict) and value else WORD


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema
