"""The errors of the client, how a response becomes one, and which are retried, after how long a wait."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import responses
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from plumbline.ground.errors import PlumblineError
from plumbline.ground.version import VERSION
from plumbline.ground.waits import parse_wait
from plumbline.schemas.jobs import JobInfo
from plumbline.schemas.problem import INTERNAL, FieldProblem, Problem, RowProblem

M = TypeVar("M", bound=BaseModel)
_MOST_DETAIL_CHARACTERS: Final = 200


class ClientError(PlumblineError):
    """A request failed."""


class NotReached(ClientError):
    """There is no connection to the service: it does not run, or the address is another's."""


class TimedOut(ClientError):
    """Nothing came before the timeout."""


class AnswerCut(ClientError):
    """The connection ended before the answer did."""


class AnswerUnreadable(ClientError):
    """The answer is not one of this service, or of another version of it."""


class ClientClosed(ClientError):
    """The client was closed."""


class JobNotEnded(ClientError):
    """A job has not ended in the time given; `info` is its last known state."""

    def __init__(self, message: str, info: JobInfo) -> None:
        super().__init__(message)
        self.info = info


class Refused(ClientError):
    """The service answered with a problem (RFC 9457).

    Attributes:
        status: of HTTP.
        type, title, detail, errors, request_id: of the problem; `type` is `about:blank` if a proxy answered.
        retry_after: seconds that it asks to wait, more than 0; None if it does not.
    """

    def __init__(self, problem: Problem, *, retry_after: float | None = None) -> None:
        places = "; ".join(f"{each.pointer or '/'}: {each.detail}" for each in problem.errors)
        asked = f" (request {problem.request_id})" if problem.request_id else ""
        within = f" [{places}]" if places else ""
        super().__init__(f"{problem.status} {problem.title}: {problem.detail}{within}{asked}")
        self.status = problem.status
        self.type = problem.type
        self.title = problem.title
        self.detail = problem.detail
        self.errors: list[FieldProblem] = problem.errors
        self.request_id = problem.request_id
        self.retry_after = retry_after

    @property
    def is_ours(self) -> bool:
        """True if the service itself answered, not a proxy in front of it."""
        return self.type.startswith("urn:plumbline:")

    @property
    def row_problem(self) -> RowProblem:
        """The same as the problem of a row."""
        return RowProblem(type=self.type, title=self.title, status=self.status, detail=self.detail, errors=self.errors)


class RequestRefused(Refused):
    """The request is wrong; a retry does not help."""


class AccessRefused(RequestRefused):
    """A key is missing, not known, or not enough."""


class NotThere(RequestRefused):
    """There is no such job or path."""


class NotNow(RequestRefused):
    """The state of the job does not allow it."""


class Busy(Refused):
    """The service cannot answer now; later it may."""


class ServiceFailed(Refused):
    """Something failed on the service's side; quote `request_id` to ask about it."""


_BUSY: Final = frozenset({408, 429, 502, 503, 504})
_REFUSED: Final[dict[int, type[Refused]]] = {401: AccessRefused, 403: AccessRefused, 404: NotThere, 409: NotNow}


def failure_of(status: int, headers: Mapping[str, str], body: bytes, path: str) -> Refused:
    """Return the error of a response that is no success."""
    retry_after = parse_wait(headers)
    try:
        problem = parse_model(Problem, body).model_copy(update={"status": status})
    except AnswerUnreadable:
        is_redirect = status in range(300, 400) and "location" in headers
        problem = Problem(
            type="about:blank",
            title=responses.get(status, "Unknown status"),
            status=status,
            detail="the answer leads to another address, and none is followed; give that one as base_url"
            if is_redirect
            else "the answer is not a problem of this service; something in between gave it",
            instance=path,
            request_id=headers.get("x-request-id"),
        )
    if status in _BUSY:
        return Busy(problem, retry_after=retry_after)
    if status >= INTERNAL.status:
        return ServiceFailed(problem)
    return _REFUSED.get(status, RequestRefused)(problem)


def parse_model(model: type[M], content: bytes | str) -> M:
    """Parse the JSON of a response, or raise AnswerUnreadable; fields that a newer service adds are left out."""
    try:
        return model.model_validate_json(content, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
    where = "".join(f"/{part}" for part in first["loc"])
    detail = f"{where or '/'}: {first['msg']}"[:_MOST_DETAIL_CHARACTERS]
    raise AnswerUnreadable(f"the answer is no {model.__name__} of this service: {detail}")


def check_shape(result: bytes) -> None:
    """Raise AnswerUnreadable if a result has the shape of version 0.2 or an older one."""
    if b'"trace":' not in result and b'"sentences":' in result:
        raise AnswerUnreadable(
            f"the service is Plumbline 0.2 or older, and this client {VERSION} cannot read its results: upgrade the "
            "service (pip install --upgrade plumbline-rag), or pip install 'plumbline-rag<0.3' here"
        )


_PASSING = (NotReached, TimedOut, AnswerCut, Busy)


@dataclass(frozen=True, slots=True)
class Retries:
    """Retries of temporary failures: no connection, a cut answer, a timeout, and 408, 429, 502, 503, 504.

    Args:
        attempts: of one request at most, the first one counted; for many samples since the last one that was answered.
        backoff_seconds: longest wait before the second attempt; it doubles for each further one.
        longest_backoff_seconds: where the doubling ends.
        longest_retry_after_seconds: bound on a Retry-After that is waited for.
        total_wait_seconds: all waits of one request together. After a longer Retry-After there is no retry: a key that
            has spent its budget of the day has none for hours.
        jitter: draws a wait between 0 and its argument.
    """

    attempts: int = 5
    backoff_seconds: float = 0.5
    longest_backoff_seconds: float = 20.0
    longest_retry_after_seconds: float = 60.0
    total_wait_seconds: float = 180.0
    jitter: Callable[[float], float] = field(default=lambda longest: random.uniform(0.0, longest))  # noqa: S311


class RetryState:
    """The attempts and waits of one request so far."""

    def __init__(self, retries: Retries) -> None:
        self._retries = retries
        self._failures = 0
        self._waited = 0.0

    def renew(self) -> None:
        """Count from the start again: some of the work was done."""
        self._failures, self._waited = 0, 0.0

    def wait_after(self, failure: ClientError) -> float:
        """Return seconds to wait before the next attempt; raise the failure if it is not retried."""
        self._failures += 1
        if not isinstance(failure, _PASSING) or self._failures >= self._retries.attempts:
            raise failure
        asked = failure.retry_after or 0.0 if isinstance(failure, Busy) else 0.0
        within = min(asked, self._retries.longest_retry_after_seconds)
        backoff = self._retries.backoff_seconds * 2.0 ** (self._failures - 1)
        wait = within + self._retries.jitter(min(self._retries.longest_backoff_seconds, backoff))
        if self._waited + max(asked, wait) > self._retries.total_wait_seconds:
            raise failure
        self._waited += wait
        return wait
