"""Answers as models of the schemas; a service that says more than this client knows is read all the same."""

from typing import TypeVar

import httpx2
from pydantic import BaseModel, ValidationError

from plumbline.client.failures import AnswerUnreadable, Refused, refused
from plumbline.client.retry_after import seconds_of
from plumbline.schemas.problem import Problem

M = TypeVar("M", bound=BaseModel)
_MOST_DETAIL_CHARACTERS = 200


def read_model(model: type[M], content: bytes | str) -> M:
    """The JSON as the model; fields that the model does not know are left out.

    Raises:
        AnswerUnreadable: it is not of this kind.
    """
    try:
        return model.model_validate_json(content, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = "".join(f"/{part}" for part in first["loc"])
        found = f"{place or '/'}: {first['msg']}"[:_MOST_DETAIL_CHARACTERS]
        raise AnswerUnreadable(f"the answer is no {model.__name__} of this service: {found}") from None


def failure_of(response: httpx2.Response) -> Refused:
    """The error of an answer that is no success; its body has been read."""
    retry_after = seconds_of(response.headers.get("retry-after"))
    try:
        problem = Problem.model_validate_json(response.content, extra="ignore")
    except ValidationError:
        problem = _foreign(response)
    return refused(problem.model_copy(update={"status": response.status_code}), retry_after=retry_after)


def _foreign(response: httpx2.Response) -> Problem:
    status = response.status_code
    return Problem(
        type="about:blank",
        title=httpx2.codes.get_reason_phrase(status) or "Unknown status",
        status=status,
        detail=_foreign_detail(response),
        instance=response.request.url.path,
        request_id=response.headers.get("x-request-id"),
    )


def _foreign_detail(response: httpx2.Response) -> str:
    if response.has_redirect_location:
        return "the answer leads to another address, and none is followed; give that one as base_url"
    return "the answer is not a problem of this service; something in between gave it"
