"""The multipart form of a retrieval evaluation: TREC files and a part of options."""

from collections.abc import Sequence
from typing import Any

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from plumbline.ground.errors import InvalidInput, MalformedBody, UnsupportedBody
from plumbline.service.api.field_problems import printable
from plumbline.service.api.origin import is_from_another_origin
from plumbline.service.api.retrieval_answers import NamedFile
from plumbline.service.api.retrieval_limits import MAX_RUNS

_MAX_OPTIONS_BYTES = 100_000

_OPTIONS = (
    "JSON; format: `trec` (default), or `tables`, tab-separated with a header, judgments in the columns qid and "
    "document_ids, runs in qid and doc_ids."
)
_PARTS = ("qrels", "run", "options")
FORM_CONTENT: dict[str, Any] = {
    "schema": {
        "type": "object",
        "required": ["qrels", "run"],
        "properties": {
            "qrels": {"type": "string", "format": "binary", "description": "Judgments, in the format of the options."},
            "run": {
                "type": "array",
                "items": {"type": "string", "format": "binary"},
                "minItems": 1,
                "maxItems": MAX_RUNS,
                "description": "Runs, in the format of the options.",
            },
            "options": {"$ref": "#/components/schemas/FormOptions", "description": _OPTIONS},
        },
        "additionalProperties": False,
    }
}


async def read_form(request: Request) -> tuple[NamedFile, Sequence[NamedFile], bytes]:
    """The judgments, the runs and the options of a form.

    Raises:
        UnsupportedBody: the form comes from a page of another origin; a browser sends forms without asking first.
        MalformedBody: it is no such form.
        InvalidInput: a part is missing, or is not a file.
    """
    if is_from_another_origin(request):
        raise UnsupportedBody("a form from a page of another origin is not read")
    try:
        async with request.form(max_files=MAX_RUNS + 1, max_fields=1, max_part_size=_MAX_OPTIONS_BYTES) as form:
            files = {name: [await _read(each, name) for each in form.getlist(name)] for name in ("qrels", "run")}
            options = form.get("options", "")
            unknown = next((name for name in form if name not in _PARTS), None)
    except HTTPException as error:
        raise MalformedBody(f"the form cannot be read: {error.detail}") from None
    if unknown is not None:
        raise InvalidInput(f"the form has a part '{printable(unknown)}'; expected {', '.join(_PARTS)}")
    if len(files["qrels"]) != 1 or not files["run"]:
        raise InvalidInput("expected one file 'qrels' and one or more files 'run'")
    if not isinstance(options, str):
        raise InvalidInput("the part 'options' is JSON text, not a file", place="options")
    return files["qrels"][0], files["run"], options.encode()


async def _read(part: UploadFile | str, name: str) -> NamedFile:
    if isinstance(part, str):
        raise InvalidInput(f"the part {name!r} must be a file", place=name)
    return NamedFile(part.filename or name, await part.read())
