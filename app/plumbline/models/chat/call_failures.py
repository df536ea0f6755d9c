"""Failures of calls, with their consequences: retry or not, after which wait, and which breaker counts them."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Final

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.judge_settings import JudgeKind
from plumbline.ground.phrases import Phrases
from plumbline.ground.texts import CodedText
from plumbline.ground.waits import parse_wait
from plumbline.models.chat.endpoints import Endpoint

# Error codes and model names are shown to callers; what else a provider writes may hold their text or the key.
_SAFE_WORD: Final = re.compile(r"[A-Za-z0-9_.:/@\-]{1,128}")
_PHRASES: Final = Phrases("models/chat/refusals")
_FILTERED, _TOO_LONG, _UNPAID = (re.compile(_PHRASES.pattern(name)) for name in ("filtered", "too_long", "unpaid"))
# What an address serves that refuses chats.
_API_BY_WORD: Final[Mapping[JudgeKind, re.Pattern[str]]] = {
    "systemone": re.compile(_PHRASES.pattern("systemone")),
    "decisions": re.compile(_PHRASES.pattern("decisions")),
}
_STATUS_OF_WORD: Final = {
    word: int(status) for status, words in _PHRASES.read("statuses").items() for word in words.split()
}
_RETRIED: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})
# The last one is Anthropic's.
_BUSY: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE, 529})
_MISCONFIGURED: Final = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}
)
# Refusals that may be about an optional field of the request. Servers in Python say so under a 500, too.
_ABOUT_FIELDS: Final = frozenset({400, 406, 415, 422, 424, 500, 501})
_REASONS: Final[Mapping[int, FailureReason]] = {
    HTTPStatus.UNAUTHORIZED: FailureReason.AUTHENTICATION,
    HTTPStatus.PAYMENT_REQUIRED: FailureReason.RATE_LIMITED,
    HTTPStatus.FORBIDDEN: FailureReason.AUTHENTICATION,
    HTTPStatus.REQUEST_TIMEOUT: FailureReason.TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: FailureReason.TOO_LONG,
    HTTPStatus.TOO_MANY_REQUESTS: FailureReason.RATE_LIMITED,
}
_COMPLAINT_CHARACTERS: Final = 4_096
# They hold what the model wrote, or the request again.
_QUOTING_FIELDS: Final = ("failed_generation", "choices", "output", "completion", "input")
_CODE_NAMES: Final = ("code", "type", "status", "error_code", "status_code", "error_type", "reason")
_MOST_PROBLEMS: Final = 8
_ERROR_STATUSES: Final = range(400, 600)


class Blame(StrEnum):
    """Cause of a failure: not the endpoint, one kept connection, the network or server, or its configuration."""

    NOTHING = "nothing"
    KEPT_CONNECTION = "kept_connection"
    TRANSPORT = "transport"
    CONFIGURATION = "configuration"


# No `repr`, which would show the complaint.
@dataclass(eq=False, repr=False)
class CallFailure(TierFailure):
    """Failure of one call; `reason` and `detail` as of every `TierFailure`.

    Args:
        is_retryable: the same call may succeed later.
        blame: which breaker counts it.
        wait_seconds: the pause that the provider asks for; None if it names none.
        is_throttle: there were too many calls, or the provider rests: it asks for patience.
        is_free: the provider said no, and bills nothing.
        complaint: of a refusal that may be about a field, in lower case and shortened; never shown, and without the
            words of the model.
        is_server_fault: the refusal came as a fault of the server: it is about a field only if it names one.
    """

    reason: FailureReason
    detail: str
    _: KW_ONLY
    is_retryable: bool = False
    blame: Blame = Blame.NOTHING
    wait_seconds: float | None = None
    is_throttle: bool = False
    is_free: bool = False
    complaint: str = ""
    is_server_fault: bool = False

    def __post_init__(self) -> None:
        TierFailure.__init__(self, self.reason, self.detail, wait_seconds=self.wait_seconds)

    def name_host(self, host: str) -> None:
        """Put the host in front of a detail that does not name it."""
        if host not in self.detail:
            detail = CodedText("host_says", host=host, detail=self.detail)
            TierFailure.__init__(self, self.reason, detail, wait_seconds=self.wait_seconds)


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
    try:
        loaded: object = json.loads(body)
    except (ValueError, RecursionError):
        loaded = body.decode("utf-8", errors="replace")
    return _classify(status, loaded, headers, endpoint)


def embedded_failure(error: object, endpoint: Endpoint) -> CallFailure:
    """Classify an error in a reply with status 200 by the status that its code stands for; one of none may pass."""
    return _classify(HTTPStatus.OK, error, {}, endpoint)


def showable_word(word: object, endpoint: Endpoint) -> str | None:
    """Return a provider's word if callers may see it (short, plain, without our key), else None."""
    if not isinstance(word, str) or not _SAFE_WORD.fullmatch(word) or any(each in word for each in endpoint.secrets):
        return None
    return word


