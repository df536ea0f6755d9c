"""Hooks of the site (`make docs`): Markdown twins of the pages, llms.txt, a check that nothing foreign is loaded."""

import re
from pathlib import Path
from typing import Any

_LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=[\"']?(https?:)?//"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preload|preconnect|modulepreload|icon))[^>]*\bhref=[\"']?(https?:)?//"
)
_CHINESE_BREAK = re.compile(r"(?<=[\u3001-\u9fff\uff00-\uffef])\n *(?=[\u3001-\u9fff\uff00-\uffef])")
_SNIPPET = re.compile(r'^--8<-- "(.+)"$', re.MULTILINE)
# Of llms.txt: the description first, then by page, in the order of the navigation, its section and its line
_head: list[str] = []
_lines: dict[str, tuple[str, str]] = {}


def on_nav(nav: Any, *, config: Any, files: Any) -> Any:
    """Note the order of the pages, and the description of the first language."""
    _head.append(f"# {config['site_name']}\n\n> {config['site_description']}\n")
    for page in nav.pages:
        section = page.ancestors[-1].title if page.ancestors else page.title
        _lines[page.file.dest_uri] = (section, "")
    return nav


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Join the lines of a Chinese paragraph, which HTML would part by a blank."""
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _CHINESE_BREAK.sub("", part) for part in parts)


def on_page_content(html: str, *, page: Any, config: Any, files: Any) -> str:
    """Write the Markdown of the page beside it, with what its snippets include."""
    markdown = _SNIPPET.sub(lambda snippet: Path(snippet[1]).read_text(encoding="utf-8"), page.markdown)
    path = Path(page.file.dest_uri).with_suffix(".md")
    markdown = markdown.replace(".zh.md", ".md")  # the twins of zh/ have the names of the English ones
    twin = Path(config["site_dir"], path)
    twin.parent.mkdir(parents=True, exist_ok=True)
    twin.write_text(markdown, encoding="utf-8")

    if path.parts[0] != "zh" or page.file.src_uri.endswith(".zh.md"):
        section, _ = _lines[page.file.dest_uri]
        line = f"- [{page.title}]({path.as_posix()}): {_first_sentence(markdown)}\n"
        _lines[page.file.dest_uri] = (section, line)
    return html


def on_post_build(*, config: Any) -> None:
    """Write llms.txt; refuse a page that would load something from another host.

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
    for page in site.rglob("*.html"):
        if found := _LOADED.search(page.read_text(encoding="utf-8")):
            raise SystemExit(f"{page}: loads from elsewhere: {found[0]}")


def _first_sentence(markdown: str) -> str:
    prose = re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    paragraph = next((part for part in re.split(r"\n\s*\n", prose) if re.match(r"[\w`*\[]", part)), "")
    plain = re.sub(r"\]\([^)]*\)|[\[*]", "", " ".join(paragraph.split()))
    return re.split(r"(?<=[.。])\s*(?=[A-Z\u4e00-\u9fff]|$)", plain)[0]
