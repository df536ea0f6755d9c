"""The OpenAPI document: what it promises is what is answered."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from plumbline.ground.settings import Settings
from plumbline.main import create_app
from plumbline.retrieval.combination import NORMS
from plumbline.retrieval.fusion import METHODS
from plumbline.schemas.evaluation import EvaluationResult
from plumbline.service.api.openapi import BATCH_EXAMPLES, EVALUATION_EXAMPLES
from plumbline.service.api.responses import JSON, NDJSON
from plumbline.service.api.retrieval_limits import MAX_RESAMPLES, MAX_RUNS
from tests.doubles.fakes import WordEncoder
from tests.making.cases import load_cases
from tests.running.batch_service import BATCH_URL, post, read_array, read_lines
from tests.running.service import URL, plain_settings, read_result, running

LIMITS = {
    "max_contexts": 3,
    "max_context_characters": 40,
    "max_answer_characters": 30,
    "max_question_characters": 20,
    "max_batch_samples": 7,
}


def document_of(settings: Settings) -> dict[str, Any]:
    return create_app(settings, encoder=WordEncoder()).openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every operation with its path."""
    for path, item in document["paths"].items():
        for operation in item.values():
            yield path, operation


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The schema that a reference names."""
    found: dict[str, Any] = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return found


def test_the_description_is_that_of_the_service(document: dict[str, Any]) -> None:
    named = set(re.findall(r"/v1/[\w/]+\w", document["info"]["description"]))

    assert len(named) > 3
    assert all(any(path.startswith(name) for path in document["paths"]) for name in named)
    assert "import" not in document["info"]["description"]


def test_the_shape_of_fastapis_own_errors_is_nowhere(document: dict[str, Any]) -> None:
    assert not {"HTTPValidationError", "ValidationError"} & set(document["components"]["schemas"])
    assert "HTTPValidationError" not in str(document["paths"])


def test_every_failure_under_v1_is_documented_as_a_problem(document: dict[str, Any]) -> None:
    failures = [
        (path, code, response)
        for path, operation in operations(document)
        for code, response in operation["responses"].items()
        if path.startswith("/v1/") and code >= "400"
    ]

    assert {code for _, code, _ in failures} == {
        *("400", "401", "403", "404", "408", "409", "413", "415", "422", "429", "500", "503")
    }
    for path, code, response in failures:
        assert set(response["content"]) == {"application/problem+json"}, (path, code)
        schema = resolved(document, response["content"]["application/problem+json"]["schema"])
        assert set(schema["required"]) >= {"type", "title", "status", "detail"}


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from (each for name, each in value.items() if name == "$ref")
            value = list(value.values())
        if isinstance(value, list):
            for each in value:
                yield from references(each)

    names = {reference.removeprefix("#/components/schemas/") for reference in references(document)}
    assert names <= set(document["components"]["schemas"])


def test_every_operation_has_a_name_of_its_own(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(document)]

    assert tuple(sorted(names)) == load_cases("openapi", "operations")


def test_generators_of_clients_take_the_document(document: dict[str, Any]) -> None:
    def schemas(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            yield value
            value = list(value.values())
        if isinstance(value, list):
            for each in value:
                yield from schemas(each)

    assert not [each for each in schemas(document) if each.get("items") is False or "prefixItems" in each]
    for path, operation in operations(document):
        for code, response in operation["responses"].items():
            # A text of lines or events is no object, and a client asks for what stands first.
            content = response.get("content", {})
            texts = [each["schema"] for name, each in content.items() if "json" not in name or "x-ndjson" in name]
            assert all(schema["type"] == "string" for schema in texts), (path, code)
        for name, content in operation.get("requestBody", {}).get("content", {}).items():
            # Of a body without a name they make "Body", "Body1", ...
            assert "json" not in name or "$ref" in content["schema"] or content["schema"].get("title") != "Body", path
    batch = document["paths"]["/v1/evaluations/batch"]["post"]["responses"]["200"]["content"]
    assert list(batch) == ["application/json", "application/x-ndjson"]


async def test_the_document_is_served_with_the_servers_that_the_settings_name(document: dict[str, Any]) -> None:
    async with running(plain_settings(public_url="https://rag.example/plumbline")) as client:
        named = (await client.get("/openapi.json")).json()

    assert "servers" not in document
    assert named == {**document, "servers": [{"url": "https://rag.example/plumbline"}]}


def test_the_result_is_documented_as_it_is_sent(document: dict[str, Any]) -> None:
    response = document["paths"][URL]["post"]["responses"]["200"]["content"]["application/json"]["schema"]

    documented = resolved(document, response)
    always = ["status", "tier", "faithfulness", "hallucination_rate", "context_utilization", "passed", "trace"]
    assert documented["required"] == always
    assert set(documented["properties"]) == set(EvaluationResult.model_fields)
    assert documented["additionalProperties"] is False


def test_the_limits_of_the_settings_stand_in_the_document_and_in_no_other(document: dict[str, Any]) -> None:
    plain = document["components"]["schemas"]["EvaluationRequest"]["properties"]
    document = document_of(plain_settings(**LIMITS))

    body = document["paths"][URL]["post"]["requestBody"]["content"]["application/json"]["schema"]
    sample, conversation = body["oneOf"]
    assert set(resolved(document, conversation)["required"]) == {"messages"}
    fields = resolved(document, sample)["properties"]
    assert fields["contexts"]["maxItems"] == 3
    text, passage = fields["contexts"]["items"]["oneOf"]
    assert text["maxLength"] == 40
    assert set(resolved(document, passage)["properties"]) == {"text", "id", "title", "source", "tool"}
    assert fields["answer"]["maxLength"] == 30
    assert fields["reference"]["anyOf"][0]["maxLength"] == 30
    assert fields["question"]["maxLength"] == 20
    assert all(field.get("description") for field in fields.values())
    assert plain["answer"]["maxLength"] == 50_000
    schemas = document["components"]["schemas"]
    batch = schemas["BatchRequest"]["properties"]
    assert (batch["samples"]["minItems"], batch["samples"]["maxItems"]) == (1, 7)
    row = schemas["BatchSample"]["properties"]
    assert (row["contexts"]["maxItems"], row["answer"]["maxLength"]) == (3, 30)
    assert set(schemas["EvaluationOptions"]["properties"]) == set(fields) - set(row) - {"id"}
    assert all(each.get("description") for part in (batch, row) for each in part.values())


async def test_the_document_offers_every_example(document: dict[str, Any]) -> None:
    offered = document["paths"][URL]["post"]["requestBody"]["content"]["application/json"]["examples"]

    assert offered == EVALUATION_EXAMPLES


@pytest.mark.parametrize(("name", "status"), load_cases("openapi", "examples"))
async def test_every_example_works_when_posted(name: str, status: str) -> None:
    async with running(plain_settings()) as client:
        response: httpx2.Response = await client.post(URL, json=EVALUATION_EXAMPLES[name]["value"])

    assert read_result(response)["status"] == status
    assert len(EVALUATION_EXAMPLES) == 5


def test_both_ways_to_send_a_key_are_documented(document: dict[str, Any]) -> None:
    assert set(document["components"]["securitySchemes"]) == {"bearer", "api_key"}
    assert document["paths"][URL]["post"]["security"] == [{"bearer": []}, {"api_key": []}]


@pytest.mark.parametrize(("method", "path", "allowed"), load_cases("openapi", "methods"))
async def test_a_refused_method_is_told_all_that_the_path_takes(method: str, path: str, allowed: str) -> None:
    async with running(plain_settings()) as client:
        response: httpx2.Response = await client.request(method, path)

    assert (response.status_code, response.headers["allow"]) == (405, allowed)


def test_no_parameter_of_a_header_may_be_null(document: dict[str, Any]) -> None:
    parameters = [each for _, operation in operations(document) for each in operation.get("parameters", [])]

    headers = {each["name"]: each["schema"] for each in parameters if each["in"] == "header"}
    assert headers["Idempotency-Key"]["pattern"] == "^[!-~]{1,200}$"
    assert {schema["type"] for schema in headers.values()} == {"string"}


def test_what_retrieval_takes_is_documented_as_it_is_checked(document: dict[str, Any]) -> None:
    fields = {name: schema.get("properties", {}) for name, schema in document["components"]["schemas"].items()}

    fusion, comparison = fields["FusionRequest"], fields["ComparisonRequest"]
    assert tuple(fusion["method"]["enum"]) == METHODS
    assert tuple(fusion["norm"]["anyOf"][0]["enum"]) == NORMS
    assert [fields[f"{name}Request"]["runs"]["maxItems"] for name in ("Fusion", "Comparison")] == [MAX_RUNS, MAX_RUNS]
    assert (comparison["runs"]["minItems"], comparison["resamples"]["maximum"]) == (2, MAX_RESAMPLES)
    form = document["paths"]["/v1/retrieval/evaluations"]["post"]["requestBody"]["content"]["multipart/form-data"]
    assert form["schema"]["properties"]["options"]["$ref"] == "#/components/schemas/FormOptions"
    assert form["schema"]["additionalProperties"] is False


def test_both_forms_of_a_batchs_answer_are_documented(document: dict[str, Any]) -> None:
    answer = document["paths"][BATCH_URL]["post"]["responses"]["200"]["content"]
    assert set(answer) == {NDJSON, JSON}
    assert answer[JSON]["schema"] == {"$ref": "#/components/schemas/BatchResults"}
    lines = answer[NDJSON]["schema"]["contentSchema"]["oneOf"]
    assert [each.get("$ref", "").rpartition("/")[2] for each in lines] == ["BatchResult", "BatchError", ""]
    assert lines[2]["properties"]["summary"]["$ref"] == "#/components/schemas/BatchSummary"


@pytest.mark.parametrize(("name", "errors"), [("lines", 0), ("array", 0), ("bad row", 1)])
async def test_every_example_of_a_batch_works_when_posted(name: str, errors: int) -> None:
    value = json.loads(json.dumps(BATCH_EXAMPLES[name]["value"]))

    response = await post(*value.pop("samples"), **value, encoder=WordEncoder())

    rows, summary = (read_lines if value["format"] == "ndjson" else read_array)(response)
    assert len(rows) == summary["rows"]
    assert summary["errors"] == errors
    assert len(BATCH_EXAMPLES) == 3
