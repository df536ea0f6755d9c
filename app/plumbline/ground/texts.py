"""Sentences of ours that callers read: a code with fields, rendered in English or Chinese.

The sentences are data: `texts.en.toml` and `texts.zh.toml` hold a template for each code. A `CodedText` is its English
sentence, so that logs and terminals need no more; the edge renders it in the reader's language.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from plumbline.ground.phrases import load_data

Language = Literal["en", "zh"]
# A field is a word or number of the sentence, another sentence of ours, or several of either.
Field = str | int | float | Sequence[str | int]

_JOINT_BY_LANGUAGE: Final = {"en": "; ", "zh": "；"}
# Stored fields come from files: deeper ones are none of ours.
_MOST_NESTED: Final = 4


class CodedText(str):
    """A sentence of ours in English that keeps its code and fields; a `str` to whatever does not ask for them."""

    __slots__ = ("code", "fields")
    code: str
    fields: Mapping[str, Field]

    def __new__(cls, code: str, /, **fields: Field) -> "CodedText":
        text = super().__new__(cls, _fill(code, fields, "en"))
        text.code, text.fields = code, fields
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return parse_text, (self.code, encode_fields(self.fields))


def join_texts(texts: Sequence[str]) -> str:
    """Return several sentences as one, each of which keeps its code; a lone one as it is."""
    return texts[0] if len(texts) == 1 else CodedText("several", texts=tuple(texts))


def render(text: str, language: Language) -> str:
    """Return a sentence of ours in this language; what others wrote stays as it is."""
    return _fill(text.code, text.fields, language) if isinstance(text, CodedText) else text


def encode_fields(fields: Mapping[str, Field]) -> dict[str, Any]:
    """Return the fields as JSON can hold them: a sentence of ours among them as an object with code and fields."""
    return {name: _encode(value) for name, value in fields.items()}


def coded_members(name: str, text: str | None, language: Language = "en") -> dict[str, Any]:
    """Return the members of a document for a text: itself in this language, and code and fields of one of ours."""
    if not isinstance(text, CodedText):
        return {name: text}
    return {name: render(text, language), f"{name}_code": text.code, f"{name}_fields": encode_fields(text.fields)}


def store_text(text: str) -> str:
    """Return a text for a column of a table: one of ours as JSON with code and fields."""
    return json.dumps(coded_members("text", text), ensure_ascii=False) if isinstance(text, CodedText) else text


def load_stored_text(stored: str) -> str:
    found: dict[str, Any] = json.loads(stored) if stored.startswith('{"text": ') else {"text": stored}
    return restore(found["text"], found.get("text_code"), found.get("text_fields", {}))


def parse_text(code: Any, fields: Any, *, nested: int = _MOST_NESTED) -> CodedText:
    """Return the sentence that `encode_fields` wrote; raise ValueError for one that this version does not know."""

    def parse(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(map(parse, value))
        if isinstance(value, dict) and nested:
            return parse_text(value["code"], value.get("fields") or {}, nested=nested - 1)
        return value

    try:
        return CodedText(code, **{name: parse(value) for name, value in fields.items()})
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(code) from error


def restore(text: str, code: str | None, fields: Mapping[str, Any]) -> str:
    """Return a stored text with its code; as it is without one, or with one of another version."""
    try:
        return text if code is None else parse_text(code, fields)
    except ValueError:
        return text


def load_texts(language: Language) -> Mapping[str, str]:
    return load_data(f"ground/texts.{language}")


def _encode(value: Field) -> Any:
    if isinstance(value, CodedText):
        return {"code": value.code, "fields": encode_fields(value.fields)}
    return [_encode(each) for each in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def _fill(code: str, fields: Mapping[str, Field], language: Language) -> str:
    return load_texts(language)[code].format_map({name: _show(value, language) for name, value in fields.items()})


def _show(value: Field, language: Language) -> Field:
    if isinstance(value, str):
        return render(value, language)
    if not isinstance(value, Sequence):
        return value
    joint = _JOINT_BY_LANGUAGE[language] if any(isinstance(each, CodedText) for each in value) else ", "
    return joint.join(render(str(each) if not isinstance(each, str) else each, language) for each in value)
