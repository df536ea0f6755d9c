"""The playground at `/`: a form for one sample, typed or pasted, judged by the path of POST /v1/evaluations."""

import json
import shlex
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fastapi import APIRouter, Depends, Request
from pydantic import ValidationError
from starlette.datastructures import FormData
from starlette.responses import Response

from plumbline.ground.errors import InvalidInput
from plumbline.ground.phrases import load_data
from plumbline.ground.settings import Settings
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.observation import State
from plumbline.judging.text.offload import SMALL_CHARACTERS
from plumbline.judging.text.sample import Sample
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.judging.tiers.tier import TierName
from plumbline.rows.evaluation_wire import request_limits
from plumbline.rows.records.json_rows import decode_row
from plumbline.rows.records.reading import read_sample
from plumbline.rows.records.record import BadRow, context_fields
from plumbline.rows.report.judged_answer import JudgedAnswer, judged_answer
from plumbline.rows.report.result_lines import to_row_result
from plumbline.schemas.conversation import ConversationRequest
from plumbline.schemas.evaluation import EvaluationRequest, SampleTexts, bounded_request
from plumbline.schemas.problem import describe_invalid
from plumbline.schemas.report import ReportLanguage
from plumbline.service.api.dependencies import CascadeDep, ScorerDep, TenantDep
from plumbline.service.api.evaluations import URL_PATH, evaluate_request
from plumbline.service.api.json_body import is_text
from plumbline.service.api.responses import choose_language
from plumbline.service.web.pages import refuse_other_origins, render_page

_INVALID: Final = 422
# Of a form besides its contexts.
_OTHER_FIELDS: Final = 12


@dataclass(frozen=True, slots=True)
class Form:
    question: str = ""
    contexts: tuple[str, ...] = ("",)
    answer: str = ""
    pasted: str = ""
    sample: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    answer: JudgedAnswer
    seconds: float
    curl: str
    python: str


def playground_routes(settings: Settings, *, judge_names: Collection[str] = ()) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    request_type = bounded_request(request_limits(settings))

    def page(request: Request, cascade: JudgeCascade, form: Form, *, status: int = 200, **values: Any) -> Response:
        language = choose_language(request)
        return render_page(
            request,
            "playground.html",
            status=status,
            form=form,
            samples=load_samples(language),
            judge_hint=_judge_hint(cascade, judge_names),
            most_contexts=settings.max_contexts,
            **{"judged": None, "problems": (), **values},
        )

    @router.head("/")
    @router.get("/")
    async def show_playground(request: Request, cascade: CascadeDep) -> Response:
        return page(request, cascade, Form())

    @router.post("/", operation_id="evaluate_on_page", dependencies=[Depends(refuse_other_origins)])
    async def judge_on_page(request: Request, cascade: CascadeDep, scorer: ScorerDep, tenant: TenantDep) -> Response:
        sent = await request.form(
            max_files=0, max_fields=settings.max_contexts + _OTHER_FIELDS, max_part_size=settings.max_body_bytes
        )
        form = _read_form(sent, choose_language(request))
        if "add_context" in sent:
            return page(request, cascade, replace(form, contexts=(*form.contexts, "")))
        try:
            form, sample = _with_pasted(form)
            body, texts = _request(form, sample, request_type)
        except InvalidInput as error:
            return page(request, cascade, form, status=_INVALID, problems=[("", error.text)])
        except ValidationError as error:
            found = error.errors(include_input=False)
            problems = [(str(each["loc"][0]) if each["loc"] else "", describe_invalid(each)) for each in found]
            return page(request, cascade, form, status=_INVALID, problems=problems)
        given = Sample(texts.question, tuple(texts.passages), texts.answer)
        started = time.monotonic()
        result = await evaluate_request(
            body, scorer, settings, judge_names=judge_names, tenant=tenant, language=choose_language(request)
        )

        def write() -> Response:
            judged = Judged(
                answer=judged_answer(to_row_result(result), given),
                seconds=time.monotonic() - started,
                curl=_curl(request, settings, body),
                python=_python(request, settings, body),
            )
            return page(request, cascade, form, judged=judged)

        with scorer.interpreter.yield_often(size := sum(map(len, (texts.answer, *texts.passages)))):
            return await scorer.offload(write, inline=size <= SMALL_CHARACTERS)

    return router


def load_samples(language: ReportLanguage) -> Mapping[str, Mapping[str, Any]]:
    """Return the samples of the page by name: `title`, `question`, `contexts`, `answer`."""
    return load_data(f"service/web/page_parts/samples.{language}")


