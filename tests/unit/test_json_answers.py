"""Answers in JSON, read as their members."""

import pytest

from plumbline.judging.text.structured import read_members
from tests.doubles.fakes import case_of
from tests.making.cases import load_cases


@pytest.mark.parametrize(("answer", "members"), load_cases("json_answers", "a_member_is_its_name_and_its_value"))
def test_a_member_is_its_name_and_its_value(answer: str, members: str) -> None:
    assert read_members(answer) == members


@pytest.mark.parametrize("text", ["", "{}", "[1]: see below", "{not json}", "A {brace}", "[" * 9_000 + "]" * 9_000])
def test_other_text_has_no_members(text: str) -> None:
    assert read_members(text) is None


def test_a_fenced_object_is_compared_by_its_members() -> None:
    case = case_of('```json\n{"job": "glass blower"}\n```', "She works as a glass blower.")

    assert case.assertions == ("job: glass blower",)
