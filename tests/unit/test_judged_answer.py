"""A judged answer on a page: its sentences, its citation marks, and the evidence marked where it stands."""

import json
from typing import Any

import pytest

from plumbline.judging.text.sample import Sample
from plumbline.rows.report.judged_answer import JudgedAnswer, Span, judged_answer, mark
from plumbline.rows.report.page import render_html
from plumbline.rows.report.result_lines import ResultRow, RowResult, read_line
from plumbline.rows.report.text_blocks import Piece
from tests.making.result_rows import build_report, scored_line
from tests.reading.report_html import HOSTILE, Page

FACT = "The bridge was opened in 1931."
CONTEXTS = ("The lake is deep.", "", f"It is old. {FACT} It is long.")


def result_of(line: bytes) -> RowResult:
    row = read_line(line)
    assert isinstance(row, ResultRow)
    assert row.result is not None
    return row.result


def kinds(shown: JudgedAnswer) -> list[str]:
    return [piece.kind for context in shown.contexts or () for piece in context.pieces if piece.kind]


def test_where_marks_overlap_evidence_wins_and_no_character_is_lost() -> None:
    pieces = mark("abcdefgh", [Span(1, 4, "nearest"), Span(3, 6, "supported"), Span(5, 7, "nearest")])

    assert pieces == (Piece("a"), Piece("bc", "nearest"), Piece("def", "supported"), Piece("g", "nearest"), Piece("h"))
    assert mark("abc", []) == (Piece("abc"),)
    assert mark("", []) == ()


def test_ten_thousand_marks_take_no_time_of_their_square() -> None:
    # 20,000 ends, each compared with each span, would be 200 million steps
    spans = [Span(place, place + 60, "nearest" if place % 2 else "supported") for place in range(10_000)]

    pieces = mark("x" * 10_060, spans)

    assert [(len(piece.text), piece.kind) for piece in pieces] == [(10_058, "supported"), (1, "nearest"), (1, "")]


def test_evidence_is_marked_in_its_context() -> None:
    line = json.loads(scored_line("a", 0.5, verdicts=("supported", "not_a_claim")))
    # The sentence stands twice in the context: the offset decides.
    line["result"]["claims"][0]["evidence"][0] |= {"context": 0, "start": 39, "quote": FACT}
    context = f"Before. {FACT} {FACT} After."

    shown = judged_answer(result_of(json.dumps(line).encode()), Sample("When?", (context, "other"), FACT))

    before, after = Piece(f"Before. {FACT} "), Piece(" After.")
    assert shown.contexts == ((1, (before, Piece(FACT, "supported", 1), after)), (2, (Piece("other"),)))
    assert (shown.faults, shown.checked) == (0, 1)
    assert [sentence.verdict for sentence in shown.sentences] == ["supported", "not_a_claim"]
    (claim,) = shown.sentences[0].claims
    assert claim.passages == ((1, (before, Piece(FACT, "supported"), after), True, False),)


@pytest.mark.parametrize(
    ("sample", "is_verified"), [(Sample("", ("one", "two"), FACT), False), (None, True)], ids=["not there", "no sample"]
)
def test_a_quote_without_its_context_is_shown_by_itself(sample: Sample | None, *, is_verified: bool) -> None:
    shown = judged_answer(result_of(scored_line("a", 1.0)), sample)

    (passage,) = shown.sentences[0].claims[0].passages
    assert (passage.context, passage.is_verified) == (3, is_verified)
    assert [piece.kind for piece in passage.pieces] == [""]


@pytest.mark.parametrize(
    ("verdict", "kind"), [("supported", "supported"), ("contradicted", "contradicted"), ("not_mentioned", "nearest")]
)
def test_what_is_only_nearest_to_a_claim_is_marked_otherwise(verdict: str, kind: str) -> None:
    result = result_of(scored_line("a", 0.0, verdicts=(verdict,)))

    assert kinds(judged_answer(result, Sample("", CONTEXTS, FACT))) == [kind]


def test_a_brief_answer_shows_what_is_next_to_the_evidence() -> None:
    contexts = ("c" * 9_000, "", f"{'a' * 9_000}{FACT}{'b' * 9_000}")

    shown = judged_answer(result_of(scored_line("a", 1.0)), Sample("q" * 9_000, contexts, FACT), is_brief=True)

    assert shown.contexts is not None
    assert [len(piece.text) for piece in shown.contexts[0].pieces] == [603]
    assert [piece.text for piece in shown.contexts[2].pieces] == [f" … {'a' * 600}", FACT, f"{'b' * 600} … "]
    assert len(shown.question) == 600


def test_the_contexts_of_evidence_come_before_others_when_there_are_many() -> None:
    contexts = (*(f"Context {number}." for number in range(40)), f"Here: {FACT}")
    line = json.loads(scored_line("a", 1.0))
    line["result"]["claims"][0]["evidence"][0] |= {"context": 40, "quote": FACT}

    shown = judged_answer(result_of(json.dumps(line).encode()), Sample("", contexts, FACT), is_brief=True)

    assert [context.number for context in shown.contexts or ()] == [*range(1, 20), 41]
    assert shown.hidden == 21


@pytest.mark.parametrize("fields", [{}, {"tier": "lexical"}])
@pytest.mark.parametrize("answer", ["Another answer.", "It is old. It is no bridge of ours."])
def test_the_contexts_of_another_answer_are_not_in_a_report(fields: dict[str, Any], answer: str) -> None:
    result = result_of(scored_line("a", 1.0, **fields))

    assert judged_answer(result, Sample("", CONTEXTS, FACT), is_brief=True).contexts is not None
    assert judged_answer(result, Sample("", CONTEXTS, answer), is_brief=True).contexts is None


def test_the_page_marks_evidence_and_escapes_all_texts() -> None:
    report = build_report([scored_line("a", 0.2), scored_line("b", 0.3, row=1)])

    def page_with(text: str) -> Page:
        return Page(render_html(report, samples={"a": Sample(text, (text, text, f"{text} {FACT} {text}"), FACT)}))

    plain, hostile = page_with("plain"), page_with("".join(HOSTILE))

    # Beneath its claim, and in its context
    assert [name for name, _ in plain.elements].count("mark") == 2
    assert hostile.shape() == plain.shape()
    assert hostile.named("meta") == plain.named("meta")
    assert "window.ran" in hostile.text


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
    assert (right["class"], right["href"]) == ("cited supported", "#row-0-context-1")
    assert (absent["class"], absent.get("href")) == ("cited no_such_passage", None)
    assert 'id="row-0-context-1"' in page
