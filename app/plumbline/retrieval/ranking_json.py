"""Rankings in the JSON of an LLM's reply: lists, rows, and objects whose keys say what they hold."""

import json
import re
from collections.abc import Iterator
from typing import Final

from plumbline.retrieval.ranking_values import Meaning, Reading, by_value, flat, key, meaning, number, read_rows, row_id

_START: Final = re.compile(r"[\[{]")
# Failed attempts may read the text this often in all. A failure also counts the line ends before it, at a sixteenth of
# the cost of reading or less, and giving up on depth costs about as much as this many characters.
_PASSES: Final = 8
_COUNTING_SHARE: Final = 16
_TOO_DEEP_COST: Final = 16_384
_MAX_DEPTH: Final = 8
_MAX_LABEL: Final = 80
_MAX_ID_WORDS: Final = 4
_RANK_NAME: Final = re.compile(r"(?:rank|top|no\.?|第)?_?#?([0-9]{1,6})(?:st|nd|rd|th)?[名位]?")
_LABEL_END: Final = re.compile(r"[\n.。!！?？;；]")
_ALONE_BEFORE: Final = re.compile(r"(?:[:：=]|\b(?:is|are|be)|[是为])[\s`*]*\Z|\A[\s`*>\-]*\Z", re.IGNORECASE)
_ALONE_AFTER: Final = re.compile(r"[\s.。;；,，`*}\])]*(?:\Z|(?<=[,，\s])[\"'])")


class _Number(str):
    """A number as it was written: an id such as 7067032 keeps its digits."""

    __slots__ = ()


_DECODER: Final = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_Number)


def json_readings(text: str) -> tuple[list[Reading], bool]:
    """Return the rankings in the JSON values of a text, and whether it holds an object that none was read from."""
    found: list[Reading] = []
    rows: list[dict[str, object]] = []
    has_unread = False
    for label, value, stands_alone in _values(text):
        if isinstance(value, dict) and row_id(value) is not None:
            rows.append(value)
        elif isinstance(value, dict):
            readings = list(_of_object(value, label, _MAX_DEPTH))
            has_unread = has_unread or (bool(value) and not readings)
            found += readings
        elif isinstance(value, list) and (stands_alone or not all(isinstance(each, _Number) for each in value)):
            found += _of_list(value, label, _MAX_DEPTH)
    return [*found, *read_rows(rows, "")], has_unread


def label_before(text: str, start: int, end: int) -> str:
    """Return the last line or sentence before `end`: the heading of what follows."""
    pieces = _LABEL_END.split(text[max(start, end - _MAX_LABEL) : end])
    return next((piece.strip() for piece in reversed(pieces) if piece.strip(" `*\t\"'")), "")


def stands_alone(text: str, start: int, end: int) -> bool:
    """Return True if a line holds nothing but a heading beside this part, as a list does and a citation does not."""
    before = text[max(0, start - _MAX_LABEL) : start].rpartition("\n")[2]
    after = text[end : end + _MAX_LABEL].partition("\n")[0]
    return _ALONE_BEFORE.search(before) is not None and _ALONE_AFTER.match(after) is not None


def _values(text: str) -> Iterator[tuple[str, object, bool]]:
    budget = _PASSES * len(text) + _TOO_DEEP_COST
    position = last = 0
    while budget > 0:
        start = _START.search(text, position)
        if start is None:
            return
        try:
            value, position = _DECODER.raw_decode(text, start.start())
        except RecursionError:
            position = start.end()
            budget -= _TOO_DEEP_COST
        except json.JSONDecodeError as error:
            position = start.end()
            # an unterminated string is reported where it begins, and was read to the end
            stop = len(text) if error.msg.startswith("Unterminated") else error.pos
            budget -= stop - start.start() + 1 + error.pos // _COUNTING_SHARE
        else:
            yield label_before(text, last, start.start()), value, stands_alone(text, start.start(), position)
            last = position


def _of_list(values: list[object], label: str, depth: int) -> Iterator[Reading]:
    if not values or depth == 0:
        return
    # `[2]` alone is a link of a chain or a citation
    if len(values) == 1 and isinstance(values[0], _Number):
        return
    if all(isinstance(value, dict) for value in values):
        rows = [value for value in values if isinstance(value, dict)]
        if all(row_id(row) is not None for row in rows):
            yield from read_rows(rows, label)
        elif len(rows) == 1:
            yield from _of_object(rows[0], label, depth - 1)
        elif all(len(row) == 1 for row in rows):
            yield from _of_object({name: value for row in rows for name, value in row.items()}, label, depth - 1)
        return
    if all(isinstance(value, list) for value in values):
        yield from _of_pairs([value for value in values if isinstance(value, list)], label)
        return
    items = [value for value in values if isinstance(value, str) and _is_item(value)]
    if len(items) == len(values):
        yield Reading([[item] for item in items], label)


def _of_pairs(lists: list[list[object]], label: str) -> Iterator[Reading]:
    """Yield `[["doc_5", 0.9], ...]` by score, `[[1, "doc_5"], ...]` by rank, `[["a", "b"], ["c"]]` with ties."""
    texts = [[value for value in each if isinstance(value, str)] for each in lists]
    if any(not each or len(each) < len(whole) for each, whole in zip(texts, lists, strict=True)):
        return
    for at, name in ((1, ""), (0, "rank")):
        if all(len(each) == len(("id", "value")) and isinstance(each[at], _Number) for each in texts):
            pairs = [(each[1 - at], number(each[at])) for each in texts]
            if not any(isinstance(item, _Number) for item, _ in pairs):
                yield by_value(
                    [(item, value or 0.0) for item, value in pairs], label=label, name=name, is_list=not name
                )
                return
    yield Reading(texts, label)


def _of_object(fields: dict[str, object], label: str, depth: int) -> Iterator[Reading]:
    if depth == 0 or not fields:
        return
    if all(isinstance(value, str | list) for value in fields.values()):
        ranked = _by_rank_name(fields, label)
        scored = [(name, number(value)) for name, value in fields.items() if isinstance(value, _Number)]
        if len(scored) == len(fields) > 1 and all(value is not None for _, value in scored):
            reading = by_value([(name, value or 0.0) for name, value in scored], label=label)
            # `{"3": 2, "1": 1}`: the documents of ranks, or the scores of documents
            is_either = ranked is not None and all("." not in str(value) for value in fields.values())
            yield Reading(reading.blocks, label, ranked.blocks) if is_either and ranked else reading
            return
        if ranked is not None:
            yield ranked
            return
    for name, value in fields.items():
        # a key that says nothing leaves the word to the one above it
        own = name if meaning(name) is not Meaning.OTHER or key(name).endswith("scores") else label or name
        if isinstance(value, list):
            yield from _of_list(value, own, depth - 1)
        elif isinstance(value, dict):
            yield from _of_object(value, own, depth - 1)


def _by_rank_name(fields: dict[str, object], label: str) -> Reading | None:
    """Return `{"1": "doc_5"}` or `{"rank_1": ["doc_5", "doc_3"]}` in the order of the ranks."""
    names = [_RANK_NAME.fullmatch(key(name)) for name in fields]
    if not all(names):
        return None
    rank_by_name = {name: int(match[1]) for name, match in zip(fields, names, strict=True) if match}
    blocks = [
        [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
        for value in (fields[name] for name in sorted(fields, key=rank_by_name.__getitem__))
    ]
    return Reading(blocks, label) if all(blocks) and all(map(_is_item, flat(blocks))) else None


def _is_item(text: str) -> bool:
    return len(text.split(None, _MAX_ID_WORDS)) < _MAX_ID_WORDS and bool(text.strip())
