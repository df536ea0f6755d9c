"""Parse a ranking out of an LLM's reply, in linear time, whatever its form."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from plumbline.retrieval.ranking_forms import CandidateTokens, bracketed, chained, listed, without_reasoning

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
    """A number as it was written: an id such as 7067032 keeps its digits."""

    __slots__ = ()


_DECODER: Final = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_Number)


def json_rankings(text: str) -> Iterator[list[str]]:
    """Yield the ids of each JSON value that ranks something; objects with an id in a row make one ranking."""
    in_a_row: list[str] = []
    for value in _values(text):
        single = _id_of(value) if isinstance(value, dict) else None
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
        return next((str(value[key]) for key in _ID_KEYS if isinstance(value.get(key), str)), None)
    if isinstance(value, list):
        value = value[0] if value else None
    return str(value) if isinstance(value, str) else None


def _mapping(fields: dict[str, object]) -> Iterator[list[str]]:
    """Yield `{"1": "doc_5"}` by rank, and `{"doc_5": 0.9, "doc_1": 0.2}` as written: scores may rise or fall."""
    if not fields or not all(isinstance(value, str) for value in fields.values()):
        return
    if all(key.isascii() and key.isdigit() and len(key) <= _MAX_RANK_DIGITS for key in fields):
        yield [str(fields[key]) for key in sorted(fields, key=int)]
    if len(fields) > 1 and all(isinstance(value, _Number) for value in fields.values()):
        yield list(fields)


_QUOTES: Final = " \t\r\n\"'`“”‘’*"
_DECORATION: Final = _QUOTES + "()[]{}<>（）【】［］「」《》.,;:!?，。；：、！？"
_BRACKETS: Final = _QUOTES + "()[]（）【】［］「」"
_SENTENCE_ENDS: Final = ".,;:!?，。；：、！？"
_MAX_INDEX_DIGITS: Final = 6
_MAX_UNKNOWN_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class ParsedRanking:
    """Ranking parsed from a reply.

    Args:
        ids: best first, each once.
        unknown: ids that the reply names and the candidates do not hold, each once; always empty without candidates.
        duplicates_removed: later mentions of an id in `ids`, within the form that was read.
        parse_ok: whether `ids` holds anything; a refusal, an empty list and a list of unknown ids are all False.
        form: `json`, `chain`, `lines`, `tokens`, or `none` when no form was found.
    """

    ids: tuple[str, ...]
    unknown: tuple[str, ...]
    duplicates_removed: int
    parse_ok: bool
    form: str


def parse_ranking(text: str, *, candidates: Sequence[str] | None = None) -> ParsedRanking:
    """Parse the ranking in an LLM's reply; takes time linear in the text and never raises.

    `<think>` blocks go first, an unclosed one to the end of the text. Then the first form that names a candidate:

    - `json`: a list of ids, of objects with an id, or of pairs; an object that holds such a list, maps ranks to ids or
      ids to scores; in a code fence or not. The order is that of the list, whatever scores come with the ids.
    - `chain`: `[3] > [1]`, `doc_5 > doc_1`, `[doc_5], [doc_1]`, with ASCII or full-width signs.
    - `lines`: numbered or bulleted lines, of which the rank is stripped; else lines or comma-separated pieces that
      hold nothing but an id.
    - `tokens`: candidates as whole tokens in the order in which they appear (never without candidates).

    Within a form that occurs several times, the occurrence that names the most candidates is read. When no form names
    a candidate, the first that names anything is reported through `unknown`.

    `candidates`: the ids that were offered, in that order. When none of them is a number, a number n stands for the
    n-th of them, from 1. Without candidates every id is taken as known, a number is an id, and prose holds no ids.
    """
    reply = without_reasoning(text)
    reader = _Reader(candidates)
    fallback: ParsedRanking | None = None
    for form, groups in reader.forms(reply):
        parsed = max((reader.read(group, form) for group in groups), key=reader.worth, default=None)
        if parsed is not None and parsed.ids:
            return parsed
        if parsed is not None and parsed.unknown:
            fallback = fallback or parsed
    return fallback or ParsedRanking((), (), 0, parse_ok=False, form="none")


class _Reader:
    """Matcher of items to ids, with or without candidates."""

    def __init__(self, candidates: Sequence[str] | None) -> None:
        self._candidates = candidates
        self._known = frozenset(candidates or ())
        self._counts_from_one = candidates is not None and not any(map(_is_number, candidates))
        self._tokens = None if candidates is None else CandidateTokens(candidates)

    def forms(self, reply: str) -> Iterable[tuple[str, list[list[str]]]]:
        yield "json", list(json_rankings(reply))
        yield "chain", [*bracketed(reply), *chained(reply)]
        yield "lines", list(listed(reply, tokens=self._tokens, names_known=self.names_known))
        if self._tokens is not None:
            yield "tokens", [self._tokens.mentions(reply)]

    def worth(self, parsed: ParsedRanking) -> int:
        return len(parsed.ids) if self._candidates is not None else bool(parsed.ids)

    def read(self, items: Iterable[str], form: str) -> ParsedRanking:
        ids: dict[str, None] = {}
        unknown: dict[str, None] = {}
        duplicates = 0
        for item in items:
            doc_id = self._known_id(item)
            if doc_id is None:
                unknown[_bare(item)[:_MAX_UNKNOWN_LENGTH]] = None
            elif doc_id in ids:
                duplicates += 1
            else:
                ids[doc_id] = None
        unknown.pop("", None)
        return ParsedRanking(tuple(ids), tuple(unknown), duplicates, parse_ok=bool(ids), form=form)

    def names_known(self, item: str) -> bool:
        return self._candidates is not None and self._known_id(item) is not None

    def _known_id(self, item: str) -> str | None:
        if self._candidates is None:
            return _bare(item) or None
        for text in (item, item.strip(_QUOTES), item.strip(_DECORATION)):
            if text in self._known:
                return text
        number = item.strip(_DECORATION)
        if self._counts_from_one and _is_number(number) and len(number) <= _MAX_INDEX_DIGITS:
            index = int(number)
            return self._candidates[index - 1] if 1 <= index <= len(self._candidates) else None
        return None


def _bare(item: str) -> str:
    return item.strip(_BRACKETS).rstrip(_SENTENCE_ENDS).strip(_BRACKETS)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
