"""Rankings written as JSON somewhere in a reply, read without trusting its depth, its length or its numbers."""

import json
import re
from collections.abc import Iterator
from typing import Final

_START: Final = re.compile(r"[\[{]")
# An object names its document by the first of these that it has.
_ID_KEYS: Final = ("id", "doc_id", "docid", "document_id", "_id", "pid", "passage_id", "chunk_id", "identifier", "doc")
_LIST_KEYS: Final = ("ranking", "ranked", "ranked_ids", "results", "documents", "docs", "doc_ids", "ids", "order")
# Failed attempts may read the text this often in all. A failure also counts the line ends before it, at a sixteenth of
# the cost of reading or less, and giving up on depth costs about as much as this many characters.
_PASSES: Final = 8
_COUNTING_SHARE: Final = 16
_TOO_DEEP_COST: Final = 16_384
_MAX_RANK_DIGITS: Final = 9


class _Number(str):
    """A number as it was written: an id such as 7067032 keeps its digits, and no digits are converted."""

    __slots__ = ()


_DECODER: Final = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_Number)


def json_rankings(text: str) -> Iterator[list[str]]:
    """The ids of each JSON value that ranks something; objects with an id in a row make one ranking."""
    in_a_row: list[str] = []
    for value in _values(text):
        single = _id_of_object(value) if isinstance(value, dict) else None
        if single is not None:
            in_a_row.append(single)
            continue
        yield from _rankings_of(value)
    if in_a_row:
        yield in_a_row


def _values(text: str) -> Iterator[object]:
    budget = _PASSES * len(text) + _TOO_DEEP_COST
    position = 0
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
            yield value


def _rankings_of(value: object) -> Iterator[list[str]]:
    if isinstance(value, list):
        ids = _ids_of_list(value)
        if ids:
            yield ids
        return
    if not isinstance(value, dict):
        return
    keys = [key for key in _LIST_KEYS if key in value]
    for key in [*keys, *(key for key in value if key not in keys)]:
        ids = _ids_of_list(value[key]) if isinstance(value[key], list) else None
        if ids:
            yield ids
    yield from _mapping(value)


def _ids_of_list(values: list[object]) -> list[str] | None:
    ids = [_id_of(value) for value in values]
    # `[2]` alone is a link of a chain or a citation
    if len(ids) == 1 and isinstance(values[0], _Number):
        return None
    found = [each for each in ids if each is not None]
    return found if len(found) == len(ids) else None


def _id_of(value: object) -> str | None:
    if isinstance(value, dict):
        return _id_of_object(value)
    if isinstance(value, list):
        value = value[0] if value else None
    return str(value) if isinstance(value, str) else None


def _id_of_object(fields: dict[str, object]) -> str | None:
    for key in _ID_KEYS:
        value = fields.get(key)
        if isinstance(value, str):
            return str(value)
    return None


def _mapping(fields: dict[str, object]) -> Iterator[list[str]]:
    """`{"1": "doc_5"}` by rank; `{"doc_5": 0.9, "doc_1": 0.2}` as written, since only the writer knows what rises."""
    if not fields or not all(isinstance(value, str) for value in fields.values()):
        return
    if all(key.isascii() and key.isdigit() and len(key) <= _MAX_RANK_DIGITS for key in fields):
        yield [str(fields[key]) for key in sorted(fields, key=int)]
    if len(fields) > 1 and all(isinstance(value, _Number) for value in fields.values()):
        yield list(fields)
