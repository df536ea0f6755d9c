"""Certificates that connections to others trust: the operating system's, or those that a variable names."""

import os
import ssl
from functools import cache
from pathlib import Path
from typing import Final

from plumbline.ground.errors import ConfigurationError

# The first that is set counts; the last is that of `requests`, which many networks set for their own authority.
_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")


def tls_context() -> ssl.SSLContext:
    """Return the context of these variables, else the operating system's; raise ConfigurationError if one is wrong."""
    return _context(*next(((name, path) for name in _VARIABLES if (path := os.environ.get(name))), ("", "")))


@cache
def _context(variable: str, path: str) -> ssl.SSLContext:
    """Read the certificates once for the process: it takes 20 ms."""
    if not variable:
        # A part of a second of import that plain HTTP never pays.
        import httpx2  # noqa: PLC0415

        return httpx2.create_ssl_context(trust_env=False)
    try:
        folder = path if Path(path).is_dir() else None
        return ssl.create_default_context(cafile=None if folder else path, capath=folder)
    except OSError as error:
        raise ConfigurationError(f"{variable}: has no certificates that can be read ({error.strerror})") from None
