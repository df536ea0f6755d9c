"""Which of several forms of an answer the `Accept` header asks for (RFC 9110, section 12.5.1)."""

import re
from collections.abc import Sequence

_WEIGHT = re.compile(r"q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.IGNORECASE)
_MAX_RANGES = 50


def preferred(accept_headers: Sequence[str], media_types: Sequence[str]) -> list[str]:
    """Those of the media types that the caller takes, the one asked for most first; without a header all, as given.

    Of equal weight, a type that is named comes before one that only a wildcard covers.
    """
    ranges = [_range(part) for part in ",".join(accept_headers).split(",")[:_MAX_RANGES] if part.strip()]
    if not ranges:
        return list(media_types)
    ranked = [(_weight(media_type, ranges), media_type) for media_type in media_types]
    taken = [each for each in ranked if each[0][0] > 0]
    return [media_type for _, media_type in sorted(taken, key=lambda each: each[0], reverse=True)]


def _range(part: str) -> tuple[str, float]:
    media_range, *parameters = (each.strip().lower() for each in part.split(";"))
    weights = [found[1] for each in parameters if (found := _WEIGHT.fullmatch(each))]
    return media_range, float(weights[0]) if weights else 1.0


def _weight(media_type: str, ranges: Sequence[tuple[str, float]]) -> tuple[float, bool]:
    """The weight of the narrowest range that covers the type, and whether that names it."""
    for media_range in (media_type, f"{media_type.partition('/')[0]}/*", "*/*"):
        weights = [weight for each, weight in ranges if each == media_range]
        if weights:
            return max(weights), media_range == media_type
    return 0.0, False
