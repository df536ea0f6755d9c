"""The address and key of a running service: what the caller gives, else the variables of the environment."""

import os
from typing import Final

URL_VARIABLE: Final = "PLUMBLINE_URL"
KEY_VARIABLE: Final = "PLUMBLINE_API_KEY"


def find_url(given: str | None) -> str | None:
    """Return the given address, else that of PLUMBLINE_URL; None without either. An empty one is none."""
    return _find(given, URL_VARIABLE)


def find_key(given: str | None) -> str | None:
    """Return the given key, else that of PLUMBLINE_API_KEY; None without either. An empty one is none."""
    return _find(given, KEY_VARIABLE)


def _find(given: str | None, variable: str) -> str | None:
    return (os.environ.get(variable, "") if given is None else given).strip() or None
