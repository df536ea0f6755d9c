"""Replies that were written without a look at what the reader did with them: none is silently wrong, most are read."""

import pytest

from plumbline.retrieval.llm_rankings import parse_ranking
from tests.making.cases import load_cases

CANDIDATES = load_cases("llm_ranking_strangers", "candidates")
REPLIES = [tuple(reply) for reply in load_cases("llm_ranking_strangers", "replies")["all"]]


@pytest.mark.parametrize(("style", "offered", "reply", "ranking"), REPLIES)
def test_no_reply_is_silently_wrong(style: str, offered: str, reply: str, ranking: tuple[str, ...]) -> None:
    parsed = parse_ranking(reply, candidates=CANDIDATES[offered])

    assert not parsed.parse_ok or parsed.ids == tuple(ranking), style


def test_most_replies_are_read_in_many_styles() -> None:
    ranked = [(reply, CANDIDATES[offered]) for _, offered, reply, ranking in REPLIES if ranking]

    read = sum(parse_ranking(reply, candidates=offered).parse_ok for reply, offered in ranked)

    assert read >= 0.85 * len(ranked)
    assert (len(REPLIES), len({style for style, *_ in REPLIES})) == (640, 627)
