"""Texts inside results and problems in English and Chinese; what other people or models wrote stays as it is."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import Language, render
from plumbline.judging.text.injection import SUSPECTED
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import RecordProblem
from plumbline.schemas.language import explain_flag, explain_flags, render_coded, render_line
from tests.making.cases import load_cases
from tests.reading.said_texts import said_flags, uncoded_texts

CHINESE = re.compile(r"[\u4e00-\u9fff]")


def test_what_callers_read_of_a_failure_has_a_code() -> None:
    assert uncoded_texts() == []


def test_every_flag_is_explained_in_both_languages() -> None:
    english, chinese = explain_flags("en"), explain_flags("zh")

    assert not said_flags() - set(english)
    assert english.keys() == chinese.keys()
    assert all(CHINESE.search(text) for text in chinese.values())
    assert explain_flag("judge_said_supported", "zh") == chinese["judge_said"]
    assert explain_flag(SUSPECTED, "en") == english["injection_suspected"]
    assert explain_flag("of_another_version", "en") == ""


def test_a_stored_row_is_rendered_by_its_codes_in_either_language() -> None:
    reason = {"reason_code": "in_no_context", "reason_fields": {"names": ["Ada"]}}
    detail = {"detail_code": "host_says", "detail_fields": {"host": "a", "detail": {"code": "model_refused"}}}
    result = {
        "claims": [{"id": "0.0", "text": "Ada.", **reason, "reason": "old"}, {"id": "0.1", "reason": "timeout"}],
        "decision": {"because": [{"claim": "0.0", "sentence": "Ada.", "reason": "old"}]},
        "trace": {"attempts": [{"tier": "llm", "detail": "old", **detail}, {"tier": "lexical"}]},
        "warnings": [{"text": "old", "code": "no_tier_answered"}, {"text": "the model refused to judge"}],
    }

    def rendered(language: Language) -> dict[str, Any]:
        line = render_line(json.dumps({"row": 1, "result": result}).encode(), language)
        found: dict[str, Any] = json.loads(line)["result"]
        assert found.keys() == result.keys()
        return found

    chinese, english = rendered("zh"), rendered("en")
    assert [each["reason"] for each in chinese["claims"]] == ["不在任何上下文中：Ada", "timeout"]
    assert chinese["decision"]["because"][0]["reason"] == "不在任何上下文中：Ada"
    assert chinese["trace"]["attempts"][0]["detail"] == "a：模型拒绝评判"
    # Of an older file: no code, and it stays.
    assert [each["text"] for each in chinese["warnings"]] == [
        "没有层级能够作答，见 attempts",
        "the model refused to judge",
    ]
    assert [each["reason"] for each in english["claims"]] == ["in no context: Ada", "timeout"]
    assert english["trace"]["attempts"][0]["detail"] == "a: the model refused to judge"


@pytest.mark.parametrize(("code", "fields"), [("of_another_version", {}), ("in_no_context", {}), (None, {})])
def test_a_text_whose_code_is_not_known_stays_as_it_is(code: str | None, fields: dict[str, Any]) -> None:
    assert render_coded("in no context: Ada", code, fields, "zh") == "in no context: Ada"


@pytest.mark.parametrize(("name", "content", "chinese"), load_cases("result_language", "faults"))
def test_faults_of_files_and_their_rows_are_rendered_in_chinese(
    tmp_path: Path, name: str, content: str, chinese: str
) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")

    fault: RecordProblem | InvalidInput
    try:
        with RecordReader(path, columns="plumbline" if "contexts" in content else None) as reader:
            (fault,) = (row for row in reader if isinstance(row, RecordProblem))
    except InvalidInput as error:
        fault = error

    assert render(fault.text, "zh").startswith(chinese)


def test_an_error_of_a_row_is_rendered_by_its_codes_and_its_kind() -> None:
    field = {"pointer": "/answer", "detail": "old", "detail_code": "missing"}
    error = {
        "type": "urn:plumbline:problem:validation",
        "title": "old",
        "status": 422,
        "detail": "old",
        "errors": [field],
    }
    coded = {**error, "detail_code": "one_problem", "detail_fields": {"whole": {"code": "whole_row"}}}
    other = {"type": "about:blank", "title": "Bad Gateway", "status": 502, "detail": "the words of a proxy"}

    chinese, same = (
        json.loads(render_line(json.dumps({"row": 1, "error": each}).encode(), "zh")) for each in (coded, other)
    )

    assert (chinese["error"]["title"], chinese["error"]["detail"]) == ("请求未通过校验", "行中有 1 处问题")
    assert chinese["error"]["errors"][0]["detail"] == "缺少该字段"
    assert same["error"] == other
