"""The site's navigation has every page of docs/, in both languages."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
# Made from English texts of the code, or records of their day; the Chinese site says so and names the Chinese page
ENGLISH_ONLY = re.compile(r"reference/(http|cli|python|licences|words)|decisions/\d+-[\w-]+")
NAV = CONFIG[CONFIG.index("\nnav:") :]


def test_every_page_is_in_the_navigation_once() -> None:
    pages = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md") if not page.name.endswith(".zh.md"))

    # A new page needs its line under `nav` in mkdocs.yml, its title a Chinese one under `nav_translations`
    assert sorted(re.findall(r"[\w/-]+\.md", NAV)) == pages


def test_every_title_of_the_navigation_has_a_chinese_one() -> None:
    titles = set(re.findall(r"- ([^:\n]+):", NAV))
    translated = CONFIG[CONFIG.index("nav_translations:") : CONFIG.index("markdown_extensions:")]

    assert titles - set(re.findall(r"^ +([^:\n]+): [^\n]*[\u4e00-\u9fff]", translated, re.MULTILINE)) == set()


def test_what_a_user_reads_first_is_there_in_chinese_too() -> None:
    english = {
        page.relative_to(DOCS).with_suffix("").as_posix()
        for page in DOCS.rglob("*.md")
        if not page.name.endswith(".zh.md") and not page.with_suffix(".zh.md").exists()
    }

    assert {page for page in english if not ENGLISH_ONLY.fullmatch(page)} == set()


def test_a_chinese_page_links_to_chinese_pages() -> None:
    english = {
        f"{page.relative_to(ROOT)}: {link}"
        for page in [ROOT / "README.zh-CN.md", *DOCS.rglob("*.zh.md")]
        for name, link in re.findall(r"\[([^\]]+)\]\(([\w./-]+)(?<!\.zh)\.md", page.read_text(encoding="utf-8"))
        if name not in {"英文版", "英文页"} and (page.parent / f"{link}.zh.md").exists()
    }

    assert english == set()


@pytest.mark.parametrize("chinese", sorted(DOCS.rglob("*.zh.md")), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_a_chinese_page_has_the_sections_of_the_english_one(chinese: Path) -> None:
    english = chinese.with_name(chinese.name.replace(".zh.", "."))
    included = ROOT / "ARCHITECTURE.md" if chinese.stem == "architecture.zh" else english

    assert _levels(chinese) == _levels(included)


def _levels(page: Path) -> list[str]:
    return re.findall(r"^#+(?= )", _CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)


# Words of STYLE.md and of the design that readers do not search for; in Chinese, terms that the word list replaces
_DISCOURAGED = re.compile(
    r"\b(?:whoever|nobody|(?:is|are) told|goes on|begun|beside|at one time|test cases?|ground.truth|user_input)\b"
    r"|(?:^|\. |\| )(?:What|Whatever|Whether|Who|Whoever|How) [^?|\n]*\.(?:\s|$)"
    r"|论断|(?<!最低)级别|词语重合|幻觉比例|真实性|(?<!查)资料|(?<!参考)答案|[这两三后某]一?级(?!联)|这一层(?!级)|裁判|标志|阈值|有支持|你",
    re.MULTILINE,
)
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|<!--.*?-->", re.MULTILINE | re.DOTALL)
# Records of their day, and what the code says itself
_AS_WRITTEN = {"decisions", "reference/http.md", "reference/cli.md", "reference/python.md"}


_PROSE = [
    *(page for page in sorted(DOCS.rglob("*.md")) if not _AS_WRITTEN & {page.parent.name, str(page.relative_to(DOCS))}),
    *(page for folder in (ROOT, ROOT / ".github") for page in sorted(folder.glob("*.md")) if page.stem != "CHANGELOG"),
]


@pytest.mark.parametrize("page", _PROSE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_uses_the_words_of_the_field(page: Path) -> None:
    prose = _CODE.sub("", page.read_text(encoding="utf-8"))

    assert [found[0] for found in _DISCOURAGED.finditer(prose)] == []
