"""Reads a page as a browser would, as far as what is in it matters: elements, attributes, texts."""

import re
from html.parser import HTMLParser

from plumbline.rows.report.building import Report
from plumbline.rows.report.page import render_html
from plumbline.schemas.report import GateOutcome
from tests.making.result_rows import build_report, hostile_lines, scored_line, with_gates

# Texts that would do something were they not escaped, and names that a browser would run or load.
HOSTILE = (
    "<img src=x onerror=\"window.ran='img'\">",
    "</script><script>window.ran='script'</script>",
    "</style><style>body{display:none}</style>",
    "<!-- <script>",
    "<svg/onload=window.ran='svg'>",
    "javascript:window.ran='link'",
    '"><iframe src="https://evil.example/"></iframe>',
    "' onmouseover='window.ran=1' x='",
    "<a href=\"javascript:window.ran='a'\">here</a>",
    "{{ 7 * 7 }} {% raw %} ${7*7}",
    "<meta http-equiv=refresh content='0;url=https://evil.example/'>",
    "<base href=https://evil.example/><link rel=stylesheet href=https://evil.example/a.css>",
    "line\u2028separator\u2029\u202etxt.exe\x00\x1b[31m",
    "&lt;b&gt; &amp;amp; ]]> <![CDATA[",
    "<form action=https://evil.example><input name=x></form>",
)


class Page(HTMLParser):
    """What is in a page: `elements` as (name, attributes), texts outside of script and style."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.comments: list[str] = []
        self._inside: str | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside in self.raw:
            self.raw[self._inside].append(data)
        else:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    @property
    def text(self) -> str:
        """All texts together."""
        return "".join(self.texts)

    def named(self, tag: str) -> list[dict[str, str]]:
        """The attributes of each element of a name."""
        return [attributes for name, attributes in self.elements if name == tag]

    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        """Elements and names of attributes, without what stands in them."""
        return [(name, tuple(attributes)) for name, attributes in self.elements]


def hostile_report(text: str) -> Report:
    """A report with the text wherever a text of others can stand, a baseline and a gate included."""
    before = [scored_line(text[:200] or "q", 1.0, row=0)]
    report = build_report([*hostile_lines(text), b"{"], baseline_lines=before)
    return with_gates(report, GateOutcome(name=text, wanted=text, got=text, passed=False))


def hostile_page(text: str, **options: object) -> str:
    """Its page, with the text as title."""
    return render_html(hostile_report(text), title=text, **options)  # type: ignore[arg-type]


def colours(css: str) -> tuple[dict[str, str], dict[str, str]]:
    """The custom properties of the light and of the dark page that are colours."""
    light, dark = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2]
    found = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in (light, dark)]
    return found[0], found[1]


def contrast(first: str, second: str) -> float:
    """WCAG 2.2 contrast ratio of two colours `#rrggbb`, 1 to 21."""
    high, low = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
