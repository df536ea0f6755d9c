"""Question and contexts on a page of results: what claims rest on is marked where it stands, in bounded texts."""

from typing import Any

import pytest

from plumbline.judging.text.sample import Sample
from plumbline.rows.report.marked_passages import Span, is_answer_of, mark, mark_passages, shown_source
from plumbline.rows.report.page import render_html
from plumbline.rows.report.result_lines import ResultRow, RowResult, read_line
from tests.making.result_rows import build_report, scored_line
from tests.reading.report_html import HOSTILE, Page

FACT = "The bridge was opened in 1931."
CONTEXTS = ("The lake is deep.", "", f"It is old. {FACT} It is long.")


def result_of(line: bytes) -> RowResult:
    row = read_line(line)
    assert isinstance(row, ResultRow)
    assert row.result is not None
    return row.result


def test_quotes_are_marked_where_they_stand_and_overlap_once() -> None:
    parts = mark_passages("abcdefgh", ["cde", "ab", "def", "nowhere", "", "ab"])

    assert parts == (("abcdef", "evidence"), ("gh", ""))
    assert mark_passages("abc", []) == (("abc", ""),)
    assert mark_passages("", ["a"]) == ()


def test_of_a_long_context_what_is_next_to_the_evidence_is_shown() -> None:
    before, marked, after = mark_passages(f"{'a' * 9_000}{FACT}{'b' * 9_000}", [FACT])

    assert marked == (FACT, "evidence")
    assert before.text == f" … {'a' * 600}"
    assert after.text == f"{'b' * 600} … "
    assert len(mark_passages("c" * 9_000, [])[0].text) == 603


def test_the_contexts_of_evidence_come_before_others_when_there_are_many() -> None:
    contexts = [f"Context {number}." for number in range(60)]
    sample = Sample("", (*contexts[:2], CONTEXTS[2], *contexts[3:]), FACT)

    source = shown_source(sample, result_of(scored_line("a", 1.0)))

    assert [context.number for context in source.contexts] == list(range(20))
    assert source.hidden == 40
    assert (FACT, "evidence") in source.contexts[2].parts


def test_what_no_claim_rests_on_is_not_marked() -> None:
    source = shown_source(Sample("", CONTEXTS, FACT), result_of(scored_line("a", 0.0, verdicts=("not_mentioned",))))

    assert not any(part.kind for context in source.contexts for part in context.parts)


@pytest.mark.parametrize("fields", [{}, {"tier": "lexical"}])
def test_the_contexts_of_another_answer_are_not_shown(fields: dict[str, Any]) -> None:
    result = result_of(scored_line("a", 1.0, **fields))

    assert is_answer_of(FACT, result)
    assert not is_answer_of("Another answer.", result)
    assert not is_answer_of("It is old. It is no bridge of ours.", result)


def test_the_page_marks_evidence_and_escapes_all_texts() -> None:
    report = build_report([scored_line("a", 0.2), scored_line("b", 0.3, row=1)])

    def page_with(text: str) -> Page:
        return Page(render_html(report, samples={"a": Sample(text, (text, text, f"{text} {FACT} {text}"), FACT)}))

    plain, hostile = page_with("plain"), page_with("".join(HOSTILE))

    assert [name for name, _ in plain.elements].count("mark") == 1
    assert hostile.shape() == plain.shape()
    assert hostile.named("meta") == plain.named("meta")
    assert "window.ran" in hostile.text


def test_ten_thousand_marks_take_no_time_of_their_square() -> None:
    # 20,000 ends, each compared with each span, would be 200 million steps
    spans = [Span(place, place + 60, "nearest" if place % 2 else "evidence") for place in range(10_000)]

    pieces = mark("x" * 10_060, spans)

    assert [(len(piece.text), piece.kind) for piece in pieces] == [(10_058, "evidence"), (1, "nearest"), (1, "")]


def test_a_citation_mark_has_the_colour_of_its_verdict_and_leads_to_the_passage() -> None:
    text = "The bridge was opened in 1931 [1]. It is free [9]."
    place = {"start": 30, "end": 33, "sentence": 0, "better_context": None}
    citations = [
        {**place, "text": "[1]", "label": "1", "context": 0, "verdict": "supported"},
        {**place, "text": "[9]", "label": "9", "context": None, "verdict": "no_such_passage"},
    ]
    report = build_report([scored_line("a", 0.2, text=text, citations=citations)])

    page = render_html(report, samples={"a": Sample("", (FACT,), text)})

    right, absent = (found for _, found in Page(page).elements if "cited" in (found.get("class") or "").split())
    assert (right["class"], right["href"]) == ("cited supported", "#row-0-context-0")
    assert (absent["class"], absent.get("href")) == ("cited no_such_passage", None)
    assert 'id="row-0-context-0"' in page
