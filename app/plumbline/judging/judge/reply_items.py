"""Items of a judge's reply: JSON in the form that was asked for or in one that a reader would understand."""

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

import json_repair

# No honest reply to one batch of sentences comes near it.
_MAX_CHARACTERS: Final = 1_000_000
# Mending takes the square of an item's length: 0.1 s for this, minutes for the longest reply. A batch of sentences has
# some 16,000 characters; what is not mended is asked again.
_MAX_MENDED_ITEM_CHARACTERS: Final = 2_000
_MAX_MENDED_CHARACTERS: Final = 20_000
_MAX_LISTS: Final = 3
_MAX_LOOSE_VALUES: Final = 100
_MAX_DEPTH: Final = 5
# A string as a whole (it may have lost its end), or a bracket outside of strings.
# Possessive, and with an end for a torn escape: nothing in it is read twice.
_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_STEPS: Final = {"{": 1, "[": 1, "}": -1, "]": -1}
# It matches an object or a list of objects, not "{braces}" or "[1]" of prose.
_VALUE_START: Final = re.compile(r"""\{(?=\s*["'])|\[(?=\s*\{)""")
# Under any of them a judge may give its verdict.
VERDICT_NAMES: Final = ("verdict", "label", "judgement", "judgment", "结论", "判断")
_QUOTE_NAMES: Final = ("quotes", "quote", "evidence", "引文")
_PASSAGE_NAMES: Final = ("quote", "text", "passage", "content", "原文", "引文")
_CELL_END: Final = re.compile(r"(?<!\\)\|")
_TAG: Final = re.compile(r"<([a-z]{1,20})((?:\s[^<>]{0,200})?)>([^<]{0,4000})")
_TAG_ID: Final = re.compile(r"""\bid\s?=\s?["']([^"'<>]{1,40})["']""")
_ID_KEY: Final = re.compile(r"\D{0,12}\d{1,6}(?:\.\d{1,6})?\D{0,2}")

_NUMBER: Final = re.compile(r"\d{1,6}(?:\.\d{1,6})?")
_MAX_ID_CHARACTERS: Final = 40
_JOINTS: Final = re.compile(r"[\W_]+")

Item = dict[str, Any]


def read_id(given: object) -> str:
    """Return the number in 2, "s2", "[2]" or "Context 2.1"; empty if there is none, or several."""
    if isinstance(given, bool) or not isinstance(given, str | int):
        return ""
    numbers = _NUMBER.findall(str(given)[:_MAX_ID_CHARACTERS])
    return numbers[0] if len(numbers) == 1 else ""


def fold_word(word: str) -> str:
    """Return a verdict's word in lower case, without what joins its parts."""
    return _JOINTS.sub("", word.casefold())


def first_member(members: Mapping[str, object], names: Sequence[str]) -> object:
    return next((members[name] for name in names if name in members), None)


def read_quotes(item: Item) -> list[object]:
    """Return the quotes of an item under any name, one or a list, each a text or an object that has one."""
    members = [value for name in _QUOTE_NAMES if (value := item.get(name)) is not None]
    quotes = [quote for value in members for quote in (value if isinstance(value, list) else [value]) if quote != ""]
    return [first_member(quote, _PASSAGE_NAMES) if isinstance(quote, dict) else quote for quote in quotes]


