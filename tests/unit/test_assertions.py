"""Assertions of sentences, as tiers without a judge compare them."""

import pytest

from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.structured import header_positions, read_rows
from tests.doubles.fakes import case_of

CONTEXT = "The X10 kettle holds 1.7 litres of water. The warranty covers two years."


def _assertions(answer: str, *contexts: str, question: str = "") -> list[str]:
    return list(case_of(answer, *(contexts or (CONTEXT,)), question=question).assertions)


@pytest.mark.parametrize(
    ("answer", "assertion"),
    [
        ("- The **kettle** holds `1.7` litres.", "The kettle holds 1.7 litres."),
        ("> 2) The kettle holds 1.7 litres [1][^2].", "The kettle holds 1.7 litres ."),
        ("The kettle (source 1) holds 1.7 litres【2】.", "The kettle holds 1.7 litres ."),
        ("[The kettle](https://example.org/x10) holds 1.7 litres.", "The kettle holds 1.7 litres."),
        ("Document 2 shows a kettle.", "Document shows a kettle."),
        ("- [x] The kettle holds 1.7 litres.", "The kettle holds 1.7 litres."),
        ("```bash\nkettle --on\n```", "kettle --on"),
        ("# 5", "5"),
        ("42.", "42."),
    ],
)
def test_marks_of_layout_and_citations_are_no_words(answer: str, assertion: str) -> None:
    (found,) = _assertions(answer)

    assert " ".join(found.split()) == assertion


@pytest.mark.parametrize(
    ("answer", "assertion"),
    [
        ("- Capacity: 1.7 litres", "1.7 litres"),  # a common name of a field that no context has
        ("- **Warranty:** two years", "Warranty: two years"),  # the context has it
        ("- Lorivan: two years", "Lorivan: two years"),  # a name of its own asserts something
        ("- Orwin, keeper: two years", "Orwin, keeper: two years"),
        ("It opens at 12:30.", "It opens at 12:30."),
        ("- 容量：1.7升", "1.7升"),
    ],
)
def test_the_name_of_a_field_is_left_out_where_it_is_layout(answer: str, assertion: str) -> None:
    assert _assertions(answer) == [assertion]


def test_the_name_of_a_field_from_the_question_is_left_out() -> None:
    assert _assertions("- Boiling point: 1.7", question="What is the boiling point?") == ["1.7"]


@pytest.mark.parametrize(
    ("answer", "assertion"),
    [
        ("I could not find the price, but the kettle holds 1.7 litres.", "the kettle holds 1.7 litres."),
        ("I'm not sure, but the kettle is old.", "I'm not sure, but the kettle is old."),
        ("i don ' t know , but the kettle is old .", "i don ' t know , but the kettle is old ."),
        ("The context does not mention the price, however the kettle is old.", "the kettle is old."),
        ("The kettle is old, but the documents do not mention its price.", "The kettle is old"),
        ("Although the passage does not mention it, the kettle is old.", "the kettle is old."),
        ("I don't know, because the kettle was blown up by its engineer.", "the kettle was blown up by its engineer."),
        ("水壶很旧，但资料中没有提到价格。", "水壶很旧"),
        ("The kettle is small, but it is strong.", "The kettle is small, but it is strong."),
    ],
)
def test_a_clause_that_declines_is_left_out(answer: str, assertion: str) -> None:
    assert _assertions(answer) == [assertion]


TABLE = "| Model | Capacity (litres) | Power |\n|---|---|---|\n| X10 | 1.7 | 2200 W |\n| X20 | 2 | - |"


def test_a_table_row_is_read_with_its_name_and_its_columns() -> None:
    sentences = split_sentences(TABLE)

    rows = read_rows(sentences, header_positions(sentences))

    assert rows[2] == "X10: capacity 1.7 litres, power 2200 W"
    assert rows[3] == "X20: capacity 2 litres"


def test_the_header_of_a_table_is_no_claim_of_its_own() -> None:
    case = case_of(TABLE, CONTEXT)

    assert [case.sentences[position].text[:5] for position in case.checkable] == ["| X10", "| X20"]
    # "Capacity" and "power" stand in no context and are common names of columns.
    assert case.assertions == ("X10: 1.7 litres, 2200 W", "X20: 2 litres")


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
    ("question", "answer", "assertion"),
    [
        ("Is Paris the capital of France?", "Yes.", "Paris is the capital of France"),
        ("Is Paris the capital of Italy?", "No, it is not.", "Paris is not the capital of Italy"),
        ("Does the kettle hold 1.7 litres?", "Yes, it does.", "the kettle hold 1.7 litres"),
        ("Does the kettle hold 3 litres?", "No [1].", "the kettle does not hold 3 litres"),
        ("I have a kettle. Can it be used outdoors?", "**Yes**", "it can be used outdoors"),
        ("Can you tell me if the kettle is safe?", "Yes!", "the kettle is safe"),
        ("The kettle is safe, right?", "That's correct.", "The kettle is safe"),
        ("The kettle is safe.", "True", "The kettle is safe"),
        ("Was Anna Keld the keeper?", "Yes", "Anna Keld was the keeper"),
        ("巴黎是法国的首都吗？", "是的。", "巴黎是法国的首都"),
        ("巴黎是意大利的首都吗？", "不是。", "巴黎不是意大利的首都"),
        ("水壶能不能放进洗碗机？", "不能。", "水壶不能放进洗碗机"),
        ("这款手机是否支持快充？", "支持。", "这款手机支持快充"),
        ("酒店有没有泳池？", "没有。", "酒店没有泳池"),
    ],
)
def test_a_short_answer_is_read_with_its_question(question: str, answer: str, assertion: str) -> None:
    assert _assertions(answer, "Paris is a city.", question=question) == [assertion]


def test_the_auxiliary_goes_where_a_context_has_it() -> None:
    question = "Is the old stone bridge safe?"

    assert _assertions("Yes.", "The old stone bridge is safe.", question=question) == ["the old stone bridge is safe"]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How much does it hold?", "Yes."),
        ("", "Yes."),
        ("Can you summarize the text?", "Yes."),
        ("容量是多少？", "是的。"),
        ("Is it safe?", "Yes, the kettle holds 1.7 litres of water"),
    ],
)
def test_an_answer_to_no_question_of_yes_or_no_is_read_alone(question: str, answer: str) -> None:
    (assertion,) = _assertions(answer, question=question)

    assert assertion in answer


def test_offsets_of_sentences_are_those_of_the_answer() -> None:
    answer = "😀 According to the context, the kettle is old. - Yes."

    case = case_of(answer, CONTEXT)

    assert all(answer[sentence.start : sentence.end] == sentence.text for sentence in case.sentences)


def test_boilerplate_is_not_checked() -> None:
    case = case_of("Sure! The kettle is old. Let me know if you have any questions.", CONTEXT)

    assert case.assertions == ("The kettle is old.",)
