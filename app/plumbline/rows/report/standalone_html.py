"""Standalone HTML pages: style and script inline, nothing loaded, foreign text escaped."""

import base64
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

# Shared parts: `lone_head.html` (needs `title`, `html_lang`, `policy`, `style`, `version`) and `lone_mark.html`.
_PARTS: Final = Path(__file__).parent / "page_parts"
# Colours, letters, cards and tables of every page.
BASE_STYLE: Final = _PARTS / "base.css"


def build_environment(folder: Path, filters: Mapping[str, Callable[..., Any]]) -> Environment:
    """Build the template environment of a page: its own parts and the shared ones. Slow (0.1 s): keep it."""
    environment = Environment(
        loader=FileSystemLoader([folder, _PARTS]),
        # Foreign text is escaped, whatever the file name
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment


def read_part(path: Path) -> str:
    """Return a style or script with LF line ends, which the browser hashes."""
    return path.read_text(encoding="utf-8")


def content_security_policy(
    style: str, script: str | None = None, *, form_action: str = "'none'", more: str = ""
) -> str:
    """Return a Content-Security-Policy that allows only this style and script, by hash, and loads nothing.

    Args:
        more: further directives.
    """
    scripts = "'none'" if script is None else _hash_source(script)
    return (
        f"default-src 'none'; style-src {_hash_source(style)}; script-src {scripts}; base-uri 'none'; "
        f"form-action {form_action}; require-trusted-types-for 'script'" + (more and f"; {more}")
    )


def _hash_source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
