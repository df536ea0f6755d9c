"""POST /v1/rates: the share of unfaithful answers among many, from labels of some."""

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body

from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import CodedText
from plumbline.rows.report.labelled_rates import RateOptions, RateTally, RowLabel
from plumbline.rows.report.result_lines import ResultRow, read_line
from plumbline.schemas.report import RateAnswer, RateRequest
from plumbline.service.api.dependencies import JobReportsDep, JobStoreDep, TenantDep
from plumbline.service.api.job_answers import read_label_sample, result_lines
from plumbline.service.api.jobs import checked_id
from plumbline.service.api.json_body import StrictRoute
from plumbline.service.api.problems import PROBLEM_RESPONSES

_ROWS: Final = [
    {"custom_id": f"q{row}", "tier": "lexical", "faithfulness": round(row * 37 % 100 / 100, 2)} for row in range(60)
]
RATE_EXAMPLES: Final[dict[str, Any]] = {
    "rows": {
        "summary": "Scores of 60 rows, labels of 30",
        "value": {
            "rows": _ROWS,
            "labels": [{"custom_id": f"q{row}", "label": int(row % 5 > 0)} for row in range(0, 60, 2)],
            "width": 0.1,
        },
    }
}

router = APIRouter(route_class=StrictRoute, responses=PROBLEM_RESPONSES, tags=["evaluation"])


@router.post("/rates", operation_id="estimate_rates")
async def estimate_rates(
    body: Annotated[RateRequest, Body(openapi_examples=RATE_EXAMPLES)],
    store: JobStoreDep,
    tenant: TenantDep,
    reports: JobReportsDep,
) -> RateAnswer:
    """Estimate the share of unfaithful answers of each tier by prediction-powered inference, with its 95 % interval.

    Labels must be of rows drawn at random, or with known probabilities and their `weight`. With `risk`, also the
    lowest threshold that keeps this promise. The mean of scores is no such share.
    """
    if (body.rows is None) == (body.job_id is None):
        raise InvalidInput(CodedText("rows_or_job_id"), place="rows")
    labels: dict[str | int, RowLabel] = {
        each.custom_id: RowLabel(each.label, each.weight) for each in body.labels or ()
    }
    if len(labels) < len(body.labels or ()):
        raise InvalidInput(CodedText("labelled_twice"), place="labels")
    job = None if body.job_id is None else await store.get(tenant, checked_id(body.job_id))
    if job is not None and body.labels is None:
        labels = dict((await read_label_sample(store, job)).labels)
    loop = asyncio.get_running_loop()

    def estimate() -> RateAnswer:
        tally = RateTally(labels)
        for each in body.rows or ():
            tally.add(each.custom_id, each.tier, each.faithfulness, each.passed)
        for row in map(read_line, () if job is None else result_lines(store, job, loop)):
            if isinstance(row, ResultRow):
                tally.add_row(row)
        tally.check(place="labels")
        rates = tally.rates(RateOptions(body.width, body.risk, body.confidence))
        for rate in rates:
            if rate.refused:
                flaw = CodedText("tier_says", tier=rate.tier or "none", reason=rate.refused)
                raise InvalidInput(flaw, place="labels")
        return RateAnswer(rates=rates)

    return await reports.in_turn(estimate)
