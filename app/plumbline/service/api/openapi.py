"""Additions to the OpenAPI document beyond the routes' own types: component schemas, and examples for /docs."""

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

import msgspec
from fastapi import FastAPI

from plumbline.rows.records.columns import PRESETS
from plumbline.rows.records.data_file import FORMS
from plumbline.service.api.retrieval_limits import MAX_RUNS

# Of the service, at the top of /docs.
DESCRIPTION: Final = """Checks whether answers of a RAG application are true to what it retrieved.

`POST /v1/evaluations` judges one answer by its contexts, `/v1/evaluations/batch` streams the results of many, and
`/v1/jobs` keeps rows and results here. `/v1/retrieval/...` measures, compares and fuses rankings.

A result names the tier that answered, and why those before it did not; `passed` is `null` where the tier is unsure.
Every failure is `application/problem+json`. Where keys are configured, send `Authorization: Bearer KEY`. Texts are
English or Chinese by `lang` or `Accept-Language`, else in the answer's language."""

# As pydantic fills it in.
SCHEMA_REFERENCE: Final = "#/components/schemas/{model}"


def reference(name: str) -> dict[str, str]:
    return {"$ref": SCHEMA_REFERENCE.format(model=name)}


def add_schemas(app: FastAPI, make_schemas: Callable[[], Mapping[str, Any]]) -> None:
    """Add component schemas to the document (https://fastapi.tiangolo.com/how-to/extending-openapi/).

    They are made when the document is asked for: making them takes half of the time in which an app is built.
    """
    plain_openapi = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = plain_openapi()
        document.setdefault("components", {}).setdefault("schemas", {}).update(make_schemas())
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def message_schemas(messages: Sequence[type[Any]]) -> dict[str, Any]:
    template = SCHEMA_REFERENCE.replace("model", "name")
    components: dict[str, Any] = msgspec.json.schema_components(messages, ref_template=template)[1]
    return components


def json_content(message: type[Any], examples: dict[str, Any] | None = None) -> dict[str, Any]:
    shown = {"examples": examples} if examples else {}
    return {"application/json": {"schema": reference(message.__name__), **shown}}


def _fill(value: Any, shared: Mapping[str, Any]) -> Any:
    """Return a value with the shared ones in place of their names: `"$name"`, or the member `"$"` of an object."""
    if isinstance(value, str):
        return _fill(shared[value[1:]], shared) if value.startswith("$") else value
    if isinstance(value, list):
        return [_fill(each, shared) for each in value]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for name, each in value.items():
        made |= _fill(shared[each], shared) if name == "$" else {name: _fill(each, shared)}
    return made


_GIVEN: Final = json.loads(files("plumbline.service.api").joinpath("examples.json").read_text(encoding="utf-8"))
JOB_EXAMPLES: Final[dict[str, Any]] = _fill(_GIVEN["job"], _GIVEN["shared"])
_NAMES: Final = {"forms": list(FORMS), "presets": list(PRESETS), "max_runs": MAX_RUNS}
_EXAMPLES: Final = _fill(_GIVEN, {**_GIVEN["shared"], **_NAMES, "job": JOB_EXAMPLES})
EVALUATION_EXAMPLES: Final[dict[str, Any]] = _EXAMPLES["evaluation"]
BATCH_EXAMPLES: Final[dict[str, Any]] = _EXAMPLES["batch"]
RETRIEVAL_EXAMPLES: Final[dict[str, Any]] = _EXAMPLES["retrieval"]
COMPARISON_EXAMPLES: Final[dict[str, Any]] = _EXAMPLES["comparison"]
FUSION_EXAMPLES: Final[dict[str, Any]] = _EXAMPLES["fusion"]
# Descriptions of bodies that no type of a route brings along.
DOCUMENTS: Final[dict[str, Any]] = _EXAMPLES["documents"]
# OpenAPI 3.0 for platforms that import tools: they take no references, no unions and no nested answers.
TOOL_DOCUMENT: Final[dict[str, Any]] = _EXAMPLES["tool_document"]
