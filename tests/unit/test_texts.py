"""Sentences with a code and fields: both languages have each, the code says no other, and they survive JSON."""

import ast
import copy
import json
import re
import string
from collections.abc import Iterator
from http import HTTPStatus
from typing import get_args

import pytest
from pydantic_core.core_schema import ErrorType

from plumbline.ground.texts import CodedText, encode_fields, join_texts, load_texts, parse_text, render
from tests.making.cases import load_cases
from tests.reading.said_texts import PACKAGE

ENGLISH, CHINESE = load_texts("en"), load_texts("zh")
HAN = re.compile(r"[\u4e00-\u9fff]")


def places(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


def said() -> Iterator[tuple[str, set[str], str]]:
    """Yield code, fields and file of each sentence that the package builds, titles of problems included."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            given = {each.arg or "" for each in node.keywords}
            constants = [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
            if node.func.id in ("CodedText", "invalid_value") and constants:
                yield constants[0], given, path.name
            elif node.func.id == "ProblemKind" and len(constants) > 1:
                yield title_code(constants[1]), set(), path.name


def title_code(slug: str) -> str:
    return "title_" + slug.replace("-", "_")


SAID = list(said())
# Pydantic says what type of error it is, HTTP what status.
OF_OTHERS = {*get_args(ErrorType), *(title_code(re.sub("[^a-z]+", "-", each.phrase.lower())) for each in HTTPStatus)}


@pytest.mark.parametrize(("code", "fields", "place"), SAID, ids=[f"{code}-{place}" for code, _, place in SAID])
def test_each_sentence_has_a_template_in_both_languages_with_its_fields(
    code: str, fields: set[str], place: str
) -> None:
    assert places(ENGLISH[code]) == places(CHINESE[code]) == fields, place


def test_no_template_is_of_a_sentence_that_nobody_says() -> None:
    codes = {code for code, _, _ in SAID}

    assert ENGLISH.keys() == CHINESE.keys()
    assert codes <= ENGLISH.keys()
    assert ENGLISH.keys() - codes <= OF_OTHERS
    assert all(places(ENGLISH[code]) == places(CHINESE[code]) for code in ENGLISH)
    without_words = {"several", "host_says", "at_place", "tier_tried", "claim_line", "and_more", "file_too_large_for"}
    assert {code for code, chinese in CHINESE.items() if not HAN.search(chinese)} <= without_words


def test_a_sentence_is_its_english_and_is_rendered_in_chinese() -> None:
    text = CodedText("in_no_context_and_more", names=("42", "Ada"), count=3)

    assert text == "in no context: 42, Ada and 3 more"
    assert render(text, "en") == text
    assert render(text, "zh") == "不在任何上下文中：42, Ada 等，另有 3 个"
    assert render("the words of a judge", "zh") == "the words of a judge"


def test_sentences_in_a_sentence_are_rendered_with_it() -> None:
    late, refused = CodedText("tier_timed_out", seconds=2.0), "HTTP 500"

    text = join_texts(
        [CodedText("judge_says", name="a", detail=late), CodedText("judge_says", name="b", detail=refused)]
    )

    assert text == "judge a: timed out after 2.0 s; judge b: HTTP 500"
    assert render(text, "zh") == "评判模型 a：2.0 秒后超时；评判模型 b：HTTP 500"
    assert join_texts([late]) is late


def test_a_sentence_survives_json_and_copies_with_its_fields() -> None:
    text = join_texts([CodedText("in_no_context", names=("Ada",)), CodedText("tier_timed_out", seconds=2.04)])

    assert isinstance(text, CodedText)
    again = parse_text(text.code, json.loads(json.dumps(encode_fields(text.fields))))

    assert (again, render(again, "zh")) == (text, "不在任何上下文中：Ada；2.0 秒后超时")
    assert render(copy.deepcopy(text), "zh") == render(text, "zh")


@pytest.mark.parametrize(("code", "fields"), load_cases("texts", "refused"))
def test_stored_fields_that_are_no_sentence_of_ours_are_refused(code: str, fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_text(code, fields)
