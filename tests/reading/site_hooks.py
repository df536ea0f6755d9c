"""Hooks of the site (`make docs`): Markdown twins of the pages, llms.txt, checks that every link leads somewhere."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

_LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=[\"']?(https?:)?//"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preload|preconnect|modulepreload|icon))[^>]*\bhref=[\"']?(https?:)?//"
)
_CHINESE_BREAK = re.compile(r"(?<=[\u3001-\u9fff\uff00-\uffef])\n *(?=[\u3001-\u9fff\uff00-\uffef])")
# On a Chinese page such a link would lead to the page itself: the site puts the Chinese page in the English one's place
_TO_ENGLISH = re.compile(r'(?<=<a href=")([^"#:]+)([^"]*">英文[页版]</a>)')
_TO_ENGLISH_MARKDOWN = re.compile(r"(?<=\[英文[页版]\]\()([^)#:]+)()")
_ENGLISH_ONLY = '!!! note "本页只有英文"\n    {}\n\n'
_INSTEAD = {
    "reference/http.md": "中文说明见[结果怎么读](../how-to/results.md)和[给大量数据评分](../how-to/many-rows.md)。",
    "reference/cli.md": "中文说明见[给大量数据评分](../how-to/many-rows.md)和[报告](../how-to/report.md)。",
    "reference/python.md": "中文说明和例子见[Python 客户端](../how-to/client.md)。",
    "decisions": "各项决定的结论见[设计决定一览](index.md)。",
}
_LINK = re.compile(r'<a\b[^>]*\bhref="([^"]*)"')
_ANCHOR = re.compile(r'\b(?:id|name)="?([^"\s>]+)')
_SNIPPET = re.compile(r'^--8<-- "(.+)"$', re.MULTILINE)
# Of llms.txt: the description first, then by page, in the order of the navigation, its section and its line
_head: list[str] = []
_lines: dict[str, tuple[str, str]] = {}
_anchors_by_page: dict[str, set[str]] = {}


def on_nav(nav: Any, *, config: Any, files: Any) -> Any:
    """Note the order of the pages, and the description of the first language."""
    _head.append(f"# {config['site_name']}\n\n> {config['site_description']}\n")
    for page in nav.pages:
        section = page.ancestors[-1].title if page.ancestors else page.title
        _lines[page.file.dest_uri] = (section, "")
    return nav


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Join the lines of a Chinese paragraph, which HTML would part by a blank; say which pages are English."""
    if _is_chinese(page) and not page.file.src_uri.endswith(".zh.md"):
        said = _INSTEAD.get(page.file.src_uri, _INSTEAD.get(posixpath.dirname(page.file.src_uri), ""))
        return re.sub(r"(?<=\n)\n", f"\n{_ENGLISH_ONLY.format(said)}", f"{markdown}\n", count=1)
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _CHINESE_BREAK.sub("", part) for part in parts)


def on_page_content(html: str, *, page: Any, config: Any, files: Any) -> str:
    """Write the Markdown of the page beside it, with what its snippets include; point links at the English pages."""
    place = page.file.dest_uri
    markdown = _SNIPPET.sub(lambda snippet: Path(snippet[1]).read_text(encoding="utf-8"), page.markdown)
    markdown = markdown.replace(".zh.md", ".md")  # the twins of zh/ have the names of the English ones
    if _is_chinese(page):
        html = _TO_ENGLISH.sub(lambda link: _english(place, link[1]) + link[2], html)
        markdown = _TO_ENGLISH_MARKDOWN.sub(lambda link: _english(place, link[1]), markdown)
    path = Path(place).with_suffix(".md")
    twin = Path(config["site_dir"], path)
    twin.parent.mkdir(parents=True, exist_ok=True)
    twin.write_text(markdown, encoding="utf-8")

    if not _is_chinese(page) or page.file.src_uri.endswith(".zh.md"):
        section, _ = _lines[place]
        line = f"- [{page.title}]({path.as_posix()}): {_first_sentence(markdown)}\n"
        _lines[place] = (section, line)
    return html


def on_post_build(*, config: Any) -> None:
    """Write llms.txt; refuse a page that would load something from another host, or a link that leads nowhere.

    A map of the site needs its address (SITE_URL): without one it would name pages that are nowhere.
    """
    site = Path(config["site_dir"])
    if not config["site_url"]:
        for name in ("sitemap.xml", "sitemap.xml.gz"):
            (site / name).unlink(missing_ok=True)
    sections: dict[str, list[str]] = {}
    for section, line in _lines.values():
        if line:
            sections.setdefault(section, []).append(line)
    text = "".join(f"\n## {section}\n\n{''.join(lines)}" for section, lines in sections.items())
    (site / "llms.txt").write_text(_head[0] + text, encoding="utf-8")
    texts = {page.relative_to(site).as_posix(): page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    for page, html in texts.items():
        if found := _LOADED.search(html):
            raise SystemExit(f"{page}: loads from elsewhere: {found[0]}")
    if not any(page.startswith("zh/") for page in texts):
        return  # the languages are built one after the other
    if broken := [
        f"{page}: {link}" for page in texts if page != "404.html" for link in _broken_links(site, page, texts)
    ]:
        raise SystemExit("links that lead nowhere:\n" + "\n".join(broken))


def _is_chinese(page: Any) -> bool:
    return bool(page.file.dest_uri.startswith("zh/"))


def _english(place: str, link: str) -> str:
    """Point a link of a Chinese page at the page of that name in the English part of the site."""
    folder = posixpath.dirname(place)
    return posixpath.relpath(posixpath.normpath(posixpath.join(folder, link)).removeprefix("zh/"), folder)


def _broken_links(site: Path, page: str, texts: dict[str, str]) -> Iterator[str]:
    for link in _LINK.findall(texts[page]):
        path, _, anchor = unquote(link).partition("#")
        if re.match(r"[a-z]+:", path):
            continue
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
        target = target if (site / target).is_file() else posixpath.join(target, "index.html").removeprefix("./")
        if not (site / target).is_file() or (anchor and target in texts and anchor not in _anchors(texts, target)):
            yield link


def _anchors(texts: dict[str, str], page: str) -> set[str]:
    if page not in _anchors_by_page:
        _anchors_by_page[page] = set(_ANCHOR.findall(texts[page]))
    return _anchors_by_page[page]


def _first_sentence(markdown: str) -> str:
    prose = re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    paragraph = next((part for part in re.split(r"\n\s*\n", prose) if re.match(r"[\w`*\[]", part)), "")
    plain = re.sub(r"\[([^\]`]+)\]\([^)]*\)", r"\1", " ".join(paragraph.split())).replace("**", "")
    return re.split(r"(?<=[.。])\s*(?=[A-Z\u4e00-\u9fff]|$)", plain)[0]
