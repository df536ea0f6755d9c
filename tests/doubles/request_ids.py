"""Ids of a request for scripts that count from 1, as tests do: a judge reads those in the request, and repeats them."""

import re
from collections.abc import Mapping
from typing import Any

from plumbline.judging.ports.numbering import Numbering

_MARK = re.compile(r"BEGIN ([0-9a-f]{8})\n")
_VALUE = re.compile(
    r'(["\'](?:id|claim_id|contexts?|context_ids?|reference|answered_by|stated_by)["\']\s*:\s*)'
    r'("[^"\\]{0,30}"|\'[^\'\\]{0,30}\'|\[[^\[\]{}]*\]|\d[\d.]*)'
)
_KEY = re.compile(r'(["\'][^"\'0-9]{0,12})(\d{1,3}(?:\.\d+)?)(?=[^"\'0-9]{0,2}["\']\s*:)')
_STARTS_LIST = re.compile(r'\{"[a-z_]+": ?\[')
_NUMBER = re.compile(r"(?<![\d.])(\d{1,3})(\.\d+)?(?!\d)")


def base_of(prompt: str) -> int:
    """What a request adds to each number, by its mark; 0 for a text without one."""
    found = _MARK.search(prompt)
    return Numbering.draw(found[1], ()).base if found else 0


def counted_from_1(data: Mapping[str, Any], prompt: str) -> dict[str, Any]:
    """The data of a request with our numbers in place of its ids."""
    base = base_of(prompt)

    def ours(shown: int | str) -> int | str:
        index, dot, place = str(shown).partition(".")
        return f"{int(index) - base - 1}{dot}{place}" if dot else int(index) - base

    def item(each: Mapping[str, Any]) -> dict[str, Any]:
        return {name: ours(value) if name in ("id", "sentence") else value for name, value in each.items()}

    return {name: [*map(item, value)] if isinstance(value, list) else value for name, value in data.items()}


def with_request_ids(content: str, prompt: str) -> str:
    """A reply that counts from 1 with the mark and ids of the request; ids of four digits and more stay as they are."""
    base = base_of(prompt)
    if not base:
        return content
    if _STARTS_LIST.match(content):
        content = f'{{"mark": "{_MARK.findall(prompt)[0]}", {content[1:]}'

    def moved(found: re.Match[str]) -> str:
        # A claim's id counts sentences from 0.
        return found[1] + _NUMBER.sub(lambda n: f"{int(n[1]) + base + bool(n[2])}{n[2] or ''}", found[2])

    return _KEY.sub(moved, _VALUE.sub(moved, content))
