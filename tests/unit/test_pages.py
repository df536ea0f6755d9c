"""Parts of the pages: pasted samples, marked contexts, words in two languages."""

import json
import re
import tomllib
from typing import Any

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.rows.report.marked_passages import Piece, Span, mark
from plumbline.schemas.evaluation import EvaluationResult, SampleTexts
from plumbline.service.web import pages
from plumbline.service.web.judged_answer import judged_answer
from plumbline.service.web.pages import PARTS
from plumbline.service.web.playground import load_samples, parse_pasted
from tests.making.result_rows import scored_line

FACT = "The bridge was opened in 1931."


@pytest.mark.parametrize(
    "pasted",
    [
        {"question": "When?", "contexts": ["It opened in 1931."], "answer": "In 1931."},
        {"user_input": "When?", "retrieved_contexts": ["It opened in 1931."], "response": "In 1931."},
        {"query": "When?", "documents": [{"page_content": "It opened in 1931."}], "output": "In 1931."},
        {
            "messages": [
                {"role": "user", "content": "When?"},
                {"role": "tool", "content": [{"type": "text", "text": "It opened in 1931."}]},
                {"role": "assistant", "content": "In 1931."},
            ]
        },
        {
            "contexts": ["It opened in 1931."],
            "messages": [{"role": "user", "content": "When?"}, {"role": "assistant", "content": "In 1931."}],
        },
    ],
)
def test_a_sample_is_read_from_the_formats_that_people_have(pasted: dict[str, Any]) -> None:
    sample = parse_pasted(json.dumps(pasted))

    assert (sample.question, sample.contexts, sample.answer) == ("When?", ("It opened in 1931.",), "In 1931.")


@pytest.mark.parametrize(
    ("pasted", "said"),
    [
        ("{", "not JSON at column 2"),
        ("[]", "a list; expected one JSON object"),
        ('{"text": "x"}', "found the columns 'text'"),
        ('{"contexts": 3, "answer": "x"}', "contexts is a number"),
        ('{"messages": []}', "messages is missing"),
        ("[" * 100_000, "too deep"),
    ],
)
def test_json_that_is_no_sample_says_what_was_found(pasted: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(said)) as caught:
        parse_pasted(pasted)

    assert caught.value.place == "JSON"


def test_where_marks_overlap_evidence_wins_and_no_character_is_lost() -> None:
    pieces = mark("abcdefgh", [Span(1, 4, "nearest"), Span(3, 6, "evidence"), Span(5, 7, "nearest")])

    assert pieces == (Piece("a"), Piece("bc", "nearest"), Piece("def", "evidence"), Piece("g", "nearest"), Piece("h"))


def test_evidence_is_marked_in_its_context() -> None:
    context = f"Before. {FACT} After."
    line = json.loads(scored_line("a", 0.5, verdicts=("supported", "not_a_claim")))
    line["result"]["claims"][0]["evidence"][0] |= {"context": 0, "start": 8, "quote": FACT}
    result = EvaluationResult.model_validate(line["result"])

    shown = judged_answer(result, SampleTexts(contexts=[context, "other"], answer=FACT))

    marked = (Piece("Before. "), Piece(FACT, "evidence"), Piece(" After."))
    assert shown.contexts == (marked, (Piece("other"),))
    assert [sentence.verdict for sentence in shown.sentences] == ["supported", "not_a_claim"]
    (claim,) = shown.sentences[0].claims
    assert [(each.context, each.pieces, each.is_verified) for each in claim.passages] == [(1, marked, True)]


def test_a_quote_that_is_not_in_its_context_is_shown_by_itself() -> None:
    result = EvaluationResult.model_validate(json.loads(scored_line("a", 1.0))["result"])

    shown = judged_answer(result, SampleTexts(contexts=["one", "two"], answer=FACT))

    (passage,) = shown.sentences[0].claims[0].passages
    assert (passage.context, passage.is_verified) == (3, False)


def test_both_languages_have_the_same_words_and_samples() -> None:
    english, chinese = (
        tomllib.loads((PARTS / f"words.{language}.toml").read_text(encoding="utf-8")) for language in ("en", "zh")
    )

    # Titles of problems are English in their own answer.
    assert set(english) == {name for name in chinese if not name.startswith("problem_")}
    assert list(load_samples("en")) == list(load_samples("zh"))
    assert len(load_samples("en")) == 6


def test_templates_are_compiled_before_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    pages.prepare_pages()
    environment = pages._environment()
    monkeypatch.setattr(environment, "compile", None)

    assert {environment.get_template(path.name).name for path in PARTS.glob("*.html")} >= {
        "playground.html",
        "runs.html",
    }
