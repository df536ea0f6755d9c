"""The pages on which a person uploads a file and starts a run: the file, then its columns and the choices."""

import asyncio
from collections.abc import Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path as FilePath
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, Field, ValidationError
from starlette.datastructures import FormData
from starlette.responses import Response

from plumbline.ground.errors import BadRequest, InvalidInput
from plumbline.ground.settings import Settings
from plumbline.ground.texts import CodedText
from plumbline.judging.judge.questions import Prompts
from plumbline.judging.ports.observation import State
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.judging.tiers.tier import TierName
from plumbline.models.chat.cost_estimate import CostEstimate
from plumbline.models.chat.endpoints import resolve_judges
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.jobs.submission import Upload
from plumbline.rows.records.columns import FIELDS, NONE_NAMED, NamedColumns
from plumbline.rows.records.data_file import SHEET_FORM, parse_row_format
from plumbline.rows.records.reading import RecordReader, open_rows
from plumbline.rows.records.record import BadRow, Record
from plumbline.schemas.jobs import JobChoices
from plumbline.schemas.problem import describe_invalid
from plumbline.service.api.auth import tenant_of
from plumbline.service.api.dependencies import CascadeDep, JobStoreDep, TenantDep
from plumbline.service.api.form_body import read_form
from plumbline.service.api.job_upload import new_job, open_rows_file
from plumbline.service.web.pages import refuse_other_origins, render_page, see_other

UPLOAD_PATH: Final = "/runs/new"
_SHOWN_ROWS: Final = 3
_ROWS_LOOKED_AT: Final = 100
_LONGEST_CELL: Final = 300
MOST_COUNTED: Final = 100_000
# A workbook is read as a whole, which takes some ten times its bytes.
_MAX_SHEET_BYTES: Final = 20_000_000
_INVALID: Final = 422
# `auto` asks every tier in turn.
_TIERS: Final[Mapping[str, list[str] | None]] = {
    "auto": None,
    "judge": ["llm"],
    "embedding": ["embedding", "lexical"],
    "lexical": ["lexical"],
}


class _FileQuery(BaseModel, frozen=True):
    form: str = Field(max_length=10)
    name: str = Field(default="", max_length=200)


class Preview(NamedTuple):
    """The first rows of an upload; `problem` is why they cannot be read with these columns.

    total: rows, at most `MOST_COUNTED` of them. expected: `requests`, `prompt` and `completion` tokens and `cost` (None
    without a price) of the judge for so many; None where nothing is asked.
    """

    columns: tuple[str, ...]
    chosen: Mapping[str, str]
    rows: tuple[Record, ...] = ()
    bad_rows: int = 0
    problem: str = ""
    total: int = 0
    expected: Mapping[str, float | None] | None = None


def upload_routes(settings: Settings, prompts: Prompts) -> APIRouter:
    judges = resolve_judges(settings)
    votes = [endpoints[0] for endpoints in judges.values()][:1]
    router = APIRouter(prefix=UPLOAD_PATH, include_in_schema=False)

    @router.get("")
    async def show_form(request: Request) -> Response:
        return render_page(request, "new_run.html", problem="")

    @router.post("", operation_id="upload_on_page", dependencies=[Depends(refuse_other_origins)])
    async def take_file(request: Request, store: JobStoreDep, tenant: TenantDep) -> Response:
        try:
            token, form, name = await _receive(request, store, tenant)
        except InvalidInput as error:
            return render_page(request, "new_run.html", status=_INVALID, problem=error.text)
        return see_other(request, f"{UPLOAD_PATH}/{token}", form=form, name=name)

    def estimate() -> CostEstimate:
        return CostEstimate(settings, prompts, judges, votes)

    async def page(
        request: Request, preview: Preview, query: _FileQuery, cascade: JudgeCascade, status: int = 200, **values: Any
    ) -> Response:
        has_judge = bool(judges) and cascade.readiness()[TierName.LLM].state is not State.UNAVAILABLE
        return render_page(
            request,
            "new_run_columns.html",
            status=status,
            preview=preview,
            query=query,
            fields=FIELDS,
            tiers=[name for name in _TIERS if has_judge or name != "judge"],
            has_judge=has_judge,
            longest=_LONGEST_CELL,
            most_counted=MOST_COUNTED,
            **{"problem": preview.problem, "given": {}, **values},
        )

    @router.get("/{token}")
    async def show_columns(
        request: Request,
        store: JobStoreDep,
        cascade: CascadeDep,
        token: Annotated[str, Path()],
        query: Annotated[_FileQuery, Query()],
    ) -> Response:
        path = store.find_upload(tenant_of(request), token)
        preview = await asyncio.to_thread(look_at_file, path, query.form, estimate=estimate())
        return await page(request, preview, query, cascade)

    @router.post("/{token}", operation_id="start_on_page", dependencies=[Depends(refuse_other_origins)])
    async def start_run(
        request: Request,
        store: JobStoreDep,
        cascade: CascadeDep,
        token: Annotated[str, Path()],
        query: Annotated[_FileQuery, Query()],
    ) -> Response:
        path = store.find_upload(tenant_of(request), token)
        sent = await request.form(max_files=0, max_fields=len(FIELDS) + 5)
        named = {name: str(column) for name in FIELDS if (column := sent.get(f"column_{name}"))}
        preview = await asyncio.to_thread(look_at_file, path, query.form, named, estimate=estimate())
        if "look" in sent or preview.problem:
            return await page(request, preview, query, cascade, _INVALID if preview.problem else 200, given=sent)
        try:
            choices = _read_choices(sent)
        except ValidationError as error:
            problem = describe_invalid(error.errors(include_input=False)[0])
            return await page(request, preview, query, cascade, _INVALID, problem=problem, given=sent)
        submission = await store.submit(new_job(request, choices), Upload(path, query.form, named=named))
        return see_other(request, f"/runs/{submission.job.id}")

    return router


