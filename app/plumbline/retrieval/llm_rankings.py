"""Parse a ranking out of an LLM's reply, in linear time, whatever its form."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from plumbline.retrieval.ranking_candidates import Candidates, bare_item
from plumbline.retrieval.ranking_text import read_chains, read_lines, read_prose, read_tables
from plumbline.retrieval.ranking_values import WORDS, Meaning, Reading, flat, grade, json_readings, meaning
from plumbline.retrieval.run import ParsedRanking

_THINK: Final = "(?:think(?:ing)?|thoughts?|scratchpad|reasoning|reflection|analysis)>"
_THOUGHTS: Final = re.compile(rf"<{_THINK}.*?(?:</{_THINK}|\Z)", re.IGNORECASE | re.DOTALL)
_THINK_END: Final = re.compile(rf"</{_THINK}", re.IGNORECASE)
_PLAIN_TAG: Final = re.compile(r"</?[A-Za-z_]{1,30}>")
_MARKUP: Final = [(re.compile(each, re.MULTILINE), plain) for each, plain in WORDS.read("layout.markup")]
_PLUS: Final = re.compile(r"^\+ ", re.MULTILINE)
# The last position of a reply that was cut off, whole where positions have one digit.
_CUT_POSITION: Final = re.compile(r"> \[[0-9]\Z")
_TEN: Final = 10
_MAX_UNKNOWN_LENGTH: Final = 200
# A ranking of one has no order.
_FEWEST: Final = 2
# Begins as JSON
_CUT_OFF: Final = re.compile(r"\s*(?:```[a-z]*\s*)?(?:\{|\[\s*[\"{])")
# Of text in lower case.
_RISING: Final = re.compile(WORDS.pattern("prose.rising"))
_INSTRUCTION: Final = re.compile(WORDS.pattern("prose.instructions"))
_RANGE: Final = re.compile(r"[\s\[(【]*(.{1,80}?)\s?(?:[-–—~～至到]|\bto\b)\s?(.{1,80}?)[\])】.。\s]*")


def parse_ranking(text: str, *, candidates: Sequence[str] | None = None, append_missing: bool = False) -> ParsedRanking:
    """Parse the ranking in an LLM's reply; takes time linear in the text and never raises.

    Without its `<think>` blocks, the first form that names a candidate counts: JSON, a table with a header, a chain as
    `[3] > [1]`, lines or pieces between commas that hold an id (numbered, bulleted, with a score), prose that ranks.

    Keys, headings and columns are read by their meaning: ranks rise, scores fall, what is excluded or was only offered
    is no ranking, and a final ranking is preferred to any other. Where that leaves two rankings (scores against the
    written order, numbers that may be ranks or scores, two lists that disagree, prose that turns), neither is taken:
    `parse_ok` is False and `readings` holds both.

    `candidates`: the ids that were offered, in that order. The items of a ranking are all ids, or all positions in that
    order: letters, or numbers from 1, from 0 where a 0 or a reranker's `index` says so. An unknown item before or
    between known ones leaves the ranking unread, unless it is a made-up id of the candidates' form. Without candidates
    every id is taken as known, a number is an id, and prose holds no ids.

    `append_missing`: candidates that a ranking leaves out, and the reply does not exclude, follow it as offered.
    """
    parsed = _parse(text, Candidates(candidates))
    if not (append_missing and parsed.parse_ok):
        return parsed
    left = [each for each in candidates or () if each not in parsed.excluded]
    return replace(parsed, ids=tuple(dict.fromkeys((*parsed.ids, *left))))


def _parse(text: str, known: Candidates) -> ParsedRanking:
    reply = _plain(known.without_marks(_without_reasoning(text)), known)
    fallback: ParsedRanking | None = None
    for form, readings in _forms(reply, known):
        if form == "tokens" and fallback is not None and fallback.unknown:
            break
        resolved = [(meaning(each.label), _resolve(each, form, known)) for each in _join_grades(list(readings))]
        parsed = _add_reverse(_choose(resolved, form), reply, known)
        if form == "lines" and parsed.parse_ok and not _is_whole(parsed, reply, known):
            fallback = ParsedRanking((), parsed.unknown or parsed.ids, 0, parse_ok=False, form=form)
            continue
        if fallback is not None and not set(fallback.excluded).isdisjoint((*parsed.ids, *sum(parsed.readings, ()))):
            break
        if parsed.ids or parsed.readings:
            return parsed
        if parsed.unknown or parsed.excluded:
            fallback = fallback or parsed
    return fallback or ParsedRanking((), (), 0, parse_ok=False, form="none")


def _is_whole(parsed: ParsedRanking, reply: str, known: Candidates) -> bool:
    """Return False if the reply names a candidate that the ranking neither holds nor leaves out."""
    return {*map(known.unmark, known.mentions(known.mark(reply, with_ranks=False)))} <= {
        *parsed.ids,
        *parsed.excluded,
        *parsed.unknown,
    }


def _plain(reply: str, known: Candidates) -> str:
    """Write signs of markup, ticks and key caps as plain text."""
    for pattern, plain in _MARKUP:
        reply = pattern.sub(plain, reply)
    if _PLUS.search(reply):
        reply = reply.replace("\n- ", "\n- ☐ ")
    if known.count < _TEN and _CUT_POSITION.search(reply):
        reply += "]"
    return reply


def _without_reasoning(text: str) -> str:
    """Remove `<think>` blocks, an unclosed one to the end, an unopened one from the start."""
    return _THINK_END.split(_THOUGHTS.sub("", text))[-1]


def _forms(reply: str, candidates: Candidates) -> Iterator[tuple[str, Iterable[Reading]]]:
    reply = _PLAIN_TAG.sub("\n", reply)
    readings, has_unread = json_readings(reply, candidates)
    yield "json", readings
    if has_unread and not readings:
        return
    if _CUT_OFF.match(reply) and not reply.rstrip(" \n`").endswith(("}", "]")):
        return
    marked = candidates.number_positions(candidates.mark(reply, with_ranks=False))
    yield "table", read_tables(marked, candidates)
    yield "chain", read_chains(marked)
    yield "lines", read_lines(marked, candidates)
    if candidates.are_given:
        yield "tokens", read_prose(reply, candidates)


def _join_grades(readings: list[Reading]) -> list[Reading]:
    """Return lists under several grades, `highly relevant` and `partially relevant`, as one, the best grade first."""
    graded = [(grade(each.label), each) for each in readings if meaning(each.label) > Meaning.INPUT]
    grades = [value for value, _ in graded if value]
    if len(grades) < _FEWEST or len(grades) < len(graded) or len(set(grades)) < len(grades):
        return readings
    ordered = [each for _, each in sorted(graded, key=lambda pair: -(pair[0] or 0))]
    others = [each for each in readings if each not in ordered]
    return [Reading([block for each in ordered for block in each.blocks], "relevant"), *others]


def _add_reverse(parsed: ParsedRanking, reply: str, known: Candidates) -> ParsedRanking:
    """Add the reverse as another reading, where the reply says that its ranking rises; none to a repeated prompt."""
    if known.are_as_offered(parsed.ids) and len(parsed.ids) == known.count and _INSTRUCTION.search(reply.lower()):
        return replace(parsed, ids=(), ties=(), parse_ok=False)
    if len(parsed.ids) < _FEWEST or not _RISING.search(reply.lower().replace("_", " ")):
        return parsed
    return replace(parsed, ids=(), ties=(), parse_ok=False, readings=(parsed.ids, parsed.ids[::-1]))


def _choose(parsed: Sequence[tuple[Meaning, ParsedRanking]], form: str) -> ParsedRanking:
    """Return the one ranking among the readings, or two that they may mean."""
    excluded = tuple(dict.fromkeys(doc_id for role, each in parsed if role is Meaning.EXCLUDED for doc_id in each.ids))
    ranked = [(role, each) for role, each in parsed if role > Meaning.INPUT and each.parse_ok]
    broken = [each for _, each in parsed if each.ids and not each.parse_ok]
    if not ranked:
        unknown = tuple(dict.fromkeys(name for role, each in parsed if role > Meaning.INPUT for name in each.unknown))
        return ParsedRanking((), unknown, 0, parse_ok=False, form=form, excluded=excluded)
    highest = max(role for role, _ in ranked)
    top = [each for role, each in ranked if role is highest]
    best = max(top, key=lambda each: len(each.ids))
    place_by_id = {doc_id: place for place, doc_id in enumerate(best.ids)}
    rivals = [each.readings[1] for each in top if each.readings]
    for each in (*top, *broken):
        places = [place_by_id.get(doc_id, -1) for doc_id in each.ids]
        rivals += [each.ids] if -1 in places or places != sorted(places) else []
    if not rivals and not set(best.ids).isdisjoint(excluded):
        rivals = [tuple(doc_id for doc_id in best.ids if doc_id not in excluded)]
    if rivals:
        return replace(best, ids=(), ties=(), parse_ok=False, excluded=excluded, readings=(best.ids, rivals[0]))
    return replace(best, excluded=excluded)


def _resolve(reading: Reading, form: str, candidates: Candidates) -> ParsedRanking:
    """Match the items of a reading to ids; it is unread where nothing explains an item before or between others."""
    items, is_from_zero = flat(reading.blocks), reading.is_from_zero
    matched = candidates.find_all(items, is_from_zero=is_from_zero)
    named = [doc_id for doc_id in matched if doc_id is not None]
    ids = tuple(dict.fromkeys(named))
    missed = {item: bare_item(candidates.unmark(item)) for item, own in zip(items, matched, strict=True) if own is None}
    unknown = tuple(dict.fromkeys(name[:_MAX_UNKNOWN_LENGTH] for name in missed.values() if name))
    last = max((place for place, doc_id in enumerate(matched) if doc_id is not None), default=0)
    strange = [item for item in items[:last] if missed.get(item) and not candidates.is_made_up(item)]
    strange += [
        item for item in missed if (ends := _RANGE.fullmatch(item)) and all(map(candidates.knows, ends.groups()))
    ]
    if not candidates.are_given and (unknown or strange):
        return ParsedRanking((), (), 0, parse_ok=False, form=form)
    if strange:
        return ParsedRanking(ids, unknown, 0, parse_ok=False, form=form)
    found, blocks = iter(matched), reading.blocks
    seen: set[str | None] = {None}
    # set.add returns None: ids that were met before, and what is unknown, stand in no tie.
    first = [[each for _ in block if (each := next(found)) not in seen and not seen.add(each)] for block in blocks]  # type: ignore[func-returns-value]
    ties = tuple(tuple(map(str, block)) for block in first if len(block) > 1)
    others = candidates.find_all(flat(reading.other or []), is_from_zero=is_from_zero)
    other = tuple(dict.fromkeys(doc_id for doc_id in others if doc_id is not None)) or ids
    # Listed as they were offered, the order tells nothing and the scores do.
    is_settled = reading.is_other_written and candidates.are_as_offered(other)
    readings = () if is_settled or None in others or other == ids else (ids, other)
    return ParsedRanking(ids, unknown, len(named) - len(ids), bool(ids), form, ties, (), readings)
