"""Rules of style that a machine can see: docstrings that say what a thing does, in the imperative."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "app" / "plumbline"
# Sentences that readers stumbled over, each rewritten once
_REWRITTEN = (
    "What `work` returns",
    "keeps what the tier inside it says",
    "sees the context variables of whoever",
    "one that computes takes them one after another",
    "Connections at one time",
    "Seconds of work that may wait for that model",
    "rows are written and others are left",
    "run the same command again to go on",
    "which tier spoke and why the others did not",
    "No summary, no whole answer",
    "runs further ahead of its reader",
    "whose manners are known",
    "what was learnt of the provider",
    "It comes twice with one surface",
    "Whatever is repeated may be",
    "Who comes back with Last-Event-ID",
    "is told every state that was missed",
)
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


def test_no_sentence_that_readers_stumbled_over_comes_back() -> None:
    texts = {
        path.relative_to(ROOT).as_posix(): " ".join(path.read_text(encoding="utf-8").split())
        for pattern in ("*.md", "docs/**/*.md", "app/plumbline/**/*.py", "app/plumbline/**/*.toml", "examples/*")
        for path in ROOT.glob(pattern)
        if path.is_file()
    }

    assert {(path, said) for path, text in texts.items() for said in _REWRITTEN if said in text} == set()


@pytest.mark.parametrize("opening", ["What is kept.", "Whether it is so.", "Who asks.", "How many there are."])
def test_a_question_is_found(opening: str) -> None:
    assert faults(f'def f() -> None:\n    """{opening}"""\n') == [f"1: {opening}"]