async def _receive(request: Request, store: JobStore, tenant: str) -> tuple[str, str, str]:
    """Keep the uploaded file; return its token, its format and its name. Raises InvalidInput."""
    async with open_rows_file(store) as file:
        async with read_form(request, files=("file",), keep=file) as sent:
            name = (sent.files["file"][0].filename or "").replace("\0", "") if sent.files["file"] else ""
        if not name or not file.size:
            raise InvalidInput(CodedText("file_empty"), place="/file")
        form = parse_row_format(FilePath(name), is_own=True)
        if form == SHEET_FORM and file.size > _MAX_SHEET_BYTES:
            raise InvalidInput(CodedText("text_too_large", limit=_MAX_SHEET_BYTES), place="/file")
        file.close()
        return await asyncio.to_thread(store.keep_upload, tenant, file.path), form, FilePath(name).stem[:200]


def look_at_file(path: FilePath, form: str, named: NamedColumns = NONE_NAMED, *, estimate: CostEstimate) -> Preview:
    """Return the columns, the first rows of a file, and what `estimate` expects of all by those."""
    try:
        with closing(open_rows(path, form)) as source:
            rows = iter(source)
            first = list(islice(rows, _ROWS_LOOKED_AT))
            total = len(first) + sum(1 for _ in islice(rows, MOST_COUNTED - len(first)))
            each_names = (raw.fields for raw in first if not isinstance(raw.fields, BadRow))
            columns = tuple(source.columns or dict.fromkeys(name for fields in each_names for name in fields))
    except InvalidInput as error:
        return Preview((), {}, problem=error.text)
    chosen = {name: column for name, column in named.items() if isinstance(column, str)}
    try:
        with RecordReader(path, format=form, named=named) as reader:
            read = list(islice(reader, _ROWS_LOOKED_AT))
            found = {name: reader.columns.columns_of(name)[:1] for name in FIELDS}
    except InvalidInput as error:
        return Preview(columns, chosen, problem=error.text)
    chosen = {name: column[0] for name, column in found.items() if column and column[0] in columns} | chosen
    good = [each for each in read if isinstance(each, Record)]
    for each in read:
        estimate.add(each.sample if isinstance(each, Record) else None)
    return Preview(
        columns,
        chosen,
        tuple(good[:_SHOWN_ROWS]),
        len(read) - len(good),
        total=total,
        expected=_scaled(estimate, total / len(read)) if estimate.counts["asked"] else None,
    )


def _scaled(found: CostEstimate, times: float) -> dict[str, float | None]:
    tokens = {name: round(found.counts[name] * times) for name in ("requests", "prompt", "completion")}
    return {**tokens, "cost": None if found.cost is None else found.cost * times}


def _read_choices(sent: FormData) -> JobChoices:
    tiers = str(sent.get("tiers", "auto"))
    if tiers not in _TIERS:
        raise BadRequest(CodedText("own_forms_alone"))
    return JobChoices.model_validate(
        {
            "name": str(sent.get("name", "")).strip() or None,
            "max_cost": str(sent.get("max_cost", "")).strip() or None,
            "options": {"tiers": _TIERS[tiers]},
        }
    )
