"""READMEs, the pages they link to and SECURITY.md name what exists; generated pages are those of the code."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reading.generated_pages import PAGES as GENERATED
from tests.reading.generated_pages import READMES, ROOT, headings, highest_scores

PAGES = [
    *READMES,
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / f"{name}.md" for name in ("ARCHITECTURE", ".github/CONTRIBUTING", ".github/SECURITY")),
]
LONGEST_README = 200
SECURITY = (ROOT / ".github" / "SECURITY.md").read_text(encoding="utf-8")
RISKS = {found[1]: found[2] for found in re.finditer(r"^\| ((?:API|LLM)\d+) (.+)\|$", SECURITY, re.MULTILINE)}


@pytest.mark.parametrize("page", GENERATED, ids=lambda page: page.name)
def test_a_generated_page_is_that_of_the_code(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == GENERATED[page](), "run `make pages`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_make_target_and_file_of_a_page_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert list(_broken_links(page, text)) == []
    files = set(re.findall(r"`((?:docs|\.github)/[\w/.-]+|[A-Z]+\.md)`", text))
    assert {file for file in files if not (ROOT / file).exists()} == set()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`make ([a-z-]+)", text)) | set(re.findall(r"^make ([a-z-]+)", text, re.MULTILINE))
    assert {target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)} == set()


@pytest.mark.parametrize("readme", READMES, ids=lambda page: page.name)
def test_a_readme_is_read_in_a_sitting(readme: Path) -> None:
    assert len(readme.read_text(encoding="utf-8").splitlines()) <= LONGEST_README


def test_both_readmes_link_to_the_same_pages() -> None:
    english, chinese = (
        {
            page.replace(".zh.", ".")
            for page in re.findall(r"\]\((docs/[\w./-]+\.md)", readme.read_text(encoding="utf-8"))
        }
        for readme in READMES
    )

    # GitHub shows that page in English as ARCHITECTURE.md
    assert english == chinese - {"docs/explanation/architecture.md"}


def test_the_highest_score_of_each_tier_is_that_of_its_calibrations() -> None:
    for page in (READMES[0], ROOT / "docs" / "explanation" / "tiers.md"):
        assert highest_scores() in page.read_text(encoding="utf-8"), page


def test_each_risk_of_both_lists_has_its_row() -> None:
    assert list(RISKS) == [f"API{n}" for n in range(1, 11)] + [f"LLM{n:02}" for n in range(1, 11)]


@pytest.mark.parametrize("risk", RISKS)
def test_a_row_names_code_and_tests_that_exist(risk: str) -> None:
    *_, where, held_by = RISKS[risk].strip().split("|")
    code, tests = (re.findall(r"`([^`]+)`", cell) for cell in (where, held_by))

    assert code
    assert tests
    assert all(test.startswith("tests/") for test in tests)
    assert [name for name in [*code, *tests] if not (ROOT / name).is_file()] == []


def test_what_is_named_beside_the_rows_exists_too() -> None:
    names = set(re.findall(r"`((?:docs|app|tests)/[\w/.-]+|deploy/[\w.-]+)`", SECURITY))

    assert [name for name in names if not (ROOT / name).exists()] == []


def _broken_links(page: Path, text: str) -> Iterator[str]:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (page.parent / path) if path else page
        if not file.exists() or (anchor and anchor not in set(headings(file.read_text(encoding="utf-8")))):
            yield target
