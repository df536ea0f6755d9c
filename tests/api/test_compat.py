"""Contracts of other services: requests, answers and keys as their clients send and read them."""

import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.ground.settings import Settings
from plumbline.service.api.compat import CallMemory
from tests.making.cases import load_cases
from tests.running.service import plain_settings, running

CONTEXT = "The Marlow lighthouse was built in 1887. It is 41 metres high."
GOOD, BAD = "The Marlow lighthouse was built in 1887.", "The Marlow lighthouse was built in 1932."
NAMES = ("promptfoo", "litellm", "tool")
LITELLM = "/litellm/beta/litellm_basic_guardrail_api"


@asynccontextmanager
async def served(**changes: Any) -> AsyncIterator[httpx2.AsyncClient]:
    settings = Settings(**{**plain_settings().model_dump(exclude_unset=True), "compat": NAMES, **changes})
    async with running(settings) as client:
        yield client


async def ask(path: str, body: object, **options: Any) -> tuple[int, Any]:
    async with served() as client:
        answer = await client.post(f"/v1/compat{path}", json=body, **options)
    return answer.status_code, answer.json()


@pytest.mark.parametrize("name", ["promptfoo", "tool/check_answer", "litellm/beta/litellm_basic_guardrail_api"])
async def test_no_contract_is_served_unless_the_settings_name_it(name: str) -> None:
    async with served(compat=()) as client:
        assert (await client.post(f"/v1/compat/{name}", json={})).status_code == 404
        assert "compat" not in (await client.get("/openapi.json")).text


@pytest.mark.parametrize(("answer", "passed"), [(GOOD, True), (BAD, False), ("I do not know.", False)])
async def test_promptfoos_webhook_finds_contexts_and_question_where_the_query_says(answer: str, passed: bool) -> None:
    body = {"output": answer, "context": {"prompt": "...", "vars": {"docs": [CONTEXT], "q": "How old?"}}}

    status, found = await ask("/promptfoo?contexts=docs&question=q", body)

    assert (status, found["pass"]) == (200, passed)
    assert ("score" in found) == (answer != "I do not know.")
    assert found["reason"]


async def test_litellms_response_is_judged_by_what_its_request_carried() -> None:
    messages = [{"role": "user", "content": "How old?"}, {"role": "tool", "content": CONTEXT, "tool_call_id": "1"}]
    call = {"litellm_call_id": "c-1", "texts": ["How old?"]}

    async with served() as client:
        before = await client.post(
            f"/v1/compat{LITELLM}", json={**call, "input_type": "request", "structured_messages": messages}
        )
        after = [
            (await client.post(f"/v1/compat{LITELLM}", json={**call, "input_type": "response", "texts": [each]})).json()
            for each in (GOOD, BAD)
        ]
        unknown = await client.post(f"/v1/compat{LITELLM}", json={"input_type": "response", "litellm_call_id": "c-2"})

        options = {"additional_provider_specific_params": {"unsure": "perhaps"}}
        misspelt = await client.post(f"/v1/compat{LITELLM}", json={**call, "input_type": "request", **options})

    assert misspelt.status_code == 422
    assert before.json() == {"action": "NONE"}
    assert [each["action"] for each in after] == ["NONE", "BLOCKED"]
    assert "1932" in after[1]["blocked_reason"]
    assert unknown.status_code == 422


async def test_litellms_contexts_may_be_marked_in_the_prompt() -> None:
    content = [{"type": "text", "text": f"Rely on this:\n<context>{CONTEXT}</context>\nHow old?"}]
    call = {"litellm_call_id": "c-1", "structured_messages": [{"role": "user", "content": content}], "texts": []}

    async with served() as client:
        await client.post(f"/v1/compat{LITELLM}", json={**call, "input_type": "request"})
        answers = [
            await client.post(
                f"/v1/compat{LITELLM}", json={"litellm_call_id": "c-1", "input_type": "response", "texts": [each]}
            )
            for each in (GOOD, BAD)
        ]

    assert [each.json()["action"] for each in answers] == ["NONE", "BLOCKED"]


