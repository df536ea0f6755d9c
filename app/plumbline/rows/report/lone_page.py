"""HTML pages that stand alone: style and script lie inside, nothing is loaded, and what is not ours is escaped."""

import base64
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

# Where what every page has lies: `lone_head.html` (wants `title`, `html_lang`, `policy`, `style`, `version`), its mark.
_PARTS: Final = Path(__file__).parent / "page_parts"
# Colours, letters, cards and tables of every page.
BASE_STYLE: Final = _PARTS / "base.css"


def templates_in(folder: Path, filters: Mapping[str, Callable[..., Any]]) -> Environment:
    """What compiles the parts of a page, its own and those of every page; a tenth of a second, so keep it."""
    environment = Environment(
        loader=FileSystemLoader([folder, _PARTS]),
        # In whatever file: what is not ours is escaped, always.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment


def part(path: Path) -> str:
    """A file of ours as it stands in the page; the browser hashes it with LF at the ends of lines."""
    return path.read_text(encoding="utf-8")


def policy(style: str, script: str | None = None) -> str:
    """Nothing is loaded and nothing runs but this style and this script, by what they hold."""
    scripts = "'none'" if script is None else _hash_source(script)
    return (
        f"default-src 'none'; style-src {_hash_source(style)}; script-src {scripts}; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'"
    )


def _hash_source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
