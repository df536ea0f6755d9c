""".github/SECURITY.md: each risk has its row, and the code and tests that it names exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / ".github" / "SECURITY.md").read_text(encoding="utf-8")
ROWS = {found[1]: found[2] for found in re.finditer(r"^\| ((?:API|LLM)\d+) (.+)\|$", PAGE, re.MULTILINE)}


def test_each_risk_of_both_lists_has_its_row() -> None:
    assert list(ROWS) == [f"API{n}" for n in range(1, 11)] + [f"LLM{n:02}" for n in range(1, 11)]


@pytest.mark.parametrize("risk", ROWS)
def test_a_row_names_code_and_tests_that_exist(risk: str) -> None:
    *_, where, held_by = ROWS[risk].strip().split("|")
    code, tests = (re.findall(r"`([^`]+)`", cell) for cell in (where, held_by))

    assert code
    assert tests
    assert all(test.startswith("tests/") for test in tests)
    assert [name for name in [*code, *tests] if not (ROOT / name).is_file()] == []


def test_what_is_named_beside_the_rows_exists_too() -> None:
    names = set(re.findall(r"`((?:docs|app|tests)/[\w/.-]+|deploy/[\w.-]+)`", PAGE))
    targets = set(re.findall(r"`make ([a-z-]+)`", PAGE))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    assert [name for name in names if not (ROOT / name).exists()] == []
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
