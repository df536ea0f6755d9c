"""OpenAPI descriptions of jobs beyond the routes' types: bodies, headers, examples, streams."""

import json
from typing import Any, Final

from plumbline.rows.records.columns import PRESETS
from plumbline.rows.records.data_file import FORMS
from plumbline.schemas.batch import RowError, RowResult
from plumbline.schemas.jobs import JobChoices, JobInfo, JobRequest
from plumbline.service.api.form_body import FORM
from plumbline.service.api.job_upload import LINES
from plumbline.service.api.openapi import JOB_EXAMPLES, SCHEMA_REFERENCE, header, lines_of, reference
from plumbline.service.api.responses import CSV, JSON, NDJSON

_ROWS: Final[list[dict[str, Any]]] = JOB_EXAMPLES["rows"]["value"]["rows"]
_CHOICES: Final = {"name": "nightly", "options": {"tiers": ["lexical"]}}

_PARTS: Final = {
    "file": {"type": "string", "format": "binary", "description": "The rows; text may be gzipped."},
    "format": {"type": "string", "enum": list(FORMS), "description": "Default: by the suffix of the file's name."},
    "choices": {**reference("JobChoices"), "description": "As JSON.", "example": _CHOICES},
}
_LINES_CONTENT: Final[dict[str, Any]] = {
    "schema": {
        "type": "string",
        "minLength": 1,
        "description": "One row as JSON per line; the options are in the query.",
    },
    "example": "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in _ROWS),
}
SUBMIT_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": reference("JobRequest"), "examples": JOB_EXAMPLES},
            **dict.fromkeys(LINES, _LINES_CONTENT),
            FORM: {
                "schema": {"type": "object", "required": ["file"], "properties": _PARTS, "additionalProperties": False}
            },
        },
    },
    "parameters": [
        {
            "name": "choices",
            "in": "query",
            "required": False,
            "description": f"For rows sent as {LINES[0]} or {LINES[1]}: the options of the job.",
            "content": {JSON: {"schema": reference("JobChoices"), "example": _CHOICES}},
        },
        {
            "name": "columns",
            "in": "query",
            "required": False,
            "description": "For such rows: their form, as `columns` of the choices, which come first.",
            "schema": {"type": "string", "enum": list(PRESETS)},
        },
    ],
}


_OPERATIONS_ON_A_JOB: Final = (
    "get_job", "get_job_results", "get_job_report", "pause_job", "resume_job", "cancel_job", "retry_job",
    "delete_job",
)  # fmt: skip
SUBMITTED: Final[dict[str, Any]] = {
    "description": "The job is stored and will be scored, even if this process ends.",
    "links": {
        name: {"operationId": name, "parameters": {"job_id": "$response.body#/id"}} for name in _OPERATIONS_ON_A_JOB
    },
    "headers": {
        "Location": header("Path of the job."),
        "Idempotency-Replayed": header("`true` if the key already named this job: nothing was started."),
    },
}
RESULTS: Final[dict[str, Any]] = {
    "description": "Finished rows in input order, up to the first unfinished one.",
    "headers": {"Link": header('With a `limit`: `<path>; rel="next"` of the next page, while there can be one.')},
    "content": {
        NDJSON: lines_of(reference("RowResult"), reference("RowError")),
        CSV: {
            "schema": {
                "type": "string",
                "description": "One line per result, the column names before row 0. Cells that a spreadsheet would "
                "take for a formula start with an apostrophe.",
            }
        },
    },
}


def job_schemas() -> dict[str, Any]:
    """Return the schemas that the routes' types do not bring into the OpenAPI document."""
    schemas: dict[str, Any] = {}
    for model in (JobRequest, JobChoices, JobInfo, RowResult, RowError):
        schema = model.model_json_schema(
            ref_template=SCHEMA_REFERENCE, mode="validation" if issubclass(model, JobChoices) else "serialization"
        )
        schemas |= {**schema.pop("$defs", {}), model.__name__: schema}
        if "columns" in schema["properties"]:
            schema["properties"]["columns"]["anyOf"][0]["enum"] = list(PRESETS)
    return schemas
