"""The OpenAPI document of a batch: both forms of the answer, every limit, examples that work."""

import json
from typing import Any

import httpx2
import pytest

from plumbline.service.api.openapi import BATCH_EXAMPLES
from plumbline.service.api.responses import JSON, NDJSON
from tests.doubles.fakes import WordEncoder
from tests.running.batch_service import BATCH_URL, post, read_array, read_lines
from tests.running.service import plain_settings, running


async def document(**knobs: Any) -> dict[str, Any]:
    async with running(plain_settings(**knobs)) as client:
        response: httpx2.Response = await client.get("/openapi.json")
    return dict(response.json())


async def test_both_forms_of_the_answer_are_documented() -> None:
    spec = await document()

    answer = spec["paths"][BATCH_URL]["post"]["responses"]["200"]["content"]
    assert set(answer) == {NDJSON, JSON}
    assert answer[JSON]["schema"] == {"$ref": "#/components/schemas/BatchResults"}
    lines = answer[NDJSON]["schema"]["contentSchema"]["oneOf"]
    assert [each.get("$ref", "").rpartition("/")[2] for each in lines] == ["BatchResult", "BatchError", ""]
    assert lines[2]["properties"]["summary"]["$ref"] == "#/components/schemas/BatchSummary"


async def test_the_limits_of_a_batch_and_of_its_samples_are_documented() -> None:
    spec = await document(max_batch_samples=7, max_contexts=3, max_answer_characters=30)

    schemas = spec["components"]["schemas"]
    fields = schemas["BatchRequest"]["properties"]
    assert (fields["samples"]["minItems"], fields["samples"]["maxItems"]) == (1, 7)
    forms = ("BatchSample", "BatchConversation")
    assert fields["samples"]["items"]["anyOf"] == [{"$ref": f"#/components/schemas/{form}"} for form in forms]
    sample = schemas["BatchSample"]["properties"]
    assert list(sample) == ["custom_id", "question", "contexts", "answer", "reference"]
    assert (sample["contexts"]["maxItems"], sample["answer"]["maxLength"]) == (3, 30)
    single = set(schemas["EvaluationRequest"]["properties"])
    assert set(schemas["EvaluationOptions"]["properties"]) == single - set(sample) - {"id"}
    assert all(each.get("description") for part in (fields, sample) for each in part.values())


async def test_a_batch_takes_keys_as_a_single_evaluation_does() -> None:
    spec = await document()

    assert spec["paths"][BATCH_URL]["post"]["security"] == [{"bearer": []}, {"api_key": []}]


@pytest.mark.parametrize(("name", "errors"), [("lines", 0), ("array", 0), ("bad row", 1)])
async def test_every_example_of_a_batch_works_when_posted(name: str, errors: int) -> None:
    value = json.loads(json.dumps(BATCH_EXAMPLES[name]["value"]))

    response = await post(*value.pop("samples"), **value, encoder=WordEncoder())

    rows, summary = (read_lines if value["format"] == "ndjson" else read_array)(response)
    assert len(rows) == summary["rows"]
    assert summary["errors"] == errors
    assert len(BATCH_EXAMPLES) == 3