def named_apis(complaint: str) -> list[JudgeKind]:
    """Return the kinds of decision model that a refusal says its model is, the first named one first."""
    found = {kind: match.start() for kind, words in _API_BY_WORD.items() if (match := words.search(complaint))}
    return sorted(found, key=found.__getitem__)


def _classify(seen: int, body: object, headers: Mapping[str, str], endpoint: Endpoint) -> CallFailure:
    codes = list(_codes(body))
    complaint = _own_words(body)[:_COMPLAINT_CHARACTERS].lower() or "(nothing)"
    status, wait = _status_meant(seen, codes), parse_wait(headers, complaint)
    word = next((each for each in codes if each != str(status) and showable_word(each, endpoint)), None)
    detail = f"HTTP {status}" + (f" ({word})" if word else "") if status >= HTTPStatus.MULTIPLE_CHOICES else ""
    detail = detail or CodedText("error_under_200")
    is_throttle = status in _BUSY or (status >= HTTPStatus.INTERNAL_SERVER_ERROR and bool(wait))
    is_filter = status in (*_ABOUT_FIELDS, HTTPStatus.FORBIDDEN, HTTPStatus.OK, 451) and _FILTERED.search(complaint)
    if is_filter or any(_FILTERED.search(each.lower()) for each in codes):
        text = CodedText("call_filtered") if status == HTTPStatus.OK else detail
        return CallFailure(FailureReason.CONTENT_FILTERED, text, is_free=status != HTTPStatus.OK)
    if status not in (*_MISCONFIGURED, HTTPStatus.OK) and _TOO_LONG.search(complaint):
        return CallFailure(FailureReason.TOO_LONG, detail, is_free=True, complaint=complaint)
    if _is_unpaid(status, codes, complaint, endpoint) and not (is_throttle and wait):
        blame = Blame.CONFIGURATION
        return CallFailure(FailureReason.RATE_LIMITED, detail, blame=blame, is_free=True)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.OK:
        return CallFailure(
            FailureReason.UPSTREAM_ERROR,
            detail,
            is_retryable=True,
            blame=Blame.NOTHING if wait else Blame.TRANSPORT,
            wait_seconds=wait,
            is_throttle=is_throttle,
            is_free=True,
            complaint=complaint if status in _ABOUT_FIELDS else "",
            is_server_fault=True,
        )
    # A router of models says so when none of them takes the fields.
    is_about_fields = status in _ABOUT_FIELDS or (
        status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
        and ("parameter" in complaint or bool(named_apis(complaint)))
    )
    return CallFailure(
        _REASONS.get(status, FailureReason.REJECTED),
        detail,
        is_retryable=status in _RETRIED,
        blame=Blame.CONFIGURATION if status in _MISCONFIGURED and not is_about_fields else Blame.NOTHING,
        wait_seconds=wait,
        is_throttle=is_throttle,
        is_free=True,
        complaint=complaint if is_about_fields else "",
    )


def _status_meant(status: int, codes: list[str]) -> int:
    """Return the status that the codes stand for, where the response's own says less."""
    if status not in (HTTPStatus.OK, HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY):
        return status
    for code in codes:
        if meant := _STATUS_OF_WORD.get(code.lower()):
            return meant
        if status == HTTPStatus.OK and code.isascii() and code.isdigit() and int(code[:4]) in _ERROR_STATUSES:
            return int(code)
    return status


def _is_unpaid(status: int, codes: list[str], complaint: str, endpoint: Endpoint) -> bool:
    """Return True if the account has no credit left. A refused request may quote a caller's words: codes tell there."""
    is_quoting = status in _ABOUT_FIELDS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    found = _UNPAID.search(" ".join(codes).lower() if is_quoting else complaint)
    return found is not None and not (found[0] == "insufficient_quota" and endpoint.provider.quota_is_throttle)


def _own_words(body: object) -> str:
    """Return a problem as text, without what the model wrote (Groq sends it back) and without the request."""

    def strip(value: object) -> object:
        if isinstance(value, dict):
            return {name: strip(each) for name, each in value.items() if name not in _QUOTING_FIELDS}
        return [strip(each) for each in value] if isinstance(value, list) else value

    return body if isinstance(body, str) else json.dumps(strip(body), ensure_ascii=False)


def _codes(body: object, depth: int = 4) -> Iterator[str]:
    """Yield the codes and kinds of a problem: of `error` first, then of what else is in the body."""
    if isinstance(body, list) and depth:
        for each in body[:_MOST_PROBLEMS]:
            yield from _codes(each, depth - 1)
    if not isinstance(body, dict) or not depth:
        return
    yield from _codes(body.get("error"), depth - 1)
    yield from (str(body[name]) for name in _CODE_NAMES if isinstance(body.get(name), str | int) and body[name])
    for name, each in body.items():
        if name != "error":
            yield from _codes(each, depth - 1)
