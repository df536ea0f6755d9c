"""The fields RateLimit and RateLimit-Policy: draft-ietf-httpapi-ratelimit-headers-11 of May 2026, not yet an RFC."""

from collections.abc import Sequence

from plumbline.service.access.access import Quota


def rate_limit_fields(quotas: Sequence[Quota]) -> dict[str, str]:
    """Both fields as Structured Fields (RFC 9651), each quota under its policy's name; none where there is no quota.

    `t` are the seconds after which there is one more than `r`: for a limit without window what a reset is to others.
    """
    if not quotas:
        return {}
    return {
        "RateLimit-Policy": ", ".join(map(_policy, quotas)),
        "RateLimit": ", ".join(map(_standing, quotas)),
    }


def _policy(quota: Quota) -> str:
    unit = f';qu="{quota.unit}"' if quota.unit else ""
    window = "" if quota.window_seconds is None else f";w={quota.window_seconds}"
    return f'"{quota.policy}";q={quota.quota}{unit}{window}'


def _standing(quota: Quota) -> str:
    following = "" if quota.next_seconds is None else f";t={quota.next_seconds}"
    return f'"{quota.policy}";r={quota.remaining}{following}'
