"""The keyword retriever apart from its scores: ties, hostile queries, facts of the index, refused settings."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from plumbline.extras.lab.keyword import KeywordSettings
from plumbline.ground.errors import InvalidInput
from tests.making.keyword_cases import built, ids_of

ENGINES = [
    pytest.param({}, id="plain"),
    pytest.param({"query": "best_fields"}, id="best_fields"),
    pytest.param({"query": "cross_fields"}, id="cross_fields"),
]
FEW = {
    "a": {"title": "swept wing", "text": "the lift of a swept wing"},
    "b": {"title": "", "text": "boundary layer"},
    "c": {"text": "肺癌的检查"},
}


def many(count: int) -> dict[str, str]:
    """Texts that often say the same: ties in plenty."""
    rng = np.random.default_rng(7)
    said = [" ".join(rng.choice(list("abcdefgh"), size=rng.integers(1, 9))) for _ in range(count // 10)]
    return {f"{place:05}": said[rng.integers(len(said))] for place in rng.permutation(10 * count)[:count]}


@pytest.mark.parametrize("settings", ENGINES)
def test_equal_scores_come_by_id_wherever_the_list_is_cut_and_however_chunks_came(
    settings: Mapping[str, Any], tmp_path: Path
) -> None:
    documents = many(500)
    retriever = built(documents, tmp_path / "1", {"language": "none", **settings})
    turned = built(dict(reversed(documents.items())), tmp_path / "2", {"language": "none", **settings})

    whole = retriever.search("a b", 500)

    assert whole == sorted(whole, key=lambda hit: (-hit[1], hit[0])) == turned.search("a b", 500)
    assert len({score for _, score in whole}) < len(whole) / 2
    assert all(retriever.search("a b", k) == whole[:k] for k in (1, 10, 99))


@pytest.mark.parametrize("settings", ENGINES)
def test_hostile_queries_and_lacking_fields_are_answered(settings: Mapping[str, Any], tmp_path: Path) -> None:
    retriever = built(FEW, tmp_path / "few", settings)
    without_terms = [
        "",
        "\x00",
        "?!",
        "the of",
        "zebra",
        '"',
        "title:",
        "NOT -",
        "*",
        "[a TO z]",
        "\ud800",
        "🙂",
        "x" * 99_999,
    ]

    assert [list(retriever.search(query, 10)) for query in without_terms] == [[]] * len(without_terms)
    assert retriever.search('+(swept) -"wing"~', 10) == retriever.search("swept wing", 10) != []
    assert ids_of(retriever.search("检查", 10)) == ["c"]
    assert ids_of(retriever.search(" ".join(f"w{place}x" for place in range(5_000)) + " layer", 10)) == ["b"]


def test_ids_and_names_of_fields_may_be_anything(tmp_path: Path) -> None:
    documents = {
        "a b\x00#\n": {"ti.tle^2:": "wing"},
        "\ud800": {"ti.tle^2:": "wing", "": "wing"},
        "肺": {"position": "wing"},
    }
    for query in ("best_fields", "cross_fields", "phrase_prefix"):
        retriever = built(documents, tmp_path / query, {"query": query})
        assert sorted(ids_of(retriever.search("wing", 9))) == sorted(documents)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"k1": -0.1}, "greater than or equal to 0"),
        ({"b": 1.5}, "less than or equal to 1"),
        ({"fields": {"title": 2}, "tie_breaker": 0.3}, "fields and tie_breaker cannot stand with query 'plain'"),
        ({"query": "best_fields", "k1": 0.9}, "k1 cannot stand with query 'best_fields'"),
        ({"query": "best_fields", "fields": {"title": float("nan")}}, "title"),
        ({"query": "most_fields"}, "best_fields"),
        ({"language": "fr"}, "none"),
        ({"operator": "and"}, "Extra inputs"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: Mapping[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        KeywordSettings.model_validate(settings)


def test_a_field_that_no_document_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no document has the field 'titel'; there are: title, text"):
        built(FEW, tmp_path, {"query": "best_fields", "fields": {"titel": 1}})


def test_the_engine_is_not_imported_before_it_is_needed() -> None:
    lines = "import sys, plumbline.extras.lab.keyword as k; k.KeywordSettings(); "
    lines += "sys.exit('tantivy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", lines], check=False).returncode == 0