def _judge_hint(cascade: JudgeCascade, judge_names: Collection[str]) -> str:
    """Return the name of the line that says what the judge lacks; empty if it can be asked."""
    if not judge_names:
        return "judge_missing"
    return "judge_unavailable" if cascade.readiness()[TierName.LLM].state is State.UNAVAILABLE else ""


def _read_form(sent: FormData, language: ReportLanguage) -> Form:
    sample = load_samples(language).get(str(sent.get("sample", "")))
    if sample is not None:
        return Form(
            question=sample["question"],
            contexts=tuple(sample["contexts"]),
            answer=sample["answer"],
            sample=str(sent["sample"]),
        )
    return Form(
        question=_text(sent.get("question")),
        contexts=tuple(_text(each) for each in sent.getlist("context")) or ("",),
        answer=_text(sent.get("answer")),
        pasted=_text(sent.get("pasted")),
    )


def _with_pasted(form: Form) -> tuple[Form, Sample | None]:
    """Return the form with the texts of the JSON that was pasted, if any, and its sample if it is a conversation."""
    if not form.pasted.strip():
        return form, None
    sample = parse_pasted(form.pasted)
    contexts = tuple(text[labels.lead :] for text, labels in sample.labelled_contexts) or ("",)
    kept = form.pasted if sample.turns else ""
    filled = Form(sample.question, contexts, sample.answer, kept)
    return filled, sample if sample.turns else None


def _request(
    form: Form, sample: Sample | None, request_type: type[EvaluationRequest]
) -> tuple[EvaluationRequest | ConversationRequest, SampleTexts]:
    """Return the request of a form, and the texts that its result counts in."""
    if sample is None:
        body = request_type.model_validate(_fields_of(form))
        return body, body
    texts = {"question": sample.question, "contexts": context_fields(sample), "answer": sample.answer}
    return ConversationRequest.model_validate(sample.conversation), SampleTexts.model_validate(texts)


def _text(value: object) -> str:
    # Browsers end lines of forms with CRLF.
    return str(value or "").replace("\r\n", "\n")


def _fields_of(form: Form) -> dict[str, Any]:
    contexts = [each for each in form.contexts if each.strip()]
    for name, text in (
        ("question", form.question),
        ("answer", form.answer),
        *(("contexts", each) for each in contexts),
    ):
        if not is_text(text):
            raise InvalidInput(CodedText("not_text"), place=name)
    return {"question": form.question, "contexts": contexts, "answer": form.answer}


def _base_url(request: Request, settings: Settings) -> str:
    return (settings.public_url or str(request.base_url)).rstrip("/")


def _curl(request: Request, settings: Settings, body: EvaluationRequest | ConversationRequest) -> str:
    lines = [f"curl -s {shlex.quote(_base_url(request, settings) + URL_PATH)} -H 'Content-Type: application/json'"]
    if request.app.state.access.keyring.is_needed:
        lines.append('  -H "Authorization: Bearer $PLUMBLINE_API_KEY"')
    sample = json.dumps(_sent(body), ensure_ascii=False, indent=2)
    return " \\\n".join([*lines, f"  -d {shlex.quote(sample)}"])


def _python(request: Request, settings: Settings, body: EvaluationRequest | ConversationRequest) -> str:
    arguments = "".join(f"        {name}={value!r},\n" for name, value in _sent(body).items())
    return (
        "from plumbline import Plumbline\n\n"
        f"with Plumbline({_base_url(request, settings)!r}) as client:\n"
        f"    result = client.evaluate(\n{arguments}    )\n"
        "    print(result.passed, result.faithfulness)\n"
    )


def _sent(body: EvaluationRequest | ConversationRequest) -> dict[str, Any]:
    if isinstance(body, ConversationRequest):
        return body.model_dump(exclude_unset=True)
    return {"question": body.question, "contexts": body.contexts, "answer": body.answer}


_PLACE: Final = "JSON"


def parse_pasted(text: str) -> Sample:
    """Return the sample in one JSON object, its fields known as in files; raise InvalidInput with those found."""
    fields = decode_row(text.encode("utf-8", "replace"))
    if isinstance(fields, BadRow):
        raise InvalidInput(fields.text, place=_PLACE)
    try:
        return read_sample(fields)
    except InvalidInput as error:
        raise InvalidInput(error.detail, place=_PLACE) from None
