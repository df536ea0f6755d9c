"""Split answers and passages into sentences, with their offsets in the text."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from plumbline.ground.deadline import within_deadline
from plumbline.ground.phrases import Phrases
from plumbline.judging.text.blocks import LIST_MARKER, BlockKind, TextBlock, has_word, split_blocks
from plumbline.judging.text.sentence_ends import STRONG_TERMINATORS, Stop, ends_sentence, starts_sentence

# Beyond this distance a bracket or quote is taken for a forgotten one.
_BRACKET_REACH_CHARS = 300
_QUOTE_REACH_CHARS = 60
# Excerpt of the next word; longer than any that is looked for.
_EXCERPT_CHARS = 24

_OPENERS: Final = "([{（［【〔《〈「『“"
_BRACKET_CLOSERS: Final = ")]}）］】〕》〉」』”"
_OPENER_BY_CLOSER = dict(zip(_BRACKET_CLOSERS, _OPENERS, strict=True))
# Marks that look the same on both sides.
_STRAIGHT = frozenset({'"', "**"})
# What it may begin with stands first and alone, as in `_EVENT`.
_MARK = re.compile(rf'[{re.escape(_OPENERS + _BRACKET_CLOSERS)}"*](?:(?<!\*)|\*)')
# A full stop before a small letter or a digit is a decimal point or part of a name. All that it may begin with stands
# first and alone: `re` then runs over the other characters many times as fast.
_RUN = f"[.!?…{STRONG_TERMINATORS}]"
_EVENT = re.compile(
    rf'[{re.escape(_OPENERS)}"；;.!?…{STRONG_TERMINATORS}]'
    rf"(?:(?<!{_RUN})|(?<=\.)(?: \.){{2,}}+|(?<!\.(?=[0-9a-z])){_RUN}*+)"
)
_OPENING = frozenset((*_OPENERS, '"'))
_CLOSERS = frozenset(")]}）］】〕》〉」』”’»›")
_STRAIGHT_CLOSERS = frozenset("\"'*_`~")
_TITLE_MARKS = frozenset("《〈")
_QUOTES = frozenset('"“「『')
_INTRODUCES_QUOTE = frozenset("）)：:，,。！？!?—…；")
_TO_NEXT_WORD = re.compile(r"\s*+[\"'“‘«(（\[{「『《【*_`>#~]{0,8}+(?:<c(?:ite|o)\b[^<>\n]{0,80}>)?\s?")
_SPACE = re.compile(r"\s*+")
_FRONT = re.compile(rf"{LIST_MARKER.pattern}|[A-Za-z]\.(?=\s)")
_CITATION = re.compile(Phrases("judging/text/citation_marks").pattern("sentences.forms"))
_PLAIN_CITATION = "citeturn"
_MAY_CITE = re.compile(rf"[ \t\xa0]{{0,2}}(?:[\[【¹²³⁰⁴-⁹(（\ue200<^]|{_PLAIN_CITATION})")
_SPACED_CITATION = re.compile(rf"[ \t\xa0]{{1,2}}(?={_CITATION.pattern})")


class Sentence(NamedTuple):
    """One sentence; `text` is what lies at [start:end) of the split text, counted in code points."""

    text: str
    start: int
    end: int
    kind: BlockKind


def split_sentences(text: str) -> tuple[Sentence, ...]:
    """Return the sentences of `text` in order; everything outside of them is white space.

    English and Chinese, mixed at will. Headings, table rows and code blocks are one sentence each; for lines and
    blocks see `split_blocks`. In running text and list items:

    - a sentence ends at . ! ? and their full-width kin, at … before a capital, and at the Chinese ；outside of
      brackets; closing quotes, brackets and citations such as [1] or (Smith, 2020) stay with it;
    - a stop inside a bracket or short quote in mid-sentence does not end it;
    - . ends a sentence also before a small letter, so that texts without capitals are split, unless the word before it
      is a known abbreviation;
    - a list marker stays with the first sentence of its item.

    What holds no letter or digit is of kind "markup". Linear in the length of the text.
    """
    is_cased = text != text.lower()
    return tuple(
        Sentence(text[start:end], start, end, block.kind)
        for block in split_blocks(text)
        for start, end in within_deadline(_spans(text, block, is_cased=is_cased))
    )


def _spans(text: str, block: TextBlock, *, is_cased: bool) -> list[tuple[int, int]]:
    if block.kind not in ("prose", "list_item"):
        return [(block.start, block.end)]
    event = _EVENT.search(text, block.start, block.end)
    if event is None or event.end() == block.end:
        return [(block.start, block.end)]
    spans = list(_Splitter(text, block, is_cased=is_cased).spans())
    if len(spans) > 1 and not has_word(text, *spans[-1]):
        # A smiley or a stray quote after the last stop is no sentence; what a stop ends has a word.
        spans[-2:] = [(spans[-2][0], spans[-1][1])]
    return spans


class _Splitter:
    def __init__(self, text: str, block: TextBlock, *, is_cased: bool) -> None:
        self._text = text
        self._block = block
        self._is_cased = is_cased
        self._close_by_open = _match_pairs(text, block.start, block.end)
        self._closing = frozenset(self._close_by_open.values())
        # "[1] First passage. [2] Second passage." has its numbers in front.
        self._is_numbered_in_front = _CITATION.match(text, block.start, block.end) is not None
        self._begin(block.start)

    def spans(self) -> Iterator[tuple[int, int]]:
        # Not by sentence: of a megabyte of marks that end nothing there is one.
        for match in within_deadline(_EVENT.finditer(self._text, self._block.start, self._block.end)):
            at = match.start()
            if at < self._guard:
                continue
            if at in self._close_by_open:
                self._enter(at)
            elif (run := match.group()) not in _OPENING and (end := self._end_at(at, run)) is not None:
                yield self._start, end
                self._begin(_after(_SPACE, self._text, end, self._block.end))
        if self._start < self._block.end:
            yield self._start, self._block.end

    def _begin(self, start: int) -> None:
        """Start a sentence; a list marker at its start is never cut off."""
        self._start = start
        self._enclosed_until = self._embedded_until = start
        self._is_bracket = False
        self._searched = start
        self._has_word = False
        self._guard = _after(_FRONT, self._text, start, self._block.end)

    def _enter(self, opening: int) -> None:
        closing = self._close_by_open[opening]
        mark = self._text[opening]
        is_quote = mark in _QUOTES
        if closing - opening > (_QUOTE_REACH_CHARS if is_quote else _BRACKET_REACH_CHARS):
            return
        self._enclosed_until = max(self._enclosed_until, closing)
        before = self._text[max(self._start, opening - 2) : opening].strip()
        if mark not in _TITLE_MARKS and opening == self._start:
            return
        if is_quote and before[-1:] in _INTRODUCES_QUOTE:
            return
        if closing > self._embedded_until:
            self._embedded_until = closing
            self._is_bracket = not is_quote

    def _end_at(self, at: int, run: str) -> int | None:
        if not self._has_word:
            begins_with_word = self._text[self._searched].isalpha() and self._searched < at
            self._has_word = begins_with_word or has_word(self._text, self._searched, at)
            self._searched = at
        if not self._has_word:
            return None
        stop = self._stop_at(at, run)
        self._guard = stop.end
        if at < self._embedded_until and not self._ends_with_embedded(stop):
            return None
        if run in ";；" and at < self._enclosed_until:
            return None
        return stop.end if ends_sentence(stop) else None

    def _ends_with_embedded(self, stop: Stop) -> bool:
        """Return True if a stop right before the closing mark of a bracket or quote may end the sentence."""
        if stop.end <= self._embedded_until:
            return False
        if self._is_bracket:
            return starts_sentence(stop.following, is_cased=stop.is_cased) or stop.end == stop.limit
        return stop.has_gap or "。" in stop.run

    def _stop_at(self, at: int, run: str) -> Stop:
        text, limit = self._text, self._block.end
        run_end = closed_end = end = at + len(run)
        next_word = run_end + 1
        # Mostly a blank and a word follow; the rest is asked for only where it may be.
        is_plain = next_word < limit and text[run_end] == " " and text[next_word].isalpha()
        if not is_plain or text.startswith(_PLAIN_CITATION, next_word):
            closed_end = self._skip_closers(run_end)
            end = self._skip_citations(closed_end)
            next_word = _after(_TO_NEXT_WORD, text, end, limit)
        following = text[next_word : min(limit, next_word + _EXCERPT_CHARS)]
        has_gap = end == limit or text[end].isspace()
        return Stop(
            text, at, run, end, limit, following, has_gap, closed_end > run_end, end > closed_end, self._is_cased
        )

    def _skip_closers(self, position: int) -> int:
        limit = self._block.end
        while position < limit:
            mark = self._text[position]
            if mark not in _CLOSERS and not (mark in _STRAIGHT_CLOSERS and self._closes(position)):
                break
            position += 1
        return position

    def _closes(self, position: int) -> bool:
        if position in self._closing or position - 1 in self._closing:
            return True
        if position in self._close_by_open or position + 1 == self._block.end:
            return position not in self._close_by_open
        after = self._text[position + 1]
        return after.isspace() or after in _CLOSERS or after in _STRAIGHT_CLOSERS

    def _skip_citations(self, position: int) -> int:
        limit = self._block.end
        while position < limit and _MAY_CITE.match(self._text, position, limit):
            start = position
            if not self._is_numbered_in_front:
                start = _after(_SPACED_CITATION, self._text, position, limit)
            citation = _CITATION.match(self._text, start, limit)
            if citation is None:
                break
            position = citation.end()
        return position


def _after(pattern: re.Pattern[str], text: str, position: int, limit: int) -> int:
    match = pattern.match(text, position, limit)
    return match.end() if match else position


def _match_pairs(text: str, start: int, end: int) -> dict[int, int]:
    """Return the index of the closing mark by that of the opening mark, for the pairs within text[start:end].

    A closing mark drops the unclosed ones that it jumps over, so every mark is popped once at most: linear.
    """
    close_by_open: dict[int, int] = {}
    unclosed: list[tuple[str, int]] = []
    count_by_opener: Counter[str] = Counter()
    for match in within_deadline(_MARK.finditer(text, start, end)):
        mark = match.group()
        opener = _OPENER_BY_CLOSER.get(mark)
        if mark in _STRAIGHT:
            is_after_space = match.start() == start or text[match.start() - 1].isspace()
            is_before_space = match.end() == end or text[match.end()].isspace()
            if count_by_opener[mark] and (is_before_space or not is_after_space):
                opener = mark
            elif is_before_space and not is_after_space:
                # Nothing opened it, and it can only close: the inch mark of 6' 2" tall.
                continue
        if opener is None:
            unclosed.append((mark, match.start()))
            count_by_opener[mark] += 1
        elif count_by_opener[opener]:
            opened, index = "", 0
            while opened != opener:
                opened, index = unclosed.pop()
                count_by_opener[opened] -= 1
            close_by_open[index] = match.start()
    return close_by_open
