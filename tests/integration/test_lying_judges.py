"""False answers before judges that support whatever they read, on every way in: nothing passes by such a judge."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.doubles.scripted_judge import ScriptedJudge, running_judge
from tests.doubles.scripted_replies import RecordedRequest, Reply, completion
from tests.making.score_files import read_rows, score, write_rows
from tests.running.service import data_of, judge_settings, running
from tests.unit.test_false_answers import ROWS, Judge, lazy, off_by_one, replies_of, silent, won_over

ROW_BY_CONTEXTS = {tuple(row["contexts"]): row for row in ROWS}
LIARS: list[Judge] = [lazy, won_over, silent, off_by_one]


def _reply(judge: Judge, request: RecordedRequest) -> Reply:
    data = data_of(request)
    row = ROW_BY_CONTEXTS[tuple(each["text"] for each in data["contexts"])]
    return completion(json.dumps(replies_of(judge, row, data)))


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedJudge]:
    monkeypatch.setenv("PLUMBLINE_LLM_CONTROLS", "true")
    with running_judge() as judge:
        names = ("LLM_PROVIDER", "generic"), ("LLM_BASE_URL", judge.base_url), ("LLM_MODEL", "m"), ("LLM_API_KEY", "k")
        for name, value in names:
            monkeypatch.setenv(f"PLUMBLINE_{name}", value)
        yield judge


@pytest.mark.parametrize("liar", LIARS)
@pytest.mark.parametrize("gates", [(), ("--threshold", "0.1"), ("--metrics", "answer_relevance")])
def test_a_gated_file_fails_and_no_row_of_it_passes(
    tmp_path: Path, judge: ScriptedJudge, liar: Judge, gates: tuple[str, ...]
) -> None:
    judge.reply_with(partial(_reply, liar))
    rows = [{name: row[name] for name in ("question", "contexts", "answer")} for row in ROWS]
    data, out = write_rows(tmp_path / "data.jsonl", rows), tmp_path / "out.jsonl"

    code = score(
        data, "-o", out, "--tiers", "llm", "--fail-under", "faithfulness=0.8", "--max-unsupported", "0.1", *gates
    )

    results = [line["result"] for line in read_rows(out)]
    assert code == 1
    assert [each["status"] for each in results] == ["not_judged"] * 80
    assert not any(each["passed"] for each in results)
    assert {each["trace"]["attempts"][0]["reason"] for each in results} == {"controls_failed"}


@pytest.mark.parametrize("liar", LIARS)
async def test_the_api_and_foreign_contracts_let_nothing_through_by_such_a_judge(
    judge: ScriptedJudge, liar: Judge
) -> None:
    judge.reply_with(partial(_reply, liar))
    async with running(judge_settings(judge, llm_controls=True, compat=("promptfoo", "tool", "litellm"))) as client:
        # Each liar meets a quarter of the rows here, and all of them in a file.
        for number, row in enumerate(ROWS[LIARS.index(liar) :: len(LIARS)]):
            sample = {name: row[name] for name in ("question", "contexts", "answer")}
            body = {**sample, "tiers": ["llm"], **({"threshold": 0.1} if number % 2 else {})}
            result = (await client.post("/v1/evaluations", json=body)).json()
            assert (result["status"], result["passed"]) == ("not_judged", None)

            asked = {"output": row["answer"], "context": {"vars": {"docs": row["contexts"]}}}
            foreign = (await client.post("/v1/compat/promptfoo?contexts=docs", json=asked)).json()
            by_words = (
                await client.post("/v1/evaluations", json={**sample, "question": "", "tiers": ["embedding", "lexical"]})
            ).json()
            flat = (await client.post("/v1/compat/tool/check_answer", json=sample)).json()
            tools = [{"role": "tool", "content": each} for each in row["contexts"]]
            guarded = {"texts": [row["answer"]], "input_type": "response", "structured_messages": tools}
            guard = (await client.post("/v1/compat/litellm/beta/litellm_basic_guardrail_api", json=guarded)).json()
            assert (foreign["pass"], guard["action"] == "NONE") == (by_words["passed"] is True,) * 2
            assert flat["tier"] != "llm"
