"""What stands in front of a Markdown text: YAML between two lines of `---`."""

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from plumbline.ground.errors import InvalidInput

_FENCE: Final = re.compile(r"---[ \t]*\r?\n")
_CLOSING: Final = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$\n?", re.MULTILINE)
# Front matter is a handful of lines; what is longer is a text between two rules.
_MAX_CHARS: Final = 64 * 1024


class Fronted(NamedTuple):
    """Fields of the front matter, and the text behind it as it is in the file."""

    fields: dict[str, str]
    body: str


def without_front_matter(text: str, wanted: Collection[str], *, name: str) -> Fronted:
    """The `wanted` fields of the front matter, and what follows it.

    Text, numbers and dates are fields as they are written in YAML; a list of them is joined by commas; what is nested
    deeper, and what is not wanted, is left out with the front matter. Text between two rules that YAML does not read
    as names and values is no front matter.

    Raises:
        InvalidInput: it is no YAML; PyYAML is missing.
    """
    opening = _FENCE.match(text)
    closing = _CLOSING.search(text, opening.end(), opening.end() + _MAX_CHARS) if opening else None
    if opening is None or closing is None:
        return Fronted({}, text)
    values = _loaded(text[opening.end() : closing.start()], name)
    if not isinstance(values, dict):
        return Fronted({}, text)
    fields = {key: _as_text(values[key]) for key in wanted if key in values}
    return Fronted(fields, text[closing.end() :])


def _loaded(matter: str, name: str) -> object:
    try:
        import yaml  # noqa: PLC0415  # of the extra `lab`
    except ImportError:
        detail = "front matter needs PyYAML; install it with: pip install 'plumbline-rag[lab]'"
        raise InvalidInput(detail, place=name) from None
    try:
        # Every value as it is written: no dates, no numbers, no objects, and aliases are not copied.
        return yaml.load(matter, Loader=yaml.BaseLoader)  # noqa: S506  # the loader that makes texts alone
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 2 if mark else 1
        detail = "the front matter is no YAML; front_matter = false reads it as text"
        raise InvalidInput(detail, place=f"{name}:{line}") from error


def _as_text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(each for each in value if isinstance(each, str))
    return value if isinstance(value, str) else ""
