"""Whatever text stands in a line, the report is well formed and the text stays text."""

from functools import cache
from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from plumbline.rows.report.junit import junit_xml
from plumbline.rows.report.markdown import escaped
from plumbline.rows.report.texts import visible, xml_text
from tests.making.result_rows import build_report, scored_line
from tests.reading.report_html import HOSTILE, Page, hostile_page, hostile_report

# Any text that JSON can carry, and pieces that mean something where the report is written.
PIECES = st.sampled_from(
    [*HOSTILE, *"<>&\"'`|\\\n\r\x00\x0b\x7f@#*_[](){}%$", "-->", "]]>", "{{", "{%", "&#0;", "\ufffe"]
)
TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | PIECES, max_size=6).map("".join)
SCORES = st.lists(st.tuples(st.floats(0, 1), st.sampled_from(["llm", "lexical"])), min_size=1, max_size=30)


@cache
def harmless_shape() -> list[tuple[str, tuple[str, ...]]]:
    return Page(hostile_page("harmless")).shape()


@given(TEXTS)
@settings(max_examples=25)
def test_no_text_adds_an_element_or_an_attribute(text: str) -> None:
    # An empty text is left out of the page, reason and title alike.
    page = Page(hostile_page(text or "x"))

    assert page.shape() == harmless_shape()


@given(TEXTS)
@settings(max_examples=25)
def test_every_text_makes_xml_that_can_be_read(text: str) -> None:
    root = ET.fromstring(junit_xml(hostile_report(text)))  # noqa: S314

    assert {element.tag for element in root.iter()} == {
        "testsuites",
        "testsuite",
        "testcase",
        "failure",
        "skipped",
    }


@given(TEXTS)
def test_a_text_in_markdown_is_one_cell_of_one_line(text: str) -> None:
    shown = escaped(text)

    assert not set("|`<>*_[]\n\r\\@") & set(shown)


@given(TEXTS)
def test_what_xml_holds_of_a_text_is_the_text_without_forbidden_characters(text: str) -> None:
    element = ET.Element("a")
    element.text = xml_text(text).replace("\r", "")

    assert ET.fromstring(ET.tostring(element, encoding="utf-8")).text == (element.text or None)  # noqa: S314


@given(TEXTS)
def test_visible_text_has_no_bidirectional_control(text: str) -> None:
    assert not set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\x00") & set(visible(text))


@given(SCORES)
def test_intervals_hold_their_means_and_groups_their_rows(scores: list[tuple[float, str]]) -> None:
    lines = [scored_line(f"q{row}", score, row=row, tier=tier) for row, (score, tier) in enumerate(scores)]

    summary = build_report(lines, worst=7).summary

    assert sum(tier.judged for tier in summary.tiers) == summary.statuses.judged == len(scores)
    assert len(summary.worst) == min(7, len(scores))
    for group in (summary.all_tiers, *(tier.scores for tier in summary.tiers)):
        mean = group.faithfulness
        assert mean.mean is not None
        if mean.low is not None and mean.high is not None:
            assert 0 <= mean.low <= mean.mean + 1e-9
            assert mean.mean - 1e-9 <= mean.high <= 1
    for tier in summary.tiers:
        assert sum(tier.histogram) == tier.judged