async def test_the_calls_that_are_kept_are_bound_in_number_and_size() -> None:
    # 63,899,000 characters leave room for 99 calls of one character, each counted as 1,001, in 64 million.
    memory, fields = CallMemory(), {"contexts": ["c"], "question": "", "answer": ""}

    for number in range(300):
        memory.recall("t", str(number), fields, is_request=True)
    memory.recall("t", "large", {**fields, "contexts": ["c" * 63_899_000]}, is_request=True)

    def is_kept(call: str, tenant: str = "t") -> bool:
        try:
            return bool(memory.recall(tenant, call, {"contexts": [], "answer": ""}, is_request=False)["contexts"])
        except InvalidInput:
            return False

    assert not is_kept("large", tenant="another")
    assert [is_kept(str(number)) for number in (0, 200, 201, 299)] == [False, False, True, True]
    assert is_kept("large")


@pytest.mark.parametrize("contexts", [CONTEXT, [CONTEXT]])
async def test_a_tool_platform_gets_a_flat_verdict(contexts: object) -> None:
    _, found = await ask("/tool/check_answer", {"answer": BAD, "contexts": contexts, "question": "How old?"})

    assert (found["passed"], found["status"]) == (False, "judged")
    assert found["unsupported"][0]["text"] == BAD
    assert "1932" in found["explanation"]


async def test_the_document_for_tool_platforms_has_one_operation_without_references_that_works() -> None:
    key = "compat-key-000000001"
    async with served(public_url="https://rag.example/plumbline", api_keys=(key,)) as client:
        document = (await client.get("/openapi-tool.json")).json()
        (path,) = document["paths"]
        fields = document["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
        answer = await client.post(path, json={"answer": GOOD, "contexts": CONTEXT}, headers={"X-API-Key": key})
    async with served() as client:
        unnamed = (await client.get("/openapi-tool.json")).json()
        base_url = str(client.base_url).rstrip("/")
    async with served(compat=("promptfoo",)) as client:
        absent = await client.get("/openapi-tool.json")

    assert document["servers"] == [{"url": "https://rag.example/plumbline"}]
    assert unnamed["servers"] == [{"url": base_url}]
    assert not {"$ref", "anyOf", "oneOf"} & set(re.findall(r'"([^"]+)":', json.dumps(document)))
    assert set(answer.json()) == set(fields["properties"])
    assert absent.status_code == 404


@pytest.mark.parametrize(
    "headers", [{"x-api-key": "KEY"}, {"Authorization": "Basic KEY"}, {"Authorization": "Bearer KEY"}]
)
async def test_a_key_is_taken_where_the_others_clients_put_it_and_only_there(headers: dict[str, str]) -> None:
    key = "compat-key-000000001"
    body = {"answer": GOOD, "contexts": [CONTEXT]}

    async with served(api_keys=(key,)) as client:
        sent = {name: value.replace("KEY", key) for name, value in headers.items()}
        if "Basic" in str(sent):
            sent = {"Authorization": f"Basic {base64.b64encode(f':{key}'.encode()).decode()}"}
        right = await client.post("/v1/compat/tool/check_answer", json=body, headers=sent)
        wrong = await client.post("/v1/compat/tool/check_answer", json=body, headers=headers)
        elsewhere = await client.post("/v1/evaluations", json={"contexts": [CONTEXT], "answer": GOOD}, headers=sent)

    is_ours = "Basic" not in str(headers)
    assert (right.status_code, wrong.status_code) == (200, 401)
    assert elsewhere.status_code == (200 if is_ours else 401)


@pytest.mark.parametrize(("path", "body", "said"), load_cases("compat", "other_contracts", inner=list))
async def test_a_body_of_another_contract_says_what_is_missing(path: str, body: object, said: str) -> None:
    status, problem = await ask(path, body)

    assert status == 422
    assert said in problem["detail"]


async def test_what_no_tier_judged_is_an_error_and_not_an_approval() -> None:
    async with served(deadline_seconds=1e-6) as client:
        answer = await client.post("/v1/compat/tool/check_answer", json={"answer": GOOD, "contexts": [CONTEXT]})

    assert answer.status_code == 503
    assert "no tier could judge the answer; not_judged: " in answer.json()["detail"]
