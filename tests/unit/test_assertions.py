"""Assertions of sentences, as tiers without a judge compare them."""

import pytest

from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.structured import header_positions, read_table
from tests.doubles.fakes import case_of
from tests.making.cases import load_cases

CONTEXT = "The X10 kettle holds 1.7 litres of water. The warranty covers two years."


def _assertions(answer: str, *contexts: str, question: str = "") -> list[str]:
    return list(case_of(answer, *(contexts or (CONTEXT,)), question=question).assertions)


@pytest.mark.parametrize(
    ("answer", "assertion"), load_cases("assertions", "marks_of_layout_and_citations_are_no_words")
)
def test_marks_of_layout_and_citations_are_no_words(answer: str, assertion: str) -> None:
    (found,) = _assertions(answer)

    assert " ".join(found.split()) == assertion


TABLE = "| Model | Capacity (litres) | Power |\n|---|---|---|\n| X10 | 1.7 | 2200 W |\n| X20 | 2 | - |"


def test_a_column_that_counts_the_rows_says_nothing() -> None:
    sentences = split_sentences("| No. | Text |\n| --- | --- |\n| 1 | The lamp burns. |\n| 2 | It is red. |")

    rows = read_table(sentences, header_positions(sentences))

    assert [row.text for row in rows.values()][1:] == ["The lamp burns.", "It is red."]


def test_a_table_row_is_read_with_its_name_and_its_columns() -> None:
    sentences = split_sentences(TABLE)

    rows = read_table(sentences, header_positions(sentences))

    assert rows[2].text == "X10: capacity 1.7 litres, power 2200 W"
    assert rows[3].text == "X20: capacity 2 litres"


def test_the_header_of_a_table_is_no_claim_of_its_own() -> None:
    case = case_of(TABLE, CONTEXT)

    assert [case.sentences[position].text[:5] for position in case.checkable] == ["| X10", "| X20"]
    assert case.assertions == ("X10: capacity 1.7 litres, power 2200 W", "X20: capacity 2 litres")


def test_a_row_that_declines_is_not_checked() -> None:
    case = case_of("| Model | Price |\n|---|---|\n| X10 | N/A |\n| X20 | not mentioned |\n| X30 | 5 |", CONTEXT)

    assert len(case.assertions) == 1


def test_a_row_without_a_header_is_its_cells() -> None:
    assert _assertions("| X10 | 1.7 litres |") == ["X10: 1.7 litres"]


def test_a_row_of_a_context_is_found_under_its_header_at_its_own_offsets() -> None:
    context = "| Model | Capacity |\n|---|---|\n| X10 | 1.7 litres |"
    case = case_of("The capacity of the X10 is 1.7 litres.", context)

    best = case.index.best_match("", ("capacity", "10", "1.7", "litres"))

    assert best is not None
    assert (best.share, context[best.sentence.start : best.sentence.end]) == (1.0, "| X10 | 1.7 litres |")


@pytest.mark.parametrize(
    ("question", "answer", "assertion"), load_cases("assertions", "a_short_answer_is_read_with_its_question")
)
def test_a_short_answer_is_read_with_its_question(question: str, answer: str, assertion: str) -> None:
    assert _assertions(answer, "Paris is a city.", question=question) == [assertion]


@pytest.mark.parametrize(
    ("question", "answer"), load_cases("assertions", "an_answer_to_no_question_of_yes_or_no_asserts_nothing")
)
def test_an_answer_to_no_question_of_yes_or_no_asserts_nothing(question: str, answer: str) -> None:
    assert _assertions(answer, question=question) == []


def test_yes_before_a_statement_is_read_with_it() -> None:
    (assertion,) = _assertions("Yes, the kettle holds 1.7 litres of water", question="Is it safe?")

    assert assertion in "Yes, the kettle holds 1.7 litres of water"


def test_offsets_of_sentences_are_those_of_the_answer() -> None:
    answer = "😀 According to the context, the kettle is old. - Yes."

    case = case_of(answer, CONTEXT)

    assert all(answer[sentence.start : sentence.end] == sentence.text for sentence in case.sentences)


def test_boilerplate_is_not_checked() -> None:
    case = case_of("Sure! The kettle is old. Let me know if you have any questions.", CONTEXT)

    assert case.assertions == ("The kettle is old.",)
