"""HTTP client of one server, with retries; every failure is one line without credentials or user texts.

Neither vendor's client is used: that of Elasticsearch 9 refuses OpenSearch, by a header of the answer, and
Elasticsearch 8, by the media type it asks for; that of OpenSearch would be a second one. The seven calls made here are
the same on both servers, and the HTTP client is the one the service already has.
"""

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

import httpx2
import msgspec

from plumbline.client.connection import CONNECT_SECONDS
from plumbline.client.failures import AnswerCut, Busy, ClientError, NotReached, TimedOut, failure_of
from plumbline.client.retries import Retries, RetryState
from plumbline.extras.lab.retrievers.elastic_settings import Flavour, ServerFacts, ServerSettings
from plumbline.ground.errors import InvalidInput

NDJSON: Final = "application/x-ndjson"
_JSON: Final = "application/json"
_RETRIES: Final = Retries(attempts=8)
_MOST_REASON_CHARACTERS: Final = 300
# A server's reason that repeats so many characters of what was sent would show a text of the user's.
_TELLING_CHARACTERS: Final = 16


class Server:
    """Client of one server, one request at a time. Redirects are not followed: credentials go to this address alone.

    `retries`: of 429, 502, 503, 504 and cut connections. `sleep`: in place of the clock.

    Raises:
        InvalidInput: a credential's variable is not set, or the authority's file cannot be read.
    """

    def __init__(
        self, settings: ServerSettings, *, retries: Retries | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._url = settings.url
        self._flavour = settings.flavour
        self._timeout = settings.timeout_seconds
        self._retries = retries or _RETRIES
        self._sleep = sleep
        credentials = settings.credentials()
        self._secrets = settings.secrets()
        verify: ssl.SSLContext | bool = True
        if settings.ca_certs:
            try:
                verify = ssl.create_default_context(cafile=settings.ca_certs)
            except (OSError, ssl.SSLError) as error:
                raise InvalidInput(f"ca_certs: {error.strerror or 'not a PEM file of certificates'}") from None
        self._client = httpx2.Client(
            base_url=settings.url,
            headers={"accept": _JSON} | ({"authorization": credentials} if credentials else {}),
            timeout=httpx2.Timeout(settings.timeout_seconds, connect=min(settings.timeout_seconds, CONNECT_SECONDS)),
            verify=verify,
            follow_redirects=False,
        )

    def facts(self) -> ServerFacts:
        """Return flavour and version of the server; asked first, so that a missing server fails at once.

        Raises:
            InvalidInput: it cannot be reached, is another than the settings say, or is none of the two.
        """
        response = self._send("GET", "/", RetryState(Retries(attempts=1)))
        if response.status_code == HTTPStatus.FORBIDDEN and self._flavour:
            return ServerFacts(self._flavour, ())
        if not response.is_success:
            raise self._refusal(response, "")
        version = self._read(response).get("version")
        if not isinstance(version, dict) or not isinstance(version.get("number"), str):
            raise InvalidInput("what answers is neither Elasticsearch nor OpenSearch", place=self._url)
        flavour: Flavour = "opensearch" if version.get("distribution") == "opensearch" else "elasticsearch"
        if self._flavour not in (None, flavour):
            raise InvalidInput(f"this is {flavour}; flavour says {self._flavour}", place=self._url)
        numbers = version["number"].partition("-")[0].split(".")
        return ServerFacts(flavour, tuple(int(number) for number in numbers if number.isdecimal()))

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, str] | None = None,
        lines: bytes | None = None,
        is_optional: bool = False,
        text: str | None = "",
    ) -> dict[str, Any]:
        """Send a request and return the answer's object; empty if `is_optional` and not found.

        Args:
            body: sent as JSON, unless it is None.
            lines: sent in its place, as NDJSON.
            text: the user's text in the body, which no message repeats; None: most of the body.

        Raises:
            InvalidInput: the server refused, answered something else, or is gone.
        """
        content = lines if lines is not None else None if body is None else msgspec.json.encode(body)
        kind = {} if content is None else {"content-type": NDJSON if lines is not None else _JSON}
        response = self._send(method, path, self.patience(), content=content, headers=kind, params=params)
        if is_optional and response.status_code == HTTPStatus.NOT_FOUND:
            return {}
        if not response.is_success:
            raise self._refusal(response, text)
        return self._read(response)

    def patience(self) -> RetryState:
        """Return a fresh retry budget, for one request or one batch."""
        return RetryState(self._retries)

    def wait(self, patience: RetryState, failure: ClientError) -> None:
        """Wait before the next attempt; raise the failure if the retry budget is spent."""
        self._sleep(patience.wait_after(failure))

    def reason(self, error: object, text: str | None) -> str:
        """Return a server's error on one line, without credentials and without the user's text."""
        kind, reason = _innermost(error)
        runs = (reason[at : at + _TELLING_CHARACTERS] for at in range(len(reason) - _TELLING_CHARACTERS + 1))
        lines = (line.strip() for line in (text or "").splitlines())
        if text is None or any(line and line in reason for line in lines) or any(run in text for run in runs):
            reason = ""
        for secret in self._secrets:
            kind, reason = kind.replace(secret, "***"), reason.replace(secret, "***")
        said = " ".join(f"{kind}: {reason}".split()) if reason else kind
        return said[:_MOST_REASON_CHARACTERS]

    def close(self) -> None:
        self._client.close()

    def _send(self, method: str, path: str, patience: RetryState, **given: Any) -> httpx2.Response:
        while True:
            response = None
            try:
                with _mapped_errors():
                    response = self._client.request(method, path, **given)
                if response.is_success:
                    return response
                failure: ClientError = failure_of(
                    response.status_code, response.headers, response.content, response.request.url.path
                )
            except TimedOut as error:
                raise InvalidInput(f"{error}; timeout_seconds is {self._timeout:g}", place=self._url) from None
            except ClientError as error:
                failure = error
            try:
                if not isinstance(failure, Busy | AnswerCut):
                    raise failure
                self.wait(patience, failure)
            except ClientError:
                if response is None:
                    raise InvalidInput(str(failure), place=self._url) from None
                return response

    def _refusal(self, response: httpx2.Response, text: str | None) -> InvalidInput:
        status = response.status_code
        asked = f"{response.request.method} {response.request.url.path}"
        if status == HTTPStatus.UNAUTHORIZED:
            detail = "401: the credentials are missing or wrong (api_key_env or username_env)"
            return InvalidInput(detail, place=self._url)
        if status == HTTPStatus.FORBIDDEN:
            return InvalidInput(f"403: the credentials do not allow {asked}", place=self._url)
        if response.has_redirect_location:
            return InvalidInput(f"{status}: leads to another address, which is not followed", place=self._url)
        try:
            said = self.reason(self._read(response).get("error"), text)
        except InvalidInput:
            said = "no reason given"
        return InvalidInput(f"{status} to {asked}: {said}", place=self._url)

    def _read(self, response: httpx2.Response) -> dict[str, Any]:
        try:
            return msgspec.json.decode(response.content, type=dict[str, Any])
        except msgspec.MsgspecError:
            raise InvalidInput("the answer is not JSON of Elasticsearch or OpenSearch", place=self._url) from None


def _innermost(error: object) -> tuple[str, str]:
    """Return type and reason of the innermost cause that a server gives."""
    if not isinstance(error, dict):
        return "error", error if isinstance(error, str) else "no reason given"
    causes = error.get("root_cause")
    inner = error.get("caused_by") or (causes[0] if isinstance(causes, list) and causes else None)
    if isinstance(inner, dict) and inner.get("reason") and inner != error:
        return _innermost(inner)
    return str(error.get("type") or "error"), str(error.get("reason") or "")


@contextmanager
def _mapped_errors() -> Iterator[None]:
    try:
        yield
    except httpx2.HTTPError as error:
        where = error.request.url.netloc.decode()
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
            raise NotReached(f"{where} cannot be reached: {error}") from error
        if isinstance(error, httpx2.TimeoutException):
            raise TimedOut(f"{where} did not answer in time ({type(error).__name__})") from error
        reason = str(error) or type(error).__name__
        raise AnswerCut(f"the connection to {where} ended before the answer did: {reason}") from error