def is_unicode(*texts: str) -> bool:
    """Return False for half a surrogate pair, which JSON can hold and our answers cannot."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def reply_items(
    content: str, key: str, *, is_truncated: bool, verdict_names: Sequence[str] = VERDICT_NAMES
) -> tuple[list[Item], list[str]]:
    """Return the items of the list that the key names (of several the last that can be read), and flags.

    Without such a list: the items of a bare list, of a list or an object by ids under another name, or of objects that
    stand alone and have claims or a verdict under one of `verdict_names`; without any, rows of a Markdown table or XML.
    """
    if len(content) > _MAX_CHARACTERS:
        return [], ["reply_too_long"]
    starts = [found.end() - 1 for found in re.finditer(rf'["\']{key}["\']\s*:\s*\[', content)]
    flags = ["several_replies"] if len(starts) > 1 else []
    for start in reversed(starts[-_MAX_LISTS:]):
        items, is_cut, is_repaired = _read_list(content, start)
        found = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else None
        if found is None or (items and not found):
            continue
        if is_cut:
            flags.append("truncated_reply")
        if is_repaired:
            flags.append("repaired_reply")
        return found, flags
    loose = list(_loose_items(content, verdict_names)) or [
        item
        for item in (*_table_rows(content), *_tagged_items(content))
        if "id" in item and any(name in item for name in verdict_names)
    ]
    if loose:
        return loose, [*flags, "repaired_reply", *(["truncated_reply"] if is_truncated else [])]
    return [], [*flags, "truncated_reply" if is_truncated else "unreadable_reply"]


def _loose_items(content: str, names: Sequence[str]) -> Iterator[Item]:
    """Yield the items of all JSON values in the text, in order; each failure reads the rest once more."""
    at = failures = 0
    for _ in range(_MAX_LOOSE_VALUES):
        found = _VALUE_START.search(content, at)
        if found is None or failures == _MAX_LISTS:
            return
        at = found.start() + 1
        with suppress(ValueError, RecursionError):
            value, at = _DECODER.raw_decode(content, found.start())
            yield from _items_in(value, names, _MAX_DEPTH)
            continue
        failures += 1
        if found[0] == "[":
            items, _, _ = _read_list(content, found.start())
            yield from _items_in(items, names, _MAX_DEPTH)
            return


def _items_in(value: object, names: Sequence[str], depth: int) -> Iterator[Item]:
    if depth == 0:
        return
    if isinstance(value, list):
        yield from (item for each in value if isinstance(each, dict) for item in _items_in(each, names, depth - 1))
    elif isinstance(value, dict):
        claims = value.get("claims")
        holds_items = isinstance(claims, list) and any(isinstance(each, dict) and "id" in each for each in claims)
        if "id" not in value and holds_items:
            yield from _items_in(claims, names, depth - 1)
        elif "claims" in value or any(name in value for name in names):
            yield value
        else:
            for name, each in value.items():
                if _ID_KEY.fullmatch(name):
                    yield from _keyed_item(name, each)
                else:
                    yield from _items_in(each, names, depth - 1)


def _keyed_item(item_id: str, value: object) -> Iterator[Item]:
    """Yield the item of an object by ids: its claims, one claim, or no more than a verdict."""
    if isinstance(value, list):
        yield {"id": item_id, "claims": value}
    elif isinstance(value, dict):
        yield {**value, "id": item_id}
    elif isinstance(value, str):
        yield {"id": item_id, "verdict": value}


def _table_rows(content: str) -> Iterator[Item]:
    """Yield the rows of Markdown tables, by the names in their first rows."""
    names: list[str] = []
    for line in content.splitlines():
        cells = [cell.replace("\\|", "|").strip() for cell in _CELL_END.split(line.strip())[1:-1]]
        if len(cells) != len(names):
            names = [cell.strip("*`").lower() for cell in cells]
        elif not set(line) <= set("|-: "):
            yield {name: cell for name, cell in zip(names, cells, strict=True) if cell}


def _tagged_items(content: str) -> list[Item]:
    """Return the elements of XML that have an id, as an attribute or in an element of its own."""
    items: list[Item] = []
    for tag, attributes, text in _TAG.findall(content):
        given, value = _TAG_ID.search(attributes), html.unescape(text.strip())
        if given or tag == "id":
            items.append({"id": given[1] if given else value})
        elif items and tag in ("quote", "quotes"):
            items[-1].setdefault("quotes", []).append(value)
        elif items:
            items[-1].setdefault(tag, value)
    return items


def _read_list(content: str, start: int) -> tuple[object, bool, bool]:
    """Return the list that starts at `start`, True if it was cut, and True if it was repaired; None if unreadable."""
    with suppress(ValueError, RecursionError):
        return _DECODER.raw_decode(content, start)[0], False, False
    whole: list[str] = []
    depth, item_start, end = 0, start, start + 1
    is_cut = True
    for token in _TOKEN.finditer(content, start):
        if depth == 1 and token[0] == "{":
            item_start = token.start()
        depth += _STEPS.get(token[0], 0)
        if depth == 1 and token[0] == "}":
            end = token.end()
            whole.append(content[item_start:end])
        if depth == 0:
            end, is_cut = token.end(), False
            break
    with suppress(ValueError, RecursionError):
        # A cut list is closed after its last whole item.
        return _DECODER.decode(content[start:end] + ("]" if is_cut else "")), is_cut, False
    return _mend(whole) or None, is_cut, True


def _mend(texts: Sequence[str]) -> list[object]:
    items: list[object] = []
    left = _MAX_MENDED_CHARACTERS
    for item in texts:
        with suppress(ValueError, RecursionError):
            items.append(_DECODER.decode(item))
            continue
        if len(item) > min(left, _MAX_MENDED_ITEM_CHARACTERS):
            continue
        left -= len(item)
        with suppress(ValueError, RecursionError):
            items.append(json_repair.loads(item, skip_json_loads=True))
    return items


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any] | None:
    members = dict(pairs)
    return members if len(members) == len(pairs) else None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# As text, 1.10 is the id of another claim than 1.1.
_DECODER: Final = json.JSONDecoder(strict=False, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=str)
