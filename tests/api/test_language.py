"""The caller's language: `?lang=` or Accept-Language, in results, streams, jobs and problems; English by default."""

import json

import pytest

from plumbline.judging.ports.exchange import Usage
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import RowStatus, ScoredRow
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import openai_error
from tests.making.cases import load_cases
from tests.making.result_rows import result_line
from tests.running.job_service import JOBS_URL, jobs_running, read_rows, submitted, work
from tests.running.service import URL, judge_settings, plain_settings, running

SAMPLE = {
    "contexts": ["The bridge opened in 1931."],
    "answer": "Zebras jumped over Quito 77 times.",
    "tiers": ["lexical"],
}
ENGLISH: dict[str, str] = {}
CHINESE = {"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.5"}
UNKNOWN = "in no context: "


@pytest.mark.parametrize(("query", "headers", "is_chinese"), load_cases("language", "languages"))
async def test_a_result_is_in_the_callers_language(query: str, headers: dict[str, str], *, is_chinese: bool) -> None:
    async with running(plain_settings()) as client:
        response = await client.post(f"{URL}{query}", json=SAMPLE, headers=headers)

    (claim,) = response.json()["claims"]
    assert claim["reason"].startswith("不在任何上下文中：" if is_chinese else UNKNOWN)
    assert response.headers.get("content-language") == ("zh" if is_chinese else None)
    assert int(response.headers["content-length"]) == len(response.content)
    assert claim["text"] == SAMPLE["answer"]


@pytest.mark.parametrize(("query", "is_chinese"), [("", True), ("?lang=en", False)])
async def test_reasons_on_a_chinese_answer_are_chinese_by_default(query: str, *, is_chinese: bool) -> None:
    sample = {"contexts": ["大桥于1931年通车。"], "answer": "斑马在基多跳了77次。", "tiers": ["lexical"]}
    async with running(plain_settings()) as client:
        result = (await client.post(f"{URL}{query}", json=sample)).json()

    (claim,) = result["claims"]
    assert claim["reason"].startswith("不在任何上下文中：" if is_chinese else UNKNOWN)
    assert claim["reason_code"] in ("in_no_context", "several")
    assert [each["reason"] for each in result["decision"]["because"]] == [claim["reason"]]


async def test_who_asks_first_does_not_decide_the_language_of_a_kept_verdict(judge: ScriptedJudge) -> None:
    judge.reply_with(openai_error(400, "bad_request"))
    async with running(judge_settings(judge)) as client:
        answers = [
            (await client.post(URL, json={**SAMPLE, "tiers": ["llm", "lexical"]}, headers=each)).json()
            for each in (CHINESE, ENGLISH, CHINESE)
        ]

    first, english, again = ([each["claims"][0]["reason"], *each["warnings"]] for each in answers)
    assert first == again
    assert english[1]["text"] == "tier llm did not answer (rejected): scores of different tiers are not comparable"
    assert first[1]["text"] == "层级 llm 未作答（rejected）：不同层级的得分不可比较"


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
async def test_a_batch_is_in_the_callers_language_row_by_row(accept: str) -> None:
    body = {"samples": [{"custom_id": "a", **{name: SAMPLE[name] for name in ("contexts", "answer")}}, {"answer": 1}]}
    async with running(plain_settings()) as client:
        headers = {**CHINESE, "Accept": accept}
        response = await client.post(
            "/v1/evaluations/batch", json={**body, "options": {"tiers": ["lexical"]}}, headers=headers
        )

    lines = [json.loads(line) for line in response.text.splitlines()]
    rows = {row["index"]: row for row in (lines[0]["results"] if accept == "application/json" else lines[:-1])}
    assert rows[0]["result"]["claims"][0]["reason"].startswith("不在任何上下文中：")
    assert rows[1]["error"]["title"] == "请求未通过校验"
    assert {each["detail"] for each in rows[1]["error"]["errors"]} == {"缺少该字段", "应为字符串"}


def doubted(record: Record | RecordProblem) -> ScoredRow:
    """A row as a worker stores it, with a warning."""
    line = result_line(
        str(record.custom_id),
        row=record.row,
        status="not_judged",
        warnings=[{"text": "no tier could answer; see attempts", "code": "no_tier_answered"}],
    )
    return ScoredRow(record.row, line, RowStatus.NOT_JUDGED, None, is_degraded=False, usage=Usage())


async def test_stored_results_are_read_in_the_language_of_each_reader(store: JobStore) -> None:
    async with jobs_running(store) as client:
        job_id = await submitted(client, "q0")
        await work(store, scored=doubted)
        path = f"{JOBS_URL}/{job_id}/results"
        english, chinese, paged = [await client.get(f"{path}{query}") for query in ("", "?lang=zh", "?lang=zh&limit=1")]
        table = await client.get(f"{path}?format=csv&lang=zh")

    said = [read_rows(each)[0]["result"]["warnings"][0]["text"] for each in (english, chinese, paged)]
    assert said == ["no tier could answer; see attempts", *["没有层级能够作答，见 attempts"] * 2]
    assert "没有层级能够作答" in table.text


async def test_problems_are_in_the_callers_language_before_a_route_is_found_too() -> None:
    async with running(plain_settings()) as client:
        missing = await client.get("/v1/nothing", headers=CHINESE)
        wrong = await client.post(URL, json={"contexts": "x", "anwser": 1}, headers=CHINESE)
        broken = await client.post(f"{URL}?lang=zh", content=b"{", headers={"Content-Type": "application/json"})
        unknown = await client.post(f"{URL}?lang=fr", json=SAMPLE)

    assert (missing.json()["title"], missing.json()["detail"]) == ("未找到", "此路径没有任何内容")
    assert wrong.json()["title"] == "请求未通过校验"
    assert wrong.json()["detail"] == "请求中有 3 处问题"
    assert {each["detail"] for each in wrong.json()["errors"]} == {
        "应为列表", "缺少该字段", "未知字段 'anwser'；是否应为 'answer'？"
    }  # fmt: skip
    assert broken.json()["title"] == "请求体不是有效的 JSON"
    assert (unknown.status_code, unknown.json()["title"]) == (422, "The request does not validate")


async def test_the_page_says_reasons_warnings_and_flags_in_its_language() -> None:
    form = {"context": SAMPLE["contexts"], "answer": SAMPLE["answer"]}
    headers = {"Sec-Fetch-Site": "same-origin", "Accept": "text/html"}
    async with running(plain_settings()) as client:
        chinese = await client.post("/?lang=zh", data=form, headers=headers)
        english = await client.post("/?lang=en", data=form, headers=headers)

    assert "不在任何上下文中：" in chinese.text
    assert UNKNOWN not in chinese.text
    assert "较高层级未能作答，由较低层级作答" in chinese.text
    assert "scores of different tiers are not comparable" not in chinese.text
    assert UNKNOWN in english.text
    assert "a lower tier answered because a higher one failed" in english.text
