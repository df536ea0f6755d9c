"""Which opening bracket or quote belongs to which closing one."""

import re
from collections import Counter
from typing import Final

OPENERS: Final = "([{（［【〔《〈「『“"
_CLOSERS: Final = ")]}）］】〕》〉」』”"
_OPENER_BY_CLOSER = dict(zip(_CLOSERS, OPENERS, strict=True))
# Marks that look the same on both sides.
_STRAIGHT = frozenset({'"', "**"})
# What it may begin with stands first and alone, as in `segmentation`.
_MARK = re.compile(rf'[{re.escape(OPENERS + _CLOSERS)}"*](?:(?<!\*)|\*)')


def match_pairs(text: str, start: int, end: int) -> dict[int, int]:
    """Index of the closing mark by index of the opening mark, for the pairs within text[start:end].

    Marks without a partner are left out. A closing mark drops the unclosed ones that it jumps over, so every mark is
    pushed and popped once at most and the time is linear.
    """
    close_by_open: dict[int, int] = {}
    unclosed: list[tuple[str, int]] = []
    count_by_opener: Counter[str] = Counter()
    for match in _MARK.finditer(text, start, end):
        opener = _opener_closed_by(match, count_by_opener, start, end)
        if opener is None:
            if not _is_stray(match, start, end):
                unclosed.append((match.group(), match.start()))
                count_by_opener[match.group()] += 1
        elif count_by_opener[opener]:
            close_by_open[_pop_to(opener, unclosed, count_by_opener)] = match.start()
    return close_by_open


def _opener_closed_by(match: re.Match[str], count_by_opener: Counter[str], start: int, end: int) -> str | None:
    """The mark that this one closes; None when it opens."""
    mark = match.group()
    if mark not in _STRAIGHT:
        return _OPENER_BY_CLOSER.get(mark)
    if not count_by_opener[mark]:
        return None
    is_after_space = match.start() == start or match.string[match.start() - 1].isspace()
    is_before_space = match.end() == end or match.string[match.end()].isspace()
    looks_opening = is_after_space and not is_before_space
    return None if looks_opening else mark


def _is_stray(match: re.Match[str], start: int, end: int) -> bool:
    """Whether a straight quote that nothing opened can only close, like the inch mark of 6' 2" tall."""
    if match.group() not in _STRAIGHT:
        return False
    is_after_space = match.start() == start or match.string[match.start() - 1].isspace()
    is_before_space = match.end() == end or match.string[match.end()].isspace()
    return is_before_space and not is_after_space


def _pop_to(opener: str, unclosed: list[tuple[str, int]], count_by_opener: Counter[str]) -> int:
    while True:
        mark, index = unclosed.pop()
        count_by_opener[mark] -= 1
        if mark == opener:
            return index
