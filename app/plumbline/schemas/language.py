"""Stored results and problems in the reader's language, and what flags mean.

A text of ours in a result has its code and fields next to it and is rendered from them; one without, of a judge or of
an older file, stays as it is. Problems are still English until they are sent: the fixed part of one is its key in
`texts.zh.toml`, and what stands in its places are its fields.
"""

import operator
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from plumbline.ground.phrases import load_data
from plumbline.ground.texts import Language, render, restore
from plumbline.schemas.problem import problem_title

_PLACE: Final = re.compile(r"\{(\w+)\}")
# Longer lines are none of ours.
_MOST_CHARACTERS: Final = 1_000
_MOST_NESTED: Final = 4
# Texts of several findings, in the order in which they are taken apart
_JOINTS: Final = {"\n": "\n", "; ": "；", ": ": "："}


def render_coded(text: str, code: str | None, fields: Mapping[str, Any], language: Language) -> str:
    """Return a stored text in this language; as it is without a code, or with one of another version."""
    return render(restore(text, code, fields), language)


def render_line(line: bytes, language: Language | None) -> bytes:
    """Return a row of results (JSON) with the texts of ours in this language; None leaves them as they are."""
    if language is None:
        return line
    row = msgspec.json.decode(line)
    if isinstance(result := row.get("result"), dict):
        _render_result(result, language)
    render_problem(row.get("error"), language)
    return msgspec.json.encode(row)


def _render_result(result: dict[str, Any], language: Language) -> None:
    reasons = {}
    for claim in result.get("claims", ()):
        reasons[claim["id"]] = _render_member(claim, "reason", language)
    for each in (result.get("decision") or {}).get("because", ()):
        if reason := reasons.get(each["claim"]):
            each["reason"] = reason
    for attempt in result.get("trace", {}).get("attempts", ()):
        _render_member(attempt, "detail", language)
    for warning in result.get("warnings", ()):
        warning["text"] = render_coded(warning["text"], warning.get("code"), warning.get("fields", {}), language)


def _render_member(item: dict[str, Any], name: str, language: Language) -> str | None:
    if item.get(f"{name}_code"):
        fields = item.get(f"{name}_fields", {})
        item[name] = render_coded(item[name], item[f"{name}_code"], fields, language)
    return item.get(name)


def render_problem(document: Any, language: Language) -> None:
    """Render title and details of a problem in place."""
    if isinstance(document, dict):
        document["title"] = render(problem_title(str(document.get("type"))) or document.get("title", ""), language)
        for each in (document, *document.get("errors", ())):
            if not each.get("detail_code"):
                each["detail"] = translate(each.get("detail", ""), language)
            _render_member(each, "detail", language)


def explain_flags(language: Language) -> Mapping[str, str]:
    """Return what each flag of a claim or a result means."""
    return load_data(f"schemas/flags.{language}")


def explain_flag(flag: str, language: Language) -> str:
    """Return what a flag means; empty for an unknown one. Those that begin with `judge_said_` are one."""
    known = explain_flags(language)
    return known.get("judge_said" if flag.startswith("judge_said_") else flag, "")


class _Template(NamedTuple):
    english: tuple[str, ...]
    names: tuple[str, ...]
    chinese: str


def translate(text: str, language: Language, *more: str) -> str:
    """Return a text of a problem in this language; one that is not known stays as it is.

    Args:
        more: files besides `texts.zh.toml`, as `load_data` takes them: Chinese by English, with `{places}`.
    """
    return text if language == "en" else _chinese(text, _templates(more), _MOST_NESTED)


@cache
def _templates(more: Sequence[str]) -> tuple[_Template, ...]:
    found = [
        _Template(tuple(_PLACE.split(english)[::2]), tuple(_PLACE.split(english)[1::2]), chinese)
        for name in ("schemas/texts.zh", *more)
        for english, chinese in load_data(name).items()
    ]
    # The one that says most is meant.
    return tuple(sorted(found, key=lambda each: -sum(map(len, each.english))))


def _chinese(text: str, templates: Sequence[_Template], most_nested: int) -> str:
    parts_by_joint = {joint: text.split(joint) for joint in _JOINTS if most_nested and joint in text}
    said_by_joint = {
        joint: [_chinese(each, templates, most_nested - 1) for each in parts] for joint, parts in parts_by_joint.items()
    }
    for joint, said in said_by_joint.items():
        # Several texts, each ours; else one that has the joint in it
        if all(map(operator.ne, said, parts_by_joint[joint])):
            return _JOINTS[joint].join(said)
    if len(text) <= _MOST_CHARACTERS:
        for template in templates:
            if (filled := _fields(text, template.english)) is not None:
                inner = [_chinese(each, templates, most_nested - 1) if most_nested else each for each in filled]
                return template.chinese.format(**dict(zip(template.names, inner, strict=True)))
    # Beside one that is not ours: the name of a host, a word of a provider
    changed = (joint for joint, said in said_by_joint.items() if said != parts_by_joint[joint])
    return next((_JOINTS[joint].join(said_by_joint[joint]) for joint in changed), text)


def _fields(text: str, parts: tuple[str, ...]) -> list[str] | None:
    """Return what stands between the parts of a template, none of it empty; None if the text is not of it."""
    if not (text.startswith(parts[0]) and text.endswith(parts[-1])):
        return None
    if len(parts) == 1:
        return [] if text == parts[0] else None
    at, end, found = len(parts[0]), len(text) - len(parts[-1]), list[str]()
    for part in parts[1:-1]:
        start = text.find(part, at + 1, end)
        if start < 0:
            return None
        found.append(text[at:start])
        at = start + len(part)
    return [*found, text[at:end]] if at < end else None
