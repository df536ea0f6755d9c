"""Parse a ranking out of an LLM's reply, in linear time, whatever its form."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from plumbline.retrieval.ranking_forms import (
    NAMED_INDEX,
    bracketed,
    chained,
    listed,
    tabled,
    without_reasoning,
)
from plumbline.retrieval.ranking_json import json_readings
from plumbline.retrieval.ranking_prose import CandidateTokens, mentioned
from plumbline.retrieval.ranking_values import Blocks, Meaning, Reading, flat, meaning

_QUOTES: Final = " \t\r\n\"'`“”‘’*"
_DECORATION: Final = _QUOTES + "()[]{}<>（）【】［］「」《》.,;:!?，。；：、！？"
_BRACKETS: Final = _QUOTES + "()[]（）【】［］「」"
_SENTENCE_ENDS: Final = ".,;:!?，。；：、！？"
_MAX_INDEX_DIGITS: Final = 6
_MAX_UNKNOWN_LENGTH: Final = 200
_TO_BEST: Final = r"[^.\n]{0,20} to [^.\n]{0,20}(?:most|best|highest|top)"
_FROM_LOW: Final = r"(?:低|差|小|弱|末|不)[^。\n]{0,6}[到至](?:高|好|大|强|优|首|最)"
# Of text in lower case; each alternative begins with a letter of its own, for which `re` looks first.
_RISING: Final = re.compile(
    rf"least{_TO_BEST}|worst{_TO_BEST}|lowest{_TO_BEST}|bottom{_TO_BEST}|ascending|reverse"
    rf"|从{_FROM_LOW}|由{_FROM_LOW}|升序|倒序"
)
# More words are a sentence.
_MAX_ID_WORDS: Final = 4


@dataclass(frozen=True, slots=True)
class ParsedRanking:
    """Ranking parsed from a reply.

    Args:
        ids: best first, each once; empty unless `parse_ok`.
        unknown: ids that the reply names and the candidates do not hold, each once; always empty without candidates.
        duplicates_removed: later mentions of an id in `ids`, within the form that was read.
        parse_ok: whether `ids` holds the one ranking that the reply may mean; a refusal, an empty list, a list of
            unknown ids and a reply of several meanings are all False.
        form: `json`, `table`, `chain`, `lines`, `tokens`, or `none` when no form was found.
        ties: ids that the reply holds equal; they stand in `ids` as they are written.
        excluded: ids that the reply says it leaves out.
        readings: two rankings that the reply may mean; empty when there is one.
    """

    ids: tuple[str, ...]
    unknown: tuple[str, ...]
    duplicates_removed: int
    parse_ok: bool
    form: str
    ties: tuple[tuple[str, ...], ...] = ()
    excluded: tuple[str, ...] = ()
    readings: tuple[tuple[str, ...], ...] = ()


def parse_ranking(text: str, *, candidates: Sequence[str] | None = None) -> ParsedRanking:
    """Parse the ranking in an LLM's reply; takes time linear in the text and never raises.

    `<think>` blocks go first, an unclosed one to the end of the text. Then the first form that names a candidate:

    - `json`: a list of ids, of objects with an id, or of pairs; an object that holds such a list, maps ranks to ids or
      ids to scores; in a code fence or not.
    - `table`: with a header, between bars, commas or tabs.
    - `chain`: `[3] > [1]`, `doc_3 < doc_1`, `doc_5 = doc_1 > doc_3`, `[doc_5], [doc_1]`, in ASCII or full width.
    - `lines`: numbered or bulleted lines, of which the rank is stripped; else lines or comma-separated pieces that
      hold nothing but an id, or an id and a score.
    - `tokens`: candidates in prose that ranks, in the order in which they appear (never without candidates).

    Keys, headings and columns are read by their meaning: ranks rise, scores fall, what is excluded or was only offered
    is no ranking, and a final ranking is preferred to any other. Where that leaves two rankings (scores against the
    written order, numbers that may be ranks or scores, two lists that disagree, prose that turns), neither is taken:
    `parse_ok` is False and `readings` holds both.

    `candidates`: the ids that were offered, in that order. When none of them is a number, a number n stands for the
    n-th of them, from 1. Without candidates every id is taken as known, a number is an id, and prose holds no ids.
    """
    reply = without_reasoning(text)
    reader = _Reader(candidates)
    fallback: ParsedRanking | None = None
    for form, readings in reader.forms(reply):
        parsed = reader.turned(reader.choose(readings, form), reply)
        if parsed.ids or parsed.readings:
            return parsed
        if parsed.unknown or parsed.excluded:
            fallback = fallback or parsed
    return fallback or ParsedRanking((), (), 0, parse_ok=False, form="none")


class _Reader:
    """Matcher of items to ids, with or without candidates."""

    def __init__(self, candidates: Sequence[str] | None) -> None:
        self._candidates = candidates
        self._known = frozenset(candidates or ())
        self._counts_from_one = candidates is not None and not any(map(_is_number, candidates))
        self._tokens = None if candidates is None else CandidateTokens(candidates)

    def forms(self, reply: str) -> Iterator[tuple[str, Iterable[Reading]]]:
        readings, has_unread = json_readings(reply)
        yield "json", readings
        if has_unread and not readings:
            return
        yield "table", tabled(reply, self.names_known)
        yield "chain", [*bracketed(reply), *chained(reply, self.names_known)]
        yield "lines", listed(reply, tokens=self._tokens, names_known=self.names_known)
        if self._tokens is not None:
            yield "tokens", mentioned(reply, self._tokens)

    def turned(self, parsed: ParsedRanking, reply: str) -> ParsedRanking:
        """Return the ranking with its reverse as another reading, where the reply says that it rises."""
        if len(parsed.ids) < len(("worst", "best")) or not _RISING.search(reply.lower()):
            return parsed
        return replace(parsed, ids=(), ties=(), parse_ok=False, readings=(parsed.ids, parsed.ids[::-1]))

    def choose(self, readings: Iterable[Reading], form: str) -> ParsedRanking:
        """Return the one ranking among the readings, or two that they may mean."""
        parsed = [(meaning(each.label), self._read(each, form)) for each in readings]
        excluded = tuple(
            dict.fromkeys(doc_id for role, each in parsed if role is Meaning.EXCLUDED for doc_id in each.ids)
        )
        ranked = [(role, each) for role, each in parsed if role > Meaning.INPUT and each.ids]
        unknown = tuple(dict.fromkeys(name for role, each in parsed if role > Meaning.INPUT for name in each.unknown))
        if not ranked:
            return ParsedRanking((), unknown, 0, parse_ok=False, form=form, excluded=excluded)
        highest = max(role for role, _ in ranked)
        top = [each for role, each in ranked if role is highest]
        best = max(top, key=lambda each: len(each.ids))
        rivals = [each.readings[1] for each in top if each.readings]
        place_by_id = {doc_id: place for place, doc_id in enumerate(best.ids)}
        rivals += [each.ids for each in top if not _is_within(each.ids, place_by_id)]
        if not rivals and not set(best.ids).isdisjoint(excluded):
            rivals = [tuple(doc_id for doc_id in best.ids if doc_id not in excluded)]
        if rivals:
            return replace(best, ids=(), ties=(), parse_ok=False, excluded=excluded, readings=(best.ids, rivals[0]))
        return replace(best, excluded=excluded)

    def names_known(self, item: str) -> bool:
        return self._candidates is not None and self._known_id(item) is not None

    def _read(self, reading: Reading, form: str) -> ParsedRanking:
        ids: dict[str, None] = {}
        unknown: dict[str, None] = {}
        duplicates = 0
        ties = []
        for block in reading.blocks:
            tied = []
            for item in block:
                doc_id = self._known_id(item)
                if doc_id is None:
                    unknown[_bare(item)[:_MAX_UNKNOWN_LENGTH]] = None
                elif doc_id in ids:
                    duplicates += 1
                else:
                    ids[doc_id] = None
                    tied.append(doc_id)
            ties += [tuple(tied)] if len(tied) > 1 else []
        unknown.pop("", None)
        if self._candidates is None and unknown:
            return ParsedRanking((), (), 0, parse_ok=False, form=form)
        other = self._ids(reading.other) if reading.other is not None else tuple(ids)
        readings = (tuple(ids), other) if other != tuple(ids) else ()
        return ParsedRanking(tuple(ids), tuple(unknown), duplicates, bool(ids), form, tuple(ties), (), readings)

    def _ids(self, blocks: Blocks) -> tuple[str, ...]:
        found = (self._known_id(item) for item in flat(blocks))
        return tuple(dict.fromkeys(doc_id for doc_id in found if doc_id is not None))

    def _known_id(self, item: str) -> str | None:
        if self._candidates is None:
            bare = _bare(item)
            return bare if 0 < len(bare.split(None, _MAX_ID_WORDS)) < _MAX_ID_WORDS else None
        for text in (item, item.strip(_QUOTES), item.strip(_DECORATION)):
            if text in self._known:
                return text
        number = item.strip(_DECORATION)
        named = NAMED_INDEX.fullmatch(number)
        number = named[1] if named else number
        if self._counts_from_one and _is_number(number) and len(number) <= _MAX_INDEX_DIGITS:
            index = int(number)
            return self._candidates[index - 1] if 1 <= index <= len(self._candidates) else None
        return None


def _is_within(ids: Sequence[str], place_by_id: Mapping[str, int]) -> bool:
    """Return True if the ids stand in the longer ranking, in the same order."""
    places = [place_by_id.get(doc_id, -1) for doc_id in ids]
    return -1 not in places and places == sorted(places)


def _bare(item: str) -> str:
    return item.strip(_BRACKETS).rstrip(_SENTENCE_ENDS).strip(_BRACKETS)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
