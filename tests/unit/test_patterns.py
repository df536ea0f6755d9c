"""Regular expressions of the service mean the same on every Python that it runs on."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.making.cases import load_cases
from tests.reading.patterns import kept_patterns, op, parser

_ONE_CHARACTER = {op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY}


def _groups(ops: Any) -> Iterator[list[Any]]:
    """What possessive groups repeat, wherever they stand."""
    for code, argument in ops:
        if code is op.POSSESSIVE_REPEAT and not (len(argument[2]) == 1 and argument[2][0][0] in _ONE_CHARACTER):
            yield list(argument[2])
        for part in argument if isinstance(argument, tuple) else (argument,):
            for each in part if isinstance(part, list) else (part,):
                if isinstance(each, parser.SubPattern):
                    yield from _groups(each)


def _may_lose_its_place(ops: list[Any], *, has_read: bool = False) -> bool:
    """Whether a turn can fail after it has read something and then done more than compare characters.

    Before 3.11.5 the engine then goes on from there, not from where the turn began (python/cpython#106052).
    """
    for index, (code, argument) in enumerate(ops):
        rest = ops[index + 1 :]
        if code in _ONE_CHARACTER:
            has_read = True
        elif code is op.SUBPATTERN:
            return _may_lose_its_place([*argument[3], *rest], has_read=has_read)
        elif code is op.BRANCH and not has_read:
            return any(_may_lose_its_place([*each, *rest]) for each in argument[1])
        elif code in {op.POSSESSIVE_REPEAT, op.MAX_REPEAT, op.MIN_REPEAT} and argument[2][0][0] in _ONE_CHARACTER:
            can_fail = bool(rest) or argument[0] > 0
            if has_read and can_fail:
                return True
            has_read = True
        elif code in {op.ASSERT, op.ASSERT_NOT} and not has_read:
            continue
        elif code is not op.AT:
            return True
    return False


@pytest.mark.parametrize(
    ("pattern", "is_unsafe"), load_cases("patterns", "what_an_early_python_3_11_gets_wrong_is_seen")
)
def test_what_an_early_python_3_11_gets_wrong_is_seen(pattern: str, is_unsafe: bool) -> None:
    assert any(map(_may_lose_its_place, _groups(parser.parse(pattern)))) is is_unsafe


def test_no_possessive_group_loses_its_place() -> None:
    found: dict[str, list[str]] = {}
    count = 0
    for module, _, pattern in kept_patterns():
        count += 1
        if any(map(_may_lose_its_place, _groups(parser.parse(pattern.pattern, pattern.flags)))):
            found.setdefault(module, []).append(pattern.pattern)

    assert found == {}, "write (?>(?:...)*) for (?:...)*+"
    assert count > 100
