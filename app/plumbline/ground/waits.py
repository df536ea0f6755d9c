"""Waits that a service asks for, in headers and in the words of its refusal."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from time import time
from typing import Final

_NAMES: Final = {"retry-after-ms": 0.001, "x-ms-retry-after-ms": 0.001, "retry-after": 1.0}
_UNITS: Final = {"ms": 0.001, "h": 3_600.0, "小": 3_600.0, "m": 60.0, "分": 60.0, "s": 1.0, "秒": 1.0}
_PART: Final = re.compile(
    r"(\d+(?:\.\d+)?)\s?(milliseconds?|ms|毫秒|hours?|h|小时|minutes?|mins?|m|分钟|seconds?|secs?|s|秒)(?![a-z])"
)
# "try again in 6m0s", "retry after 45 seconds", "retryDelay": "8s", "请在 10 秒后重试": a time with its unit.
_BEFORE: Final = re.compile(r"(?:again|retry|retries|wait|reset|请在|等待|稍候)[^\d.。;；]{0,40}?(?=\d)")
_AFTER: Final = re.compile(r"(?=\d+(?:\.\d+)?\s?(?:秒|分钟|小时)(?:钟)?(?:之?后|再))")
# "retry_after": 20, retry-after-ms: 500: a number whose unit is in its name.
_FIELD: Final = re.compile(
    r"retry[ _-]?after(?P<ms>[ _-]?ms)?(?:[ _-]?sec(?:ond)?s)?[\\\"':= ]{1,5}(?P<number>\d+(?:\.\d+)?)"
)
# A number beyond is a time since 1970, in seconds or milliseconds.
_EPOCH: Final = 1e9
_EPOCH_MS: Final = 1e12


def parse_wait(headers: Mapping[str, str], text: str = "") -> float | None:
    """Return the seconds that a refusal asks for, None without a future time.

    By `retry-after-ms` or `retry-after` (seconds or a date), else the words of the body (in lower case), else
    `x-ratelimit-reset-*`: of what is used up, or the earliest.
    """
    named = (_positive(_parse_time(headers.get(name, ""), scale)) for name, scale in _NAMES.items())
    found = next((seconds for seconds in named if seconds), None)
    return found or _positive(_parse_words(text)) or _parse_resets(headers)


def _parse_words(text: str) -> float:
    for pattern in (_BEFORE, _AFTER):
        for found in pattern.finditer(text):
            if seconds := sum(_read_parts(text, found.end())):
                return seconds
    field = _FIELD.search(text)
    return float(field["number"]) * (0.001 if field["ms"] else 1.0) if field else 0.0


def _read_parts(text: str, start: int) -> Iterator[float]:
    while part := _PART.match(text, start):
        unit = part[2]
        name = "ms" if unit.startswith(("ms", "mill", "毫")) else unit[0]
        yield float(part[1]) * _UNITS[name]
        start = part.end()


def _parse_resets(headers: Mapping[str, str]) -> float | None:
    resets = {name: headers[name] for name in headers if "ratelimit" in name.lower() and "reset" in name.lower()}
    seconds = {name: _positive(_parse_time(value)) for name, value in resets.items()}
    known = {name: wait for name, wait in seconds.items() if wait}
    spent = [wait for name, wait in known.items() if headers.get(name.lower().replace("reset", "remaining")) == "0"]
    return max(spent) if spent else min(known.values(), default=None)


def _parse_time(value: str, scale: float = 1.0) -> float:
    text = value.strip().lower()
    try:
        number = float(text) * scale
    except ValueError:
        return sum(_read_parts(text, 0)) or (_seconds_until(value.strip()) if scale == 1.0 else 0.0)
    if number > _EPOCH:
        return number / (1_000 if number > _EPOCH_MS else 1) - time()
    return number


def _seconds_until(date: str) -> float:
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            return parse(date).timestamp() - time()
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return 0.0


def _positive(seconds: float) -> float | None:
    return seconds if isfinite(seconds) and seconds > 0 else None
