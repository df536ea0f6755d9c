"""Rankings in the JSON of an LLM's reply: lists, rows, and objects whose keys say what they hold."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from plumbline.retrieval.ranking_values import Meaning, Reading, flat, key, meaning, order_rows, read_table, row_id

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
_ALONE_AFTER: Final = re.compile(r"[\s.。;；,，*`})\]]*(?:\Z|(?<=[,，\s])[\"'])")


class _Number(str):
    """A number as it was written: an id such as 7067032 keeps its digits."""

    __slots__ = ()


_DECODER: Final = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_Number)


def json_readings(text: str) -> tuple[list[Reading], bool]:
    """Return the rankings in the JSON values of a text, and whether it holds an object that none was read from."""
    found: list[Reading] = []
    rows: list[dict[str, object]] = []
    has_unread = False
    for label, value, is_alone in _json_values(text):
        if isinstance(value, dict) and row_id(value) is not None and not any(map(_holds_rows, value.values())):
            rows.append(value)
        elif isinstance(value, dict) or is_alone or not all(isinstance(each, _Number) for each in value):
            readings = list(_read_json(value, label, _MAX_DEPTH))
            has_unread = has_unread or (isinstance(value, dict) and bool(value) and not readings)
            found += readings
    return [*found, *read_table(rows, "")], has_unread


def _holds_rows(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(each, dict) for each in value))


def label_before(text: str, start: int, end: int) -> str:
    """Return the last line or sentence before `end`: the heading of what follows."""
    pieces = _LABEL_END.split(text[max(start, end - _MAX_LABEL) : end])
    return next((piece.strip() for piece in reversed(pieces) if piece.strip(" `*\t\"'")), "")


def stands_alone(text: str, start: int, end: int) -> bool:
    """Return True if a line holds nothing but a heading and this part, as a list does and a citation does not."""
    before = text[max(0, start - _MAX_LABEL) : start].rpartition("\n")[2]
    after = text[end : end + _MAX_LABEL].partition("\n")[0]
    return _ALONE_BEFORE.search(before) is not None and _ALONE_AFTER.match(after) is not None


def _json_values(text: str) -> Iterator[tuple[str, dict[str, object] | list[object], bool]]:
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


def _read_json(value: object, label: str, depth: int) -> Iterator[Reading]:
    if isinstance(value, dict) and value and depth:
        yield from _read_object(value, label, depth)
    # `[2]` alone is a link of a chain or a citation
    elif isinstance(value, list) and value and depth and not (len(value) == 1 and isinstance(value[0], _Number)):
        yield from _read_list(value, label, depth)


def _read_list(value: list[object], label: str, depth: int) -> Iterator[Reading]:
    rows = [each for each in value if isinstance(each, dict)]
    lists = [[item for item in each if isinstance(item, str)] for each in value if isinstance(each, list) and each]
    if len(rows) == len(value):
        if all(row_id(row) is not None for row in rows):
            yield from read_table(rows, label)
        elif len(rows) == 1 or all(len(row) == 1 for row in rows):
            yield from _read_object({name: each for row in rows for name, each in row.items()}, label, depth - 1)
    elif len(lists) == len(value):
        if all(len(items) == len(each) for items, each in zip(lists, value, strict=True) if isinstance(each, list)):
            yield _read_pairs(lists, label)
    elif all(isinstance(each, str) and _is_item(each) for each in value):
        yield Reading([[str(each)] for each in value], label)


def _read_pairs(lists: list[list[str]], label: str) -> Reading:
    """Read `[["doc_5", 0.9], ...]` by score, `[[1, "doc_5"], ...]` by rank, `[["a", "b"], ["c"]]` with ties."""
    for at, name in ((1, ""), (0, "rank")):
        if all([isinstance(item, _Number) for item in each] == [at == 0, at == 1] for each in lists):
            rows = [([each[1 - at]], {name: float(each[at])}) for each in lists]
            return replace(order_rows(rows, label, is_written=not name), label=label)
    return Reading(lists, label)


def _read_object(fields: Mapping[str, object], label: str, depth: int) -> Iterator[Reading]:
    if all(isinstance(value, str | list) for value in fields.values()):
        ranked = _by_rank_name(fields, label)
        scores = [([name], {"": float(value)}) for name, value in fields.items() if isinstance(value, _Number)]
        if len(scores) == len(fields) > 1:
            reading = order_rows(scores, label, is_written=False)
            # `{"3": 2, "1": 1}`: the documents of ranks, or the scores of documents
            is_either = ranked is not None and all("." not in str(value) for value in fields.values())
            yield Reading(reading.blocks, label, ranked.blocks if is_either and ranked else reading.other)
            return
        if ranked is not None:
            yield ranked
            return
    for name, value in fields.items():
        # a key that says nothing leaves the word to the one above it
        own = name if meaning(name) is not Meaning.OTHER or key(name).endswith("scores") else label or name
        yield from _read_json(value, own, depth - 1)


def _by_rank_name(fields: Mapping[str, object], label: str) -> Reading | None:
    """Return `{"1": "doc_5"}` or `{"rank_1": ["doc_5", "doc_3"]}` in the order of the ranks."""
    names = {name: _RANK_NAME.fullmatch(key(name)) for name in fields}
    rank_by_name = {name: int(match[1]) for name, match in names.items() if match}
    if len(rank_by_name) < len(fields):
        return None
    ordered = (fields[name] for name in sorted(fields, key=rank_by_name.__getitem__))
    blocks = [
        [item for item in (each if isinstance(each, list) else [each]) if isinstance(item, str)] for each in ordered
    ]
    return Reading(blocks, label) if all(blocks) and all(map(_is_item, flat(blocks))) else None


def _is_item(text: str) -> bool:
    return 0 < len(text.split(None, _MAX_ID_WORDS)) < _MAX_ID_WORDS
