"""Stored results and problems in the reader's language, and what flags mean.

A text of ours has its code and fields next to it and is rendered from them; one without, of a judge or of an older
file, stays as it is.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from plumbline.ground.phrases import load_data
from plumbline.ground.texts import Language, render, restore
from plumbline.schemas.problem import problem_title


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
    if isinstance(document, dict):
        document["title"] = render(problem_title(str(document.get("type"))) or document.get("title", ""), language)
        for each in (document, *document.get("errors", ())):
            _render_member(each, "detail", language)


def explain_flags(language: Language) -> Mapping[str, str]:
    return load_data(f"schemas/flags.{language}")


def explain_flag(flag: str, language: Language) -> str:
    """Return what a flag means; empty for an unknown one. Those that begin with `judge_said_` are one."""
    known = explain_flags(language)
    return known.get("judge_said" if flag.startswith("judge_said_") else flag, "")
