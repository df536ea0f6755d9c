"""Rules of style that a machine can see: docstrings that say what a thing does, in the imperative."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "app" / "plumbline"
_QUESTION = re.compile(r"(What|Whatever|Whether|Who|Whoever|Whose|Whom|How|However|Where|Which)\b")
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line of each definition that has a docstring, and the docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


def faults(source: str) -> list[str]:
    """List the docstrings that open as a question does, by line."""
    return [f"{line}: {text.splitlines()[0]}" for line, text in docstrings(source) if _QUESTION.match(text)]


def test_no_docstring_opens_with_a_question_word() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): lines
        for path in sorted(PACKAGE.rglob("*.py"))
        if (lines := faults(path.read_text(encoding="utf-8")))
    }

    assert found == {}


@pytest.mark.parametrize("opening", ["What is kept.", "Whether it is so.", "Who asks.", "How many there are."])
def test_a_question_is_found(opening: str) -> None:
    assert faults(f'def f() -> None:\n    """{opening}"""\n') == [f"1: {opening}"]
