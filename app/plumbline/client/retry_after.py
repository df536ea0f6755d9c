"""The header Retry-After (RFC 9110, section 10.2.3)."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")


def seconds_of(header: str | None, *, now: datetime | None = None) -> float | None:
    """Seconds from now, 0 or more; None where the header is missing or says neither seconds nor a date."""
    if header is None:
        return None
    if _SECONDS.fullmatch(header.strip()):
        return float(header)
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return None
    # a date without a zone is in UTC, and datetime would take it for local time
    zoned = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (zoned - (now or datetime.now(UTC))).total_seconds())
