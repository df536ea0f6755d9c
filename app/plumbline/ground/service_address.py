"""The address and key of a running service: what the caller gives, else the variables of the environment."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from plumbline.ground.errors import ConfigurationError

URL_VARIABLE: Final = "PLUMBLINE_URL"
KEY_VARIABLE: Final = "PLUMBLINE_API_KEY"


def find_url(given: str | None) -> str | None:
    """Return the given address, else that of PLUMBLINE_URL; None without either. An empty one is none."""
    return _find(given, URL_VARIABLE)


def find_key(given: str | None) -> str | None:
    """Return the given key, else that of PLUMBLINE_API_KEY; None without either. An empty one is none."""
    return _find(given, KEY_VARIABLE)


@contextmanager
def explain_missing_service() -> Iterator[None]:
    """Import within it what judges in this process; raise ConfigurationError if the service is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "plumbline":
            raise
        raise ConfigurationError(
            f"nothing judges here: name a running service by --url or {URL_VARIABLE}, or pip install "
            "'plumbline-rag[service]'"
        ) from None


def _find(given: str | None, variable: str) -> str | None:
    return (os.environ.get(variable, "") if given is None else given).strip() or None
