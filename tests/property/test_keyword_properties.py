"""Any text can be indexed and asked for, and search finds what shares a term."""

import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plumbline.extras.lab.keyword import build_tokenizer
from tests.making.keyword_cases import built

KINDS = ["best_fields", "plain"]
# Any character at all, and words that meet.
WORDS = ["a", "wing", "Wings", "flutter", "肺癌", "癌的", "of"]
TEXTS = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(WORDS)).map(" ".join))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(
    documents=st.dictionaries(st.text(max_size=5), st.fixed_dictionaries({"text": TEXTS, "title": TEXTS}), max_size=6),
    query=TEXTS,
    k=st.integers(1, 7),
)
def test_any_text_is_indexed_asked_for_and_ranked(
    kind: str, documents: dict[str, dict[str, str]], query: str, k: int
) -> None:
    documents = {**documents, "zebra": {"text": "zebra", "title": ""}}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        retriever = built(documents, Path(folder), {"query": kind})

        hits = retriever.search(query, k)

    assert list(hits) == sorted(hits, key=lambda hit: (-hit[1], hit[0]))
    assert all(math.isfinite(score) and score > 0 for _, score in hits)
    assert len({id_ for id_, _ in hits}) == len(hits) <= k
    terms = build_tokenizer("auto")
    asked = set(terms(query))
    sharing = {id_ for id_, of in documents.items() if asked & {*terms(of["text"]), *terms(of["title"])}}
    assert {id_ for id_, _ in hits} <= sharing
    assert len(hits) == min(k, len(sharing))
