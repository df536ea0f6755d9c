"""The OpenAPI document of jobs: every body, header and stream, and examples that work."""

import json
from typing import Any

import pytest

from plumbline.rows.jobs.store import JobStore
from plumbline.rows.records.columns import PRESETS
from plumbline.schemas.jobs import JobChoices, JobInfo, JobRequest
from plumbline.service.api.openapi import JOB_EXAMPLES
from tests.doubles.memory_store import MemoryStore
from tests.running.job_service import JOBS_URL, jobs_running, read_job, read_rows, work

ONE = f"{JOBS_URL}/{{job_id}}"


def model_of(content: dict[str, Any]) -> str:
    """The name of the model in a JSON body."""
    return str(content["application/json"]["schema"]["$ref"].rpartition("/")[2])


def parameters(operation: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in operation.get("parameters", [])}


def test_every_route_is_there_with_keys_and_problems(document: dict[str, Any]) -> None:
    paths = {path: set(item) for path, item in document["paths"].items() if path.startswith(JOBS_URL)}

    assert paths == {
        JOBS_URL: {"get", "post"},
        ONE: {"get", "delete"},
        f"{ONE}/results": {"get"},
        f"{ONE}/report": {"get"},
        f"{ONE}/pause": {"post"},
        f"{ONE}/resume": {"post"},
        f"{ONE}/cancel": {"post"},
        f"{ONE}/retry": {"post"},
    }
    for path, methods in paths.items():
        for method in methods:
            operation = document["paths"][path][method]
            assert operation["security"] == [{"bearer": []}, {"api_key": []}]
            assert operation["description"]
            assert {"401", "422", "500", "503"} <= set(operation["responses"])
            assert ("404" in operation["responses"]) is (path != JOBS_URL or method == "get")
            assert ("409" in operation["responses"]) is path.endswith(("pause", "resume", "cancel", "retry"))


def test_the_two_bodies_of_a_new_job_are_documented(document: dict[str, Any]) -> None:
    operation = document["paths"][JOBS_URL]["post"]

    content = operation["requestBody"]["content"]
    assert list(content) == ["application/json", "multipart/form-data"]
    assert model_of(content) == "JobRequest"
    assert content["application/json"]["examples"] == JOB_EXAMPLES
    form = content["multipart/form-data"]["schema"]
    assert (set(form["properties"]), form["required"]) == ({"file", "format", "choices"}, ["file"])
    named = parameters(operation)
    assert (named["Idempotency-Key"]["in"], named["Idempotency-Key"]["required"]) == ("header", False)


def test_what_is_answered_is_documented(document: dict[str, Any]) -> None:
    taken = document["paths"][JOBS_URL]["post"]["responses"]["202"]
    results = document["paths"][f"{ONE}/results"]["get"]

    assert model_of(taken["content"]) == "JobInfo"
    assert set(taken["headers"]) == {"Location", "Idempotency-Replayed"}
    assert set(results["responses"]["200"]["headers"]) == {"Link"}
    assert set(results["responses"]["200"]["content"]) == {"application/x-ndjson", "text/csv"}
    assert set(parameters(results)) == {"job_id", "after", "limit", "format", "lang"}
    assert set(parameters(document["paths"][JOBS_URL]["get"])) == {"limit", "before", "lang"}


def test_a_new_job_links_to_all_that_can_be_asked_of_it(document: dict[str, Any]) -> None:
    links = document["paths"][JOBS_URL]["post"]["responses"]["202"]["links"]

    on_a_job = [each for path, item in document["paths"].items() if "{job_id}" in path for each in item.values()]
    assert {link["operationId"] for link in links.values()} == {each["operationId"] for each in on_a_job}
    assert all(link["parameters"] == {"job_id": "$response.body#/id"} for link in links.values())


def test_schemas_are_those_of_the_code(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]

    assert set(schemas["JobInfo"]["properties"]) == set(JobInfo.model_fields) == set(schemas["JobInfo"]["required"])
    assert set(schemas["JobRequest"]["properties"]) == set(JobRequest.model_fields)
    assert schemas["JobRequest"]["required"] == ["rows"]
    assert set(schemas["JobChoices"]["properties"]) == set(JobChoices.model_fields)
    assert "required" not in schemas["JobChoices"]
    assert schemas["JobChoices"]["properties"]["columns"]["anyOf"][0]["enum"] == list(PRESETS)
    assert schemas["EvaluationOptions"]["properties"]["tiers"]["uniqueItems"] is True


@pytest.mark.parametrize("name", ["rows", "choices", "ragas"])
async def test_every_example_of_a_body_works_when_posted(store: JobStore, name: str) -> None:
    body = JOB_EXAMPLES[name]["value"]
    async with jobs_running(store) as client:
        path = f"{JOBS_URL}/{read_job(await client.post(JOBS_URL, json=body), 202)['id']}"
        await work(store)
        rows = read_rows(await client.get(f"{path}/results"))

    assert len(rows) == len(body["rows"])
    assert all("result" in each for each in rows)
    assert len(JOB_EXAMPLES) == 3


async def test_the_example_of_a_form_works_too(document: dict[str, Any]) -> None:
    operation = document["paths"][JOBS_URL]["post"]
    form = operation["requestBody"]["content"]["multipart/form-data"]["schema"]
    part = json.dumps(form["properties"]["choices"]["example"])
    async with jobs_running(MemoryStore()) as client:
        as_form = await client.post(
            JOBS_URL, files={"file": ("rows.jsonl", b'{"answer": "a"}'), "choices": (None, part)}
        )

    assert read_job(as_form, 202)["name"] == "nightly"
