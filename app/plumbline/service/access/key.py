"""A key as the service knows it: whose it is, what it is for and how much it may have; never its secret."""

import hashlib
import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

N = TypeVar("N", int, float)

# By which secret scanners and people know one.
SECRET_PREFIX: Final = "plumbline_"  # noqa: S105
_SECRET_BYTES: Final = 32


class Scope(StrEnum):
    """What a key is for."""

    EVALUATE = "evaluate"
    JOBS = "jobs"
    ADMIN = "admin"


ALL_SCOPES: Final = frozenset(Scope)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a key may have. None: what the settings say, and where they say nothing, no limit; 0: no limit.

    Args:
        requests_per_minute: that many at once, then one as each 60 / n seconds pass.
        concurrency: requests under way at one time.
        tokens_per_day: prompt and completion tokens as providers count them, from midnight to midnight UTC.
        cost_per_day: in the currency of the price table, likewise.
    """

    requests_per_minute: int | None = None
    concurrency: int | None = None
    tokens_per_day: int | None = None
    cost_per_day: float | None = None

    def over(self, defaults: "Limits") -> "Limits":
        """What holds: these where they say something, else the defaults; None for no limit."""
        return Limits(
            requests_per_minute=_holding(self.requests_per_minute, defaults.requests_per_minute),
            concurrency=_holding(self.concurrency, defaults.concurrency),
            tokens_per_day=_holding(self.tokens_per_day, defaults.tokens_per_day),
            cost_per_day=_holding(self.cost_per_day, defaults.cost_per_day),
        )


NO_LIMITS: Final = Limits()


def _holding(own: N | None, default: N | None) -> N | None:
    return (default if own is None else own) or None


@dataclass(frozen=True, slots=True)
class AccessKey:
    """One caller. `tenant`: whose jobs, results and kept verdicts are its own; it opens nothing.

    `limits` are those that hold, defaults included.
    """

    name: str
    tenant: str
    scopes: frozenset[Scope] = ALL_SCOPES
    limits: Limits = field(default=NO_LIMITS)


def new_secret() -> str:
    """A key to give away: 256 random bits, in letters, digits, `-` and `_`."""
    return SECRET_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def digest_of(secret: bytes) -> bytes:
    """What is kept of a secret: its SHA-256.

    A slow hash guards passwords, which can be guessed. 256 random bits cannot, however fast the hash, and each
    request pays for it.
    """
    return hashlib.sha256(secret).digest()
