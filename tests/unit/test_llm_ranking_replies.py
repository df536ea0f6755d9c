"""Replies of LLMs and rerankers in the styles of the field: none is read wrongly, and nearly all are read."""

import pytest

from plumbline.retrieval.llm_rankings import parse_ranking
from tests.making.cases import load_cases

BY_ID, BY_POSITION = load_cases("llm_ranking_replies", "by_id"), load_cases("llm_ranking_replies", "by_position")
# Candidates as they were offered; the ranked ones are the fourth, the first, the third, the fifth and the second.
ORDER = (3, 0, 2, 4, 1)
CANDIDATES = {
    "words": ["faq-returns", "kb-101", "policy_2024", "guide-7", "faq-shipping"],
    "numbers": ["184", "29", "2", "51", "12"],
    "urns": [f"urn:uuid:6ba7b81{n}-9dad-11d1-80b4-00c04fd430c8" for n in range(5)],
}


def expected(candidates: list[str], places: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(candidates[ORDER[place]] for place in places)


@pytest.mark.parametrize("kind", ["words", "urns"])
@pytest.mark.parametrize("style", BY_ID)
def test_ids_in_any_style(style: str, kind: str) -> None:
    candidates, (text, places) = CANDIDATES[kind], BY_ID[style]

    parsed = parse_ranking(text.format(*(candidates[place] for place in ORDER)), candidates=candidates)

    assert (parsed.ids, parsed.parse_ok) == (expected(candidates, places), bool(places))


@pytest.mark.parametrize("kind", CANDIDATES)
@pytest.mark.parametrize("style", BY_POSITION)
def test_positions_in_any_style(style: str, kind: str) -> None:
    candidates, (text, places) = CANDIDATES[kind], BY_POSITION[style]
    numbers: dict[str, object] = {f"p{n}": place + 1 for n, place in enumerate(ORDER)}
    numbers |= {f"z{n}": place for n, place in enumerate(ORDER)} | {f"l{n}": "ABCDE"[at] for n, at in enumerate(ORDER)}

    parsed = parse_ranking(text.format(**numbers), candidates=candidates)

    assert (parsed.ids, parsed.parse_ok) == (expected(candidates, places), bool(places))
