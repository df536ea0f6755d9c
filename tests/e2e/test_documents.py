"""The commands and snippets of the READMEs and of docs/ work, and print what stands beneath them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from plumbline.main import create_app
from plumbline.models.encoder.encoder import SharedEncoder
from tests.running.document import matches, run, steps_of
from tests.running.service import plain_settings, served

ROOT = Path(__file__).parents[2]
# In a page whose code a test of its own runs
_ELSEWHERE = re.compile(r"^<!-- run by (tests/[\w/]+\.py) -->$", re.MULTILINE)
TESTS = {
    page: _ELSEWHERE.findall(page.read_text(encoding="utf-8"))
    for page in [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("README*.md"))]
}
# Fragments of Python alone, without an output, are for frameworks that need not be here
PAGES = [
    page
    for page, tests in TESTS.items()
    if not tests and any(step.language == "bash" or step.printed for step in steps_of(page))
]


@pytest.fixture(scope="module")
def service(real_encoder: SharedEncoder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = plain_settings(data_dir=tmp_path_factory.mktemp("data"), deadline_seconds=60)
    with served(create_app(settings, encoder=real_encoder)) as url:
        yield url


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_page_works_from_top_to_bottom(
    page: Path, service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)

    for step in steps_of(page):
        output = run(step, service)

        assert step.printed is None or matches(output, step.printed), f"{step.code}\nprinted\n{output}"


def test_the_tests_that_pages_name_exist() -> None:
    assert [test for tests in TESTS.values() for test in tests if not (ROOT / test).exists()] == []
