"""Rankings that an LLM wrote, as ids: in whatever form they came, what was dropped on the way, whether it worked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from plumbline.retrieval.ranking_forms import bracketed, chained, listed, without_reasoning
from plumbline.retrieval.ranking_json import json_rankings
from plumbline.retrieval.ranking_tokens import CandidateTokens

_QUOTES: Final = " \t\r\n\"'`“”‘’*"
_DECORATION: Final = _QUOTES + "()[]{}<>（）【】［］「」《》.,;:!?，。；：、！？"
_BRACKETS: Final = _QUOTES + "()[]（）【】［］「」"
_SENTENCE_ENDS: Final = ".,;:!?，。；：、！？"
_MAX_INDEX_DIGITS: Final = 6
_MAX_UNKNOWN_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class ParsedRanking:
    """What a reply ranks.

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
    """The ranking in an LLM's reply; takes time linear in the text, and raises for no text.

    `<think>` blocks go first, an unclosed one to the end of the text. Then the first form that names a candidate:

    - `json`: a list of ids, of objects with an id, or of pairs; an object that holds such a list, maps ranks to ids or
      ids to scores; in a code fence or not. The order is that of the list, whatever scores stand beside the ids.
    - `chain`: `[3] > [1]`, `doc_5 > doc_1`, `[doc_5], [doc_1]`, with ASCII or full-width signs.
    - `lines`: numbered or bulleted lines, of which the rank is stripped; else lines or comma-separated pieces that
      hold nothing but an id.
    - `tokens`: candidates as whole tokens in the order in which they appear (never without candidates).

    Within a form that occurs several times, the occurrence that names the most candidates is read. When no form names
    a candidate, the first that names anything is reported through `unknown`.

    Args:
        text: the reply.
        candidates: the ids that were offered, in the order in which they were offered. When none of them is a number,
            a number n stands for the n-th of them, from 1. Without candidates every id is taken as known, a number
            is an id, and prose holds no ids.
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
    """Tells ids from everything else, with or without candidates."""

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
        """Without candidates the first occurrence is as good as any."""
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
