"""OpenAPI descriptions of jobs beyond the routes' types: bodies, headers, examples, streams."""

import json
from typing import Any, Final

from plumbline.rows.records.columns import PRESETS
from plumbline.rows.records.data_file import FORMS
from plumbline.schemas.batch import RowError, RowResult
from plumbline.schemas.jobs import JobChoices, JobInfo, JobRequest
from plumbline.service.api.job_events import EVENT_ID_PATTERN, EVENT_STREAM
from plumbline.service.api.job_upload import FORM, LINES
from plumbline.service.api.openapi import BATCH_EXAMPLES
from plumbline.service.api.responses import CSV, JSON, NDJSON

_REFERENCE: Final = "#/components/schemas/{model}"
_ROWS: Final[list[dict[str, Any]]] = BATCH_EXAMPLES["lines"]["value"]["samples"]
_CHOICES: Final = {"name": "nightly", "options": {"tiers": ["lexical"]}}
_LINES_OF_ROWS: Final = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in _ROWS)

JOB_EXAMPLES: Final[dict[str, Any]] = {
    "rows": {"summary": "A few rows in one body", "value": {"rows": _ROWS}},
    "choices": {
        "summary": "With a name and options for every row",
        "value": {"rows": _ROWS[:2], "name": "bridges and dams", "options": {"tiers": ["lexical"], "threshold": 0.7}},
    },
    "ragas": {
        "summary": "Rows as ragas has them",
        "value": {
            "rows": [
                {
                    "user_input": "When was the Marlow Bridge opened?",
                    "retrieved_contexts": ["The Marlow Bridge was opened in 1931."],
                    "response": "It was opened in 1931.",
                }
            ],
            "columns": "ragas",
        },
    },
}

_PARTS: Final = {
    "file": {"type": "string", "format": "binary", "description": "The rows; text may be gzipped."},
    "format": {"type": "string", "enum": list(FORMS), "description": "Default: by the suffix of the file's name."},
    "choices": {"$ref": _REFERENCE.format(model="JobChoices"), "description": "As JSON.", "example": _CHOICES},
}
_LINES_CONTENT: Final[dict[str, Any]] = {
    "schema": {
        "type": "string",
        "minLength": 1,
        "description": "A row as JSON in each line; choices stand in the query.",
    },
    "example": _LINES_OF_ROWS,
}
SUBMIT_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": {"$ref": _REFERENCE.format(model="JobRequest")}, "examples": JOB_EXAMPLES},
            **dict.fromkeys(LINES, _LINES_CONTENT),
            FORM: {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": _PARTS,
                    "additionalProperties": False,
                }
            },
        },
    },
    "parameters": [
        {
            "name": "choices",
            "in": "query",
            "required": False,
            "description": f"For rows sent as {LINES[0]} or {LINES[1]}: what holds for all of them.",
            "content": {JSON: {"schema": {"$ref": _REFERENCE.format(model="JobChoices")}, "example": _CHOICES}},
        }
    ],
}


def _header(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}}


_OPERATIONS_ON_A_JOB: Final = (
    "get_job", "get_job_results", "get_job_report", "watch_job", "pause_job", "resume_job", "cancel_job", "retry_job",
    "delete_job",
)  # fmt: skip
SUBMITTED: Final[dict[str, Any]] = {
    "description": "The job is stored and will be scored, even if this process ends.",
    "links": {
        name: {"operationId": name, "parameters": {"job_id": "$response.body#/id"}} for name in _OPERATIONS_ON_A_JOB
    },
    "headers": {
        "Location": _header("Path of the job."),
        "Idempotency-Replayed": _header("`true` if the key already named this job: nothing was started."),
    },
}
_LINE_SCHEMA: Final = {
    "description": "Each line is one of these, in the order of the rows.",
    "oneOf": [{"$ref": _REFERENCE.format(model=model)} for model in ("RowResult", "RowError")],
}
_TABLE_SCHEMA: Final = {
    "type": "string",
    "description": "A row for each result, the names of the columns before row 0. Cells that a spreadsheet would take "
    "for a formula have an apostrophe before them.",
}
RESULTS: Final[dict[str, Any]] = {
    "description": "Rows in the order of the input, up to the first that is not done yet.",
    "headers": {
        "Link": _header('With a `limit`: `<path>; rel="next"` of the following rows, as long as there can be any.')
    },
    "content": {NDJSON: {"schema": _LINE_SCHEMA}, CSV: {"schema": _TABLE_SCHEMA}},
}
EVENTS: Final[dict[int | str, Any]] = {
    200: {
        "description": "Events `job` with a `JobInfo` each, at every change of state and at most once a second while "
        "rows are done. The stream ends after an ended state.",
        "content": {
            EVENT_STREAM: {
                "schema": {
                    "description": "Each event is one of these; a comment keeps the connection alive.",
                    "type": "object",
                    "properties": {
                        "event": {"const": "job"},
                        "id": {"type": "string", "pattern": EVENT_ID_PATTERN},
                        "data": {
                            "type": "string",
                            "contentMediaType": JSON,
                            "contentSchema": {"$ref": _REFERENCE.format(model="JobInfo")},
                        },
                    },
                    "required": ["event", "id", "data"],
                },
                "example": 'retry: 3000\n\nevent: job\nid: 3.120\ndata: {"id": "...", "status": "running", ...}\n\n',
            }
        },
    },
    204: {"description": "The last event was received already: do not reconnect."},
}


def job_schemas() -> dict[str, Any]:
    """Return the schemas that the routes' types do not bring into the OpenAPI document."""
    schemas: dict[str, Any] = {}
    for model in (JobRequest, JobChoices, JobInfo, RowResult, RowError):
        schema = model.model_json_schema(
            ref_template=_REFERENCE, mode="validation" if issubclass(model, JobChoices) else "serialization"
        )
        schemas |= {**schema.pop("$defs", {}), model.__name__: schema}
        if "columns" in schema["properties"]:
            schema["properties"]["columns"]["anyOf"][0]["enum"] = list(PRESETS)
    return schemas
