"""Failures of calls, with their consequences: retry or not, after which wait, and which breaker counts them."""

import json
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from enum import StrEnum
from http import HTTPStatus
from math import isfinite
from time import time

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.texts import CodedText
from plumbline.models.chat.endpoints import Endpoint

# Error codes and model names are shown to callers; what else a provider writes may hold their text or the key.
_SAFE_WORD = re.compile(r"[A-Za-z0-9_.:/@\-]{1,128}")
_FILTER_CODES = ("data_inspection_failed", "datainspectionfailed", "content_filter", "content_policy_violation")
# A gateway passes on the code of the provider behind it, or nothing but its message: DashScope's, Azure's.
_FILTER_WORDS = (
    *_FILTER_CODES, "contentpolicyviolation", "input was flagged", "flagged_input", "responsibleaipolicyviolation",
    "may contain inappropriate content", "content management policy",
)  # fmt: skip
_TOO_LONG_WORDS = (
    "context_length_exceeded", "maximum context length", "exceed_context_size", "range of input length",
    "context window", "input is too long", "prompt is too long",
)  # fmt: skip
_UNPAID_CODES = ("arrearage", "insufficient_quota", "billing_not_active", "billing_hard_limit_reached")
_STATUS_OF_WORD = {"rate_limit_exceeded": 429, "limit_requests": 429, "server_error": 500, "invalid_api_key": 401}
_RETRIED = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})
_MISCONFIGURED = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}
)
_REASONS: Mapping[int, FailureReason] = {
    HTTPStatus.UNAUTHORIZED: FailureReason.AUTHENTICATION,
    HTTPStatus.FORBIDDEN: FailureReason.AUTHENTICATION,
    HTTPStatus.REQUEST_TIMEOUT: FailureReason.TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: FailureReason.TOO_LONG,
    HTTPStatus.TOO_MANY_REQUESTS: FailureReason.RATE_LIMITED,
}
_COMPLAINT_CHARACTERS = 4_096
_MODEL_FIELDS = ("failed_generation", "choices", "output", "completion")


class Blame(StrEnum):
    """Cause of a failure: not the endpoint, one kept connection, the network or server, or its configuration."""

    NOTHING = "nothing"
    KEPT_CONNECTION = "kept_connection"
    TRANSPORT = "transport"
    CONFIGURATION = "configuration"


class CallFailure(TierFailure):
    """Failure of one call; `reason` and `detail` as of every `TierFailure`.

    Args:
        is_retryable: the same call may succeed later.
        blame: which breaker counts it.
        wait_seconds: the pause that the provider asks for; None if it names none.
        is_throttle: there were too many calls at once.
        is_free: the provider said no, and bills nothing.
        complaint: of a refused request (400, 422, or 500 for the form of the reply), in lower case and shortened; never
            shown, and without the model's words.
    """

    def __init__(
        self,
        reason: FailureReason,
        detail: str,
        *,
        is_retryable: bool = False,
        blame: Blame = Blame.NOTHING,
        wait_seconds: float | None = None,
        is_throttle: bool = False,
        is_free: bool = False,
        complaint: str = "",
    ) -> None:
        super().__init__(reason, detail)
        self.is_retryable = is_retryable
        self.blame = blame
        self.wait_seconds = wait_seconds
        self.is_throttle = is_throttle
        self.is_free = is_free
        self.complaint = complaint

    def name_host(self, host: str) -> None:
        """Put the host in front of a detail that does not name it."""
        if host not in self.detail:
            TierFailure.__init__(self, self.reason, CodedText("host_says", host=host, detail=self.detail))


def foreign_reply(*, is_fresh: bool) -> CallFailure:
    """Build the failure of a call that was answered with the reply to another one.

    On a kept connection it is a leftover, which says nothing of the server: several come at once, before the replies of
    other calls. On a fresh connection (`is_fresh`) the server or a gateway mixes up replies.
    """
    return CallFailure(
        FailureReason.FOREIGN_REPLY,
        CodedText("reply_foreign"),
        is_retryable=True,
        blame=Blame.TRANSPORT if is_fresh else Blame.KEPT_CONNECTION,
    )


def status_failure(status: int, headers: Mapping[str, str], body: bytes, endpoint: Endpoint) -> CallFailure:
    """Classify an error status."""
    try:
        loaded: object = json.loads(body)
    except (ValueError, RecursionError):
        loaded = None
    text = json.dumps(_own_words(loaded)) if loaded is not None else body.decode("utf-8", errors="replace")
    return _classify(status, _code_of(loaded), text[:_COMPLAINT_CHARACTERS], headers, endpoint)


