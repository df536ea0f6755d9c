"""LLM rankings in many styles: each is read rightly, or told as not read; none is silently wrong.

A style is a text with places for three documents, best first; the cases put documents of several kinds of ids there.
"""

import pytest

from plumbline.retrieval.llm_rankings import parse_ranking
from tests.making.cases import load_cases

CASES = load_cases("llm_ranking_styles", "cases")

READ = load_cases("llm_ranking_styles", "read")

TOLD = load_cases("llm_ranking_styles", "told")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("style", READ)
def test_a_ranking_in_any_style_is_read(style: str, case: str) -> None:
    candidates, ranked = CASES[case]

    parsed = parse_ranking(READ[style].format(*ranked), candidates=candidates)

    assert (parsed.ids, parsed.parse_ok, parsed.readings) == (ranked, True, ())


# Without candidates an id is one word: those with blanks or separators cannot be told from the text around them.
@pytest.mark.parametrize("case", [case for case in CASES if case not in ("blanks", "separators")])
@pytest.mark.parametrize("style", READ)
def test_without_candidates_it_is_read_or_told(style: str, case: str) -> None:
    _, ranked = CASES[case]

    parsed = parse_ranking(READ[style].format(*ranked))

    assert parsed.ids == ranked or not parsed.parse_ok


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("style", TOLD)
def test_a_ranking_with_two_readings_is_told(style: str, case: str) -> None:
    candidates, ranked = CASES[case]
    # scores decide where documents are listed as they were offered
    offered = [*ranked, *(each for each in candidates if each not in ranked)]

    parsed = parse_ranking(TOLD[style].format(*ranked), candidates=offered)

    assert (parsed.ids, parsed.parse_ok) == ((), False)


def test_scores_decide_where_documents_are_listed_as_they_were_offered() -> None:
    parsed = parse_ranking("doc_1: 0.1\ndoc_2: 0.9\ndoc_3: 0.5", candidates=CASES["underscore"][0])

    assert parsed.ids == ("doc_2", "doc_3", "doc_1")


@pytest.mark.parametrize("style", ["ranks or scores", "scores in lines against the written order", "chain both ways"])
def test_both_readings_are_told(style: str) -> None:
    candidates, ranked = CASES["underscore"]

    parsed = parse_ranking(TOLD[style].format(*ranked), candidates=candidates)

    assert len({reading[:3] for reading in parsed.readings}) == 2


@pytest.mark.parametrize(
    ("text", "tie"),
    [("doc_5 = doc_1 > doc_3", ("doc_5", "doc_1")), ("1. doc_5\n2. doc_1\n2. doc_3", ("doc_1", "doc_3"))],
)
def test_ties_and_equal_ranks_are_kept_and_told(text: str, tie: tuple[str, str]) -> None:
    parsed = parse_ranking(text, candidates=CASES["underscore"][0])

    assert (parsed.ids, parsed.ties) == (("doc_5", "doc_1", "doc_3"), (tie,))


def test_what_the_reply_leaves_out_is_told() -> None:
    parsed = parse_ranking('{"ranking": ["doc_5"], "excluded": ["doc_1", "doc_3"]}', candidates=CASES["underscore"][0])

    assert (parsed.ids, parsed.excluded) == (("doc_5",), ("doc_1", "doc_3"))


@pytest.mark.parametrize("text", load_cases("llm_ranking_styles", "free_text_without_ids_is_not_read"))
def test_free_text_without_ids_is_not_read(text: str) -> None:
    assert not parse_ranking(text).parse_ok


def test_chinese_punctuation_is_no_part_of_an_id() -> None:
    assert parse_ranking("1. doc_5：与问题最相关\n2. doc_1，其次。").ids == ("doc_5", "doc_1")
