"""Texts inside results in English and Chinese: each exists in both, and what nobody of us wrote stays as it is."""

import json
import re
import tomllib
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import Language, render
from plumbline.judging.text.injection import SUSPECTED
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import RecordProblem
from plumbline.schemas.language import explain_flag, explain_flags, render_coded, render_line, translate
from plumbline.service.api.retrieval import LARGE_BODY_ADVICE
from tests.reading.said_texts import PACKAGE, said_flags, said_texts

# Pieces that the code joins with others, by the whole text that a caller reads
WHOLE = {
    "⟨0⟩ within ⟨2⟩ seconds": "fewer than 9 bytes of the body arrived within 3 seconds",
    "no judge is named ⟨1⟩; ⟨3⟩": "no judge is named 'x'; no judge is configured",
    "⟨0⟩: ⟨2⟩ in one request; ⟨4⟩": "the files up to this one hold 9 bytes, decompressed; at most 8 are read in one "
    f"request; {LARGE_BODY_ADVICE}",
    "⟨0⟩; ⟨2⟩": f"the body has more than 8 bytes, the most that is read here; {LARGE_BODY_ADVICE}",
    "left out": "3 of 9 judged queries are missing from the run; left out",
    "counted as 0": "3 queries have no relevant document; counted as 0",
    "query parameter 'choices'⟨1⟩: ⟨3⟩": "query parameter 'choices': Field required",
}
SAID = said_texts()
OF_PYDANTIC = ("Field required", "Extra inputs", "Input should", "String should", "List should")
OF_TYPES = "{name} is "
# Names that other releases of Python give to the same status, too
OF_HTTP = {status.phrase for status in HTTPStatus} | {"Content Too Large", "URI Too Long", "Range Not Satisfiable"} | {
    "Request Entity Too Large", "Request-URI Too Long", "Requested Range Not Satisfiable", "Unprocessable Entity",
    "Unprocessable Content"
}  # fmt: skip
CHINESE = re.compile(r"[\u4e00-\u9fff]")


@pytest.mark.parametrize("text", SAID)
def test_what_a_result_or_a_problem_says_is_said_in_chinese_too(text: str) -> None:
    whole = WHOLE.get(text, text)

    chinese = translate(whole, "zh")

    assert CHINESE.search(chinese), f"{SAID[text]}: texts.zh.toml has no {whole!r}"
    assert set(re.findall(r"⟨\d+⟩|\{\w+\}", whole)) <= set(re.findall(r"⟨\d+⟩|\{\w+\}", chinese))


def test_every_flag_is_explained_in_both_languages() -> None:
    english, chinese = explain_flags("en"), explain_flags("zh")

    assert not said_flags() - set(english)
    assert english.keys() == chinese.keys()
    assert all(CHINESE.search(text) for text in chinese.values())
    assert explain_flag("judge_said_supported", "zh") == chinese["judge_said"]
    assert explain_flag(SUSPECTED, "en") == english["injection_suspected"]
    assert explain_flag("of_another_version", "en") == ""


def test_no_chinese_is_of_a_text_that_nobody_says() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    messages = tomllib.loads((PACKAGE / "schemas" / "texts.zh.toml").read_text(encoding="utf-8"))

    for english, chinese in messages.items():
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", chinese)), english
        # Its beginning or end may be a variable of the code, and a line of it ends somewhere.
        longest = max(re.split(r"\{\w+\}|'|; expected ", english), key=len).strip(" ;:,()")
        pieces = [longest[at : at + 11] for at in range(max(1, len(longest) - 10))]
        assert (
            english.startswith((*OF_PYDANTIC, OF_TYPES)) or english in OF_HTTP or any(each in source for each in pieces)
        ), english


@pytest.mark.parametrize(
    "text",
    [
        "The answer names Paris; the context does not.",
        "the deadline of the project passed",
        "timeout",
        "",
        "线索不足",
        "x" * 5_000,
    ],
)
def test_a_text_that_is_none_of_ours_stays_as_it_is(text: str) -> None:
    assert translate(text, "zh") == text
    assert translate(text, "en") == text


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


@pytest.mark.parametrize(
    ("name", "content", "chinese"),
    [
        (
            "a.jsonl",
            '{"contexts": [null], "answer": "a"}',
            "第 0 行（文件第 1 行）：contexts[0] 是空值 null；应为字符串",
        ),
        (
            "a.jsonl",
            '{"contexts": ["c"]}',
            "a.jsonl：预设 plumbline 需要 'answer' 列作为 answer；现有列 'contexts'；请",
        ),
        ("a.csv", "contexts,answer\n1,2,3\n", "第 0 行（文件第 2 行）：有 3 个单元格；应为与表头一样的 2 个"),
        ("a.csv", "甲,乙\n1,2\n", "a.csv：找不到可作为 contexts 和 answer 的列；现有列 '甲', '乙'；请指明：--column"),
        ("a.txt", "x", "a.txt：后缀不是 .jsonl, .ndjson, .json, .csv, .tsv, .parquet"),
    ],
)
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


@pytest.mark.parametrize(
    "reason", ["the year is missing", "Paris is a string of lights", "the answer is null and void"]
)
def test_the_words_of_a_judge_are_taken_for_no_fault_of_a_file(reason: str) -> None:
    assert translate(reason, "zh") == reason
