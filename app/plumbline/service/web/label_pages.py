"""The pages of labels at `/label`: rows of a run without their scores, for people to mark; agreement and export."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field
from starlette.datastructures import FormData
from starlette.responses import Response

from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import CodedText
from plumbline.judging.text.sample import Sample
from plumbline.rows.jobs.job import Job
from plumbline.rows.jobs.labels import Label, draw_rows, group_notes, majority
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.records.record import Record
from plumbline.rows.report.judged_answer import judged_answer
from plumbline.rows.report.label_agreement import measure_label_agreement
from plumbline.rows.report.result_lines import ResultRow, RowResult, read_line
from plumbline.service.api.dependencies import JobStoreDep, TenantDep
from plumbline.service.api.job_answers import read_label_sample
from plumbline.service.api.responses import NDJSON, BackpressureResponse
from plumbline.service.web.pages import refuse_other_origins, render_page, see_other
from plumbline.service.web.run_pages import JobDep, run_of

LABEL_PATH: Final = "/label"
_RUNS_OFFERED: Final = 50
_ROWS_AT_A_TIME: Final = 50
_LONGEST_NAME: Final = 100
_LONGEST_NOTE: Final = 1_000
_NOTES_SHOWN: Final = 200
_WORDS_SHOWN: Final = 20
_MOST_SENTENCES: Final = 1_000
_OTHER_FIELDS: Final = 6
_LABELS: Final = {"faithful": 1, "unfaithful": 0, "skip": None}


class _LabelQuery(BaseModel, frozen=True):
    person: str = Field(default="", max_length=_LONGEST_NAME)
    drawn: bool = False


router = APIRouter(prefix=LABEL_PATH, include_in_schema=False)


@router.get("")
async def show_labels(request: Request, store: JobStoreDep, tenant: TenantDep) -> Response:
    jobs = await store.jobs(tenant, before=None, limit=_RUNS_OFFERED)
    runs = [run_of(job) for job in jobs if job.counts.done]
    counts = {run.info.id: 0 for run in runs} | await store.count_labels(tenant)
    return render_page(request, "labels.html", runs=runs, counts=counts)


@router.get("/{job_id}")
async def show_next(
    request: Request, store: JobStoreDep, job: JobDep, query: Annotated[_LabelQuery, Query()]
) -> Response:
    """Show the next row that this person has not labelled; without a name, who labelled and how far they agree."""
    labels = await store.labels(job.tenant, job.id)
    person = query.person.strip()
    mine = {each.row for each in labels if each.person == person}
    found = await _next_row(store, job, mine) if person else None
    people: dict[str, int] = {}
    for each in labels:
        people[each.person] = people.get(each.person, 0) + (each.label is not None)
    return render_page(
        request,
        "label_row.html" if person else "label_run.html",
        run=run_of(job),
        person=person,
        done=len(mine),
        row=None if found is None else found[1].row,
        shown=None if found is None else judged_answer(found[0], found[1].sample, is_blind=True),
        people=people,
        agreement=None
        if person
        else await asyncio.to_thread(
            measure_label_agreement, [(each.person, each.row, each.label) for each in labels if each.label is not None]
        ),
        labelled=len(majority(labels)),
        notes=[] if person else [each for each in labels if each.note][-_NOTES_SHOWN:],
        shared_notes=[] if person else (await asyncio.to_thread(group_notes, labels))[:_WORDS_SHOWN],
    )


@router.post("/{job_id}", dependencies=[Depends(refuse_other_origins)])
async def mark_row(request: Request, store: JobStoreDep, job: JobDep) -> Response:
    sent = await request.form(max_files=0, max_fields=_MOST_SENTENCES + _OTHER_FIELDS)
    person = str(sent.get("person", "")).strip()
    if not 0 < len(person) <= _LONGEST_NAME or not person.isprintable():
        raise InvalidInput(CodedText("person_expected", limit=_LONGEST_NAME), place="person")
    mark = str(sent.get("mark", ""))
    if mark == "undo":
        mine = await store.labels(job.tenant, job.id, person=person)
        if mine:
            await store.drop_label(job.tenant, job.id, mine[-1].row, person)
    else:
        await store.put_label(job.tenant, job.id, _label_of(sent, mark, person, job.total or 0))
    is_of_row = sent.get("from") == "row" and mark != "undo"
    following = f"/runs/{job.id}/rows/{int(str(sent['row']))}" if is_of_row else f"{LABEL_PATH}/{job.id}"
    return see_other(request, following, person=person)


@router.get("/{job_id}/export")
async def export_labels(store: JobStoreDep, job: JobDep, query: Annotated[_LabelQuery, Query()]) -> Response:
    """Return the labelled rows for `plumbline calibrate`; with `drawn`, a sample of the run for `plumbline rate`."""
    drawn = (await read_label_sample(store, job)).labels if query.drawn else None
    labels = await store.labels(job.tenant, job.id, person=query.person or None)

    async def lines() -> AsyncGenerator[bytes, None]:
        for row, label in sorted(majority(labels).items()):
            if drawn is not None and row not in drawn:
                continue
            record = await store.record(job.tenant, job.id, row)
            if isinstance(record, Record):
                given = [each for each in labels if each.row == row]
                dataset = job.name or job.id
                yield labelled_line(record.sample, label, given, custom_id=record.custom_id, dataset=dataset)

    response = BackpressureResponse(lines(), NDJSON)
    response.headers["Content-Disposition"] = f'attachment; filename="{job.id}.labels.jsonl"'
    response.headers["Cache-Control"] = "no-store"
    return response


def _label_of(sent: FormData, mark: str, person: str, total: int) -> Label:
    row = str(sent.get("row", ""))
    if mark not in _LABELS or not row.isdecimal() or int(row) >= total:
        raise InvalidInput(CodedText("label_expected", choices=tuple(_LABELS)), place="mark")
    at_fault = {int(str(each)) for each in sent.getlist("sentence") if str(each).isdecimal()}
    is_bad = _LABELS[mark] == 0
    note = str(sent.get("note", "")).strip()
    if len(note) > _LONGEST_NOTE:
        raise InvalidInput(CodedText("text_too_large", limit=_LONGEST_NOTE), place="note")
    return Label(int(row), person, _LABELS[mark], tuple(sorted(at_fault)) if is_bad else (), note=note)


async def _next_row(store: JobStore, job: Job, mine: set[int]) -> tuple[RowResult, Record] | None:
    left = [row for row in draw_rows(job.id, job.total or 0) if row not in mine]
    for start in range(0, len(left), _ROWS_AT_A_TIME):
        some = left[start : start + _ROWS_AT_A_TIME]
        lines = {each.row: each.line for each in await store.read_rows(job.tenant, job.id, some)}
        for row in (each for each in some if each in lines):
            read = read_line(lines[row])
            result = read.result if isinstance(read, ResultRow) else None
            if result is not None and result.status != "empty_answer":
                record = await store.record(job.tenant, job.id, row)
                if isinstance(record, Record):
                    return result, record
    return None


def labelled_line(sample: Sample, label: int, given: Sequence[Label], *, custom_id: str, dataset: str) -> bytes:
    """Return a row as `plumbline calibrate` reads it; what each person gave stands beside the label."""
    row = {
        "custom_id": custom_id,
        "dataset": dataset,
        "question": sample.question,
        "contexts": list(sample.contexts),
        "answer": sample.answer,
        "label": label,
        "labels": {each.person: each.label for each in given if each.label is not None},
        "sentences_at_fault": {each.person: each.sentences for each in given if each.sentences},
        **({"notes": notes} if (notes := {each.person: each.note for each in given if each.note}) else {}),
    }
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"
