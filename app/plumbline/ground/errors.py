"""Every failure Plumbline declares. Knows nothing of HTTP: the API maps each class to a status."""

from enum import StrEnum
from typing import Final

from plumbline.ground.texts import CodedText


class PlumblineError(Exception):
    """Root of the tree; `text` is one line for the caller and holds no secret and no passage of theirs."""

    @property
    def text(self) -> str:
        """Return what `str(error)` says; of ours it keeps its code and fields."""
        return self.args[0] if self.args and isinstance(self.args[0], str) else str(self)


class ConfigurationError(PlumblineError):
    """A setting is wrong; the message names it and says what would be right."""


class CalibrationError(PlumblineError):
    """A calibration file is missing or malformed."""


class BadRequest(PlumblineError):
    """The caller sent something that cannot be read."""


class MalformedBody(BadRequest):
    """The body is not JSON, or JSON that no field can take."""


class UnsupportedBody(BadRequest):
    """The body has a content type or a content encoding that is not read here."""


class ClientOutdated(BadRequest):
    """The caller is a client of a version that cannot read the results of this one."""


class InvalidInput(BadRequest):
    """Judgments, runs, measures, labels or data files that cannot be read or evaluated.

    Args:
        detail: seen and expected; quotes ids and numbers shortened, never a passage.
        place: where: `run.txt:14` for a line of a file, `/runs/0/results/q1` for a place in a body, or empty.
    """

    def __init__(self, detail: str, *, place: str = "") -> None:
        super().__init__(CodedText("at_place", place=place, detail=detail) if place else detail)
        self.detail = detail
        self.place = place


class FileTooLarge(InvalidInput):
    """A file, or what it expands to, has more bytes than the limit."""


class BodyTooLarge(BadRequest):
    """The body has more bytes than the limit."""


class BodyTooSlow(BadRequest):
    """The body did not arrive in time."""


class JobRefused(PlumblineError):
    """A request about a job that cannot be fulfilled."""


class JobUnknown(JobRefused):
    """There is no such job, or it is another caller's."""


class JobStateConflict(JobRefused):
    """The job's state does not allow it."""


class IdempotencyConflict(JobRefused):
    """The idempotency key was used with another request before."""


class StoreUnavailable(PlumblineError):
    """The store of jobs cannot be read or written now; nothing was changed, and trying again later is right."""


class BatchApiError(PlumblineError):
    """A provider's Batch API refused a call or could not be reached; `is_unsure`: it may have carried out the call."""

    def __init__(self, detail: str, *, is_unsure: bool = False) -> None:
        super().__init__(detail)
        self.is_unsure = is_unsure


class TooBusy(PlumblineError):
    """As many as are served at once are in flight; retry later. `retry_after_seconds` is None if unknown."""

    def __init__(self, detail: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class Ending(PlumblineError):
    """The service ends and had no time left to answer; trying again later, or elsewhere, is right."""


class AccessDenied(PlumblineError):
    """The caller may not use this."""


class KeyMissing(AccessDenied):
    """A key is needed and none was sent."""


class KeyUnknown(AccessDenied):
    """The key that was sent is not one of ours."""


class KeyExpired(AccessDenied):
    """The key that was sent has expired; a wrong key never gets this answer."""


class ScopeMissing(AccessDenied):
    """The key is known, and not for this."""


class Locked(AccessDenied):
    """No key is configured, and the service is reached from beyond loopback."""


class ConcurrencyExceeded(PlumblineError):
    """More requests in flight than the key may have; `retry_after_seconds` is 1 or more."""

    def __init__(self, detail: str, *, retry_after_seconds: int) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class FailureReason(StrEnum):
    """Reasons of a tier that did not answer: a closed set, so that it can be counted."""

    NOT_CONFIGURED = "not_configured"
    NOT_INSTALLED = "not_installed"
    NO_MEMORY = "no_memory"
    MODEL_LOADING = "model_loading"
    DETECTOR_PROBE_FAILED = "detector_probe_failed"
    NOT_ASKED = "not_asked"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    RATE_LIMITED = "rate_limited"
    CIRCUIT_OPEN = "circuit_open"
    OVER_BUDGET = "over_budget"
    AUTHENTICATION = "authentication"
    REJECTED = "rejected"
    UPSTREAM_ERROR = "upstream_error"
    CONTENT_FILTERED = "content_filtered"
    REFUSED = "refused"
    EMPTY_REPLY = "empty_reply"
    TRUNCATED_REPLY = "truncated_reply"
    INVALID_REPLY = "invalid_reply"
    FOREIGN_REPLY = "foreign_reply"
    CONTROLS_FAILED = "controls_failed"
    UNSUPPORTED_LANGUAGE = "unsupported_language"
    CROSS_LINGUAL = "cross_lingual"
    TOO_LONG = "too_long"


# Of a provider, a limit or a moment: the same sample may be judged the next time.
PASSING_REASONS: Final = frozenset(
    {
        *(FailureReason.NOT_ASKED, FailureReason.TIMEOUT, FailureReason.CONNECTION, FailureReason.RATE_LIMITED),
        *(FailureReason.CIRCUIT_OPEN, FailureReason.OVER_BUDGET, FailureReason.AUTHENTICATION),
        *(FailureReason.UPSTREAM_ERROR, FailureReason.EMPTY_REPLY, FailureReason.TRUNCATED_REPLY),
        *(FailureReason.INVALID_REPLY, FailureReason.FOREIGN_REPLY),
    }
)


class TierFailure(PlumblineError):
    """A tier could not answer; expected, and reported with `detail`, which holds no secret and no text of a caller.

    `wait_seconds`: pause that a provider asks for; a sample that can wait begins again after it.
    """

    def __init__(self, reason: FailureReason, detail: str, *, wait_seconds: float | None = None) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.wait_seconds = wait_seconds


_LONGEST_QUOTE: Final = 40


def quoted(value: bytes | str) -> str:
    """Quote a value for an error: on one line, shortened to 40 characters."""
    text = value[: 4 * _LONGEST_QUOTE].decode("utf-8", "replace") if isinstance(value, bytes) else value
    return repr(text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…")