def embedded_failure(error: object, endpoint: Endpoint) -> CallFailure:
    """Classify an `error` field inside a reply with status 200, by the status that its code stands for."""
    code = _code_of({"error": error})
    text = json.dumps(error)[:_COMPLAINT_CHARACTERS]
    status = _status_in(code)
    if status is None:
        if _is_filter(code, text.lower()):
            return CallFailure(FailureReason.CONTENT_FILTERED, CodedText("call_filtered"))
        return CallFailure(FailureReason.INVALID_REPLY, CodedText("error_under_200"))
    return _classify(status, code, text, {}, endpoint)


def showable_word(word: object, endpoint: Endpoint) -> str | None:
    """Return a provider's word if callers may see it (short, plain, without our key), else None."""
    if not isinstance(word, str) or not _SAFE_WORD.fullmatch(word) or any(each in word for each in endpoint.secrets):
        return None
    return word


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of `retry-after-ms` or `retry-after` (seconds or a date); None without a future time."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) * scale
        except ValueError:
            seconds = _seconds_until(value) if scale == 1.0 else 0.0
        if isfinite(seconds) and seconds > 0:
            return seconds
    return None


def _seconds_until(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - time()
    except (ValueError, TypeError, OverflowError, IndexError):
        return 0.0


def _classify(status: int, code: str | None, text: str, headers: Mapping[str, str], endpoint: Endpoint) -> CallFailure:
    word, complaint = showable_word(code, endpoint), text.lower()
    detail = f"HTTP {status}" + (f" ({word})" if word and word != str(status) else "")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return CallFailure(
            FailureReason.UPSTREAM_ERROR,
            detail,
            is_retryable=True,
            blame=Blame.TRANSPORT,
            wait_seconds=parse_retry_after(headers),
            is_throttle=status == HTTPStatus.SERVICE_UNAVAILABLE,
            is_free=True,
            # llama-cpp-python answers a schema with 500
            complaint=complaint if "response_format" in complaint else "",
        )
    if _is_filter(code, complaint):
        return CallFailure(FailureReason.CONTENT_FILTERED, detail, is_free=True)
    is_refusal = status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
    if is_refusal and contains_any(complaint, _TOO_LONG_WORDS):
        return CallFailure(FailureReason.TOO_LONG, detail, is_free=True, complaint=complaint)
    is_unpaid = _is_unpaid(code, endpoint)
    return CallFailure(
        _REASONS.get(status, FailureReason.REJECTED),
        detail,
        is_retryable=status in _RETRIED and not is_unpaid,
        blame=Blame.CONFIGURATION if status in _MISCONFIGURED or is_unpaid else Blame.NOTHING,
        wait_seconds=parse_retry_after(headers),
        is_throttle=status == HTTPStatus.TOO_MANY_REQUESTS and not is_unpaid,
        is_free=True,
        complaint=complaint if is_refusal else "",
    )


def _is_unpaid(code: str | None, endpoint: Endpoint) -> bool:
    """Return True if the account has no credit left, which no retry changes."""
    word = (code or "").lower()
    return word in _UNPAID_CODES and not (word == "insufficient_quota" and endpoint.provider.quota_is_throttle)


def _own_words(error: object) -> object:
    """Return a problem without what the model wrote: Groq sends it back as `failed_generation`."""
    if not isinstance(error, dict):
        return error
    return {name: _own_words(value) for name, value in error.items() if name not in _MODEL_FIELDS}


def _code_of(body: object) -> str | None:
    """Return the code of `{"error": {"code": …}}`, or of the bare `{"code": …}` that some servers write."""
    if not isinstance(body, dict):
        return None
    error = body.get("error", body)
    if not isinstance(error, dict):
        return None
    code = error.get("code") or error.get("type")
    return str(code) if isinstance(code, str | int) else None


def _status_in(code: str | None) -> int | None:
    if code is None:
        return None
    if code in _STATUS_OF_WORD:
        return _STATUS_OF_WORD[code]
    is_status = code.isascii() and code.isdigit() and len(code) == len("500")
    return int(code) if is_status and int(code) >= HTTPStatus.BAD_REQUEST else None


def _is_filter(code: str | None, complaint: str) -> bool:
    return (code or "").lower() in _FILTER_CODES or contains_any(complaint, _FILTER_WORDS)


def contains_any(text: str, words: tuple[str, ...]) -> bool:
    """Return True if the text contains one of the words."""
    return any(word in text for word in words)
