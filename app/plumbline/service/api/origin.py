"""Whether a browser sent a request for a page of somebody else's, which it does without asking for simple ones."""

from urllib.parse import urlsplit

from fastapi import Request


def is_from_another_origin(request: Request) -> bool:
    """Whether the request names the origin of a page, and that is not this service."""
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != request.headers.get("host")
