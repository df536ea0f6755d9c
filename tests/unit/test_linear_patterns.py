"""No search takes the square of a text's length: a run of one character is not read anew from each of its places."""

import ast
import importlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.making.cases import load_cases
from tests.reading.patterns import REPEATS, kept_patterns, op, parser

_TRIED = frozenset([*map(chr, range(32, 127)), *"\n\t\r\u00a0éü’“”。，、！？：；（）【】「」…—–·•中一二三百年月日的不"])
_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d", op.CATEGORY_NOT_DIGIT: r"\D", op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S", op.CATEGORY_WORD: r"\w", op.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip
# Functions of ours that search for their first argument.
_HANDED_TO = {"find_in_pieces", "_count"}
_SEARCHING = {"search", "finditer", "findall", "sub", "subn", "split"}
# The last of its alternatives takes the whole of a run that the first two gave up.
_TAKES_THE_RUN = {("plumbline.extras.lab.corpus", "_WORD")}


def _characters(code: Any, argument: Any, flags: int) -> frozenset[str] | None:
    """Return those of the characters tried that a part of one character reads; None for any other part."""
    if code is op.ANY:
        return _TRIED if flags & re.DOTALL else _TRIED - {"\n"}
    if code in (op.LITERAL, op.NOT_LITERAL):
        code, argument = op.IN, [(op.NEGATE, None)] * (code is op.NOT_LITERAL) + [(op.LITERAL, argument)]
    if code is not op.IN:
        return None
    read: set[str] = set()
    for kind, value in argument:
        if kind is op.CATEGORY:
            read |= {each for each in _TRIED if re.match(_CATEGORIES[value], each)}
        elif kind in (op.LITERAL, op.RANGE):
            first, last = (value, value) if kind is op.LITERAL else value
            forms = (str, str.lower, str.upper) if flags & re.IGNORECASE else (str,)
            read |= {each for each in _TRIED if any(first <= ord(form(each)) <= last for form in forms)}
    return _TRIED - read if argument[0][0] is op.NEGATE else frozenset(read)


def _inner(code: Any, argument: Any, flags: int) -> tuple[list[Any], int] | None:
    if code is op.SUBPATTERN:
        return list(argument[3]), (flags | argument[1]) & ~argument[2]
    return (list(argument), flags) if code is op.ATOMIC_GROUP else None


def _can_fail(parts: Iterable[Any]) -> bool:
    for code, argument in parts:
        if code in REPEATS:
            if argument[0] and _can_fail(argument[2]):
                return True
        elif code is op.BRANCH:
            if all(map(_can_fail, argument[1])):
                return True
        elif inner := _inner(code, argument, 0):
            if _can_fail(inner[0]):
                return True
        else:
            return True
    return False


def _reads(parts: Iterable[Any], flags: int, character: str) -> bool:
    """Return True if the parts can be read from a run of the character."""
    for code, argument in parts:
        characters = _characters(code, argument, flags)
        if characters is not None:
            fits = character in characters
        elif code in REPEATS:
            fits = not argument[0] or _reads(argument[2], flags, character)
        elif code is op.BRANCH:
            fits = any(_reads(each, flags, character) for each in argument[1])
        elif inner := _inner(code, argument, flags):
            fits = _reads(*inner, character)
        else:
            fits = code in (op.ASSERT, op.ASSERT_NOT)
        if not fits:
            return False
    return True


def _rereads_a_run(  # noqa: C901, PLR0911 - one walk over all kinds of parts
    parts: list[Any], flags: int, common: frozenset[str] = _TRIED
) -> bool:
    """Return True if the pattern, tried at each place of a run of one character, reads to its end and can fail there.

    `common`: characters that all parts before these read. What looks behind or at an edge is taken for a guard.
    """
    for index, (code, argument) in enumerate(parts):
        rest = parts[index + 1 :]
        characters = _characters(code, argument, flags)
        if characters is not None:
            common &= characters
            if not common:
                return False
        elif code in REPEATS:
            body = list(argument[2])
            if argument[1] is op.MAXREPEAT and _can_fail(rest) and any(_reads(body, flags, each) for each in common):
                return True
            if _rereads_a_run([*body, *rest], flags, common):
                return True
            if argument[0]:
                return False
        elif code is op.BRANCH:
            return any(_rereads_a_run([*each, *rest], flags, common) for each in argument[1])
        elif inner := _inner(code, argument, flags):
            # Its flags end with the group; what follows is judged with them, too, which errs on the safe side.
            return _rereads_a_run([*inner[0], *rest], inner[1], common)
        elif not (code in (op.ASSERT, op.ASSERT_NOT) and argument[0] > 0):
            return False
    return False


@cache
def _searched(module: str) -> set[str]:
    """Return the names of a module whose patterns are tried at each place of a text."""
    tree = ast.parse(Path(str(importlib.import_module(module).__file__)).read_text(encoding="utf-8"))
    handed = [
        node.args[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _HANDED_TO
    ]
    called = [node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in _SEARCHING]
    return {node.id for node in (*handed, *called) if isinstance(node, ast.Name)}


@pytest.mark.parametrize(("pattern", "rereads"), load_cases("linear_patterns", "a_search_that_reads_runs_anew_is_seen"))
def test_a_search_that_reads_runs_anew_is_seen(pattern: str, rereads: bool) -> None:
    assert _rereads_a_run(list(parser.parse(pattern)), 0) is rereads


def test_no_search_reads_a_run_anew_from_each_of_its_places() -> None:
    found = {
        (module, name)
        for module, name, pattern in kept_patterns()
        if isinstance(pattern.pattern, str)
        and _rereads_a_run(list(parser.parse(pattern.pattern, pattern.flags)), pattern.flags)
    }

    assert {each for each in found if each[1] in _searched(each[0])} <= _TAKES_THE_RUN
    assert len(found) > 10
