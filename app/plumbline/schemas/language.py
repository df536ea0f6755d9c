"""Texts of ours inside results and problems in the reader's language.

What a result says is made, stored and cached in English, so that it never depends on who asked first. The fixed part of
such a text is its key, and what stands in its places are its fields: `texts.zh.toml` renders them in Chinese. Texts
of callers and of the judge have no entry and stay as they are.
"""

import json
import operator
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from plumbline.ground.texts import load_texts
from plumbline.schemas.report import ReportLanguage

_FOLDER: Final = Path(__file__).parent
_PLACE: Final = re.compile(r"\{(\w+)\}")
_FORM: Final = re.compile(r"(?<=\w)(?:![rs])?(?::\.\d[f%]|:g)?(?=\})")
# Their templates fit any text.
_CODES_OF_JOINTS: Final = frozenset({"several", "host_says", "judge_says"})
# Longer lines are none of ours.
_MOST_CHARACTERS: Final = 1_000
_MOST_NESTED: Final = 4
# Texts of several findings, in the order in which they are taken apart
_JOINTS: Final = {"\n": "\n", "; ": "；", ": ": "："}
_STRING: Final = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
# A quote within a JSON string is escaped, so that these can only be fields.
_FIELD: Final = re.compile(
    rb'"(?:reason|detail|title|problem|explanation|blocked_reason|warnings)":\s?(?:%b|\[(?:%b(?:,\s?%b)*)?\])'
    % (_STRING, _STRING, _STRING)
)
_VALUE: Final = re.compile(_STRING)


class _Template(NamedTuple):
    english: tuple[str, ...]
    names: tuple[str, ...]
    chinese: str


def translate(text: str, language: ReportLanguage, *more: Path) -> str:
    """Return a text of ours in this language; one that is not known stays as it is.

    Args:
        more: files besides `texts.zh.toml`, of the same form: Chinese by English, with `{places}`.
    """
    return text if language == "en" else _chinese(text, _templates(more), _MOST_NESTED)


def translate_json(document: bytes, language: ReportLanguage) -> bytes:
    """Return JSON (one document, lines, or a piece that holds whole strings) with our texts in this language.

    Every other byte stays.
    """
    if language == "en":
        return document

    def string(found: re.Match[bytes]) -> bytes:
        return json.dumps(translate(json.loads(found[0]), language), ensure_ascii=False).encode()

    def field(found: re.Match[bytes]) -> bytes:
        name, colon, value = found[0].partition(b":")
        return name + colon + _VALUE.sub(string, value)

    return _FIELD.sub(field, document)


@cache
def explain_flags(language: ReportLanguage) -> Mapping[str, str]:
    """Return what each flag of a claim or a result means."""
    found: dict[str, str] = tomllib.loads((_FOLDER / f"flags.{language}.toml").read_text(encoding="utf-8"))
    return found


def explain_flag(flag: str, language: ReportLanguage) -> str:
    """Return what a flag means; empty for an unknown one. Those that begin with `judge_said_` are one."""
    known = explain_flags(language)
    return known.get("judge_said" if flag.startswith("judge_said_") else flag, "")


@cache
def _templates(more: Sequence[Path]) -> tuple[_Template, ...]:
    english_by_code, chinese_by_code = load_texts("en"), load_texts("zh")
    pairs = [
        (_FORM.sub("", english_by_code[code]), _FORM.sub("", chinese_by_code[code]))
        for code in english_by_code.keys() - _CODES_OF_JOINTS
    ]
    for path in (_FOLDER / "texts.zh.toml", *more):
        pairs += tomllib.loads(path.read_text(encoding="utf-8")).items()
    found = [
        _Template(tuple(_PLACE.split(english)[::2]), tuple(_PLACE.split(english)[1::2]), chinese)
        for english, chinese in pairs
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
