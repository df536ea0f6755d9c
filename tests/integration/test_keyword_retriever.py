"""The keyword retriever beside its rankings: ties, what is asked of it, what it says, what it refuses."""

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
from tests.making.keyword_cases import built, chunks_of, ids_of

KINDS = ["plain", "best_fields", "cross_fields", "phrase_prefix"]
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


@pytest.mark.parametrize("kind", KINDS)
def test_equal_scores_come_in_the_order_of_ids_wherever_the_list_is_cut(kind: str, tmp_path: Path) -> None:
    retriever = built(many(2000), tmp_path, {"query": kind, "language": "none"})

    whole = retriever.search("a b", 2000)

    assert whole == sorted(whole, key=lambda hit: (-hit[1], hit[0]))
    assert len({score for _, score in whole}) < len(whole) / 2
    assert all(retriever.search("a b", k) == whole[:k] for k in (1, 2, 10, 99, 500))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_chunks_in_any_order_give_the_same_run(kind: str, tmp_path: Path) -> None:
    documents = many(500)
    turned = dict(reversed(documents.items()))
    orders = {"1": documents, "2": documents, "3": turned}

    retrievers = [built(of, tmp_path / name, {"query": kind, "language": "none"}) for name, of in orders.items()]

    runs = [[each.search(query, 100) for query in ("a b", "h", "d e")] for each in retrievers]
    assert runs[0] == runs[1] == runs[2]
    assert all(runs[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "query",
    [
        "",
        " \n",
        "\x00",
        "?!",
        "the of",
        "zebra",
        "zebra giraffe",
        '"',
        "title:",
        "NOT -",
        "*",
        "[a TO z]",
        "\ud800",
        "\\",
        "🙂",
    ],
)
def test_a_query_that_says_nothing_to_the_index_finds_nothing(kind: str, query: str, tmp_path: Path) -> None:
    retriever = built(FEW, tmp_path, {"query": kind, "language": "en"})

    assert list(retriever.search(query, 10)) == []
    assert list(retriever.search(100_000 * "x" + query, 10)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_marks_of_a_query_language_are_no_more_than_punctuation(kind: str, tmp_path: Path) -> None:
    retriever = built(FEW, tmp_path, {"query": kind})

    assert retriever.search('+(swept) -"wing"~', 10) == retriever.search("swept wing", 10) != []


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_of_ten_thousand_terms_is_answered(kind: str, tmp_path: Path) -> None:
    words = " ".join(f"w{place}x" for place in range(5_000))
    retriever = built({"long": words, "short": "w1x", "other": "none of it"}, tmp_path, {"query": kind})

    hits = retriever.search(words + " " + words if kind != "phrase_prefix" else words, 10)

    assert ids_of(hits)[0] == "long"


def test_words_the_language_drops_are_asked_for_where_none_is_said(tmp_path: Path) -> None:
    retriever = built(FEW, tmp_path, {"language": "none"})

    assert ids_of(retriever.search("the of", 10)) == ["a"]


def test_a_phrase_is_taken_as_written_unless_a_language_is_named(tmp_path: Path) -> None:
    documents = {"a": "numerical computation"}
    written = built(documents, tmp_path / "auto", {"query": "phrase_prefix"})
    stemmed = built(documents, tmp_path / "en", {"query": "phrase_prefix", "language": "en"})

    assert ids_of(written.search("numerical computatio", 1)) == ["a"]
    # `computation` is kept as `comput`, which `computatio` does not begin.
    assert ids_of(stemmed.search("numerical computatio", 1)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_that_a_chunk_lacks_is_an_empty_one(kind: str, tmp_path: Path) -> None:
    retriever = built(FEW, tmp_path, {"query": kind})

    assert ids_of(retriever.search("检查", 10)) == ["c"]
    assert ids_of(retriever.search("boundary layer", 10)) == ["b"]


def test_ids_and_names_of_fields_may_be_anything(tmp_path: Path) -> None:
    documents = {
        "a b\x00#\n": {"ti.tle^2:": "wing"},
        "\ud800": {"ti.tle^2:": "wing", "": "wing"},
        "肺": {"place": "wing"},
    }
    for kind in KINDS:
        retriever = built(documents, tmp_path / kind, {"query": kind})
        assert sorted(ids_of(retriever.search("wing", 9))) == sorted(documents)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_indexed_and_nothing_wanted_is_nothing_found(kind: str, tmp_path: Path) -> None:
    assert list(built({}, tmp_path / "none", {"query": kind}).search("wing", 10)) == []
    assert list(built({"a": {}}, tmp_path / "bare", {"query": kind}).search("wing", 10)) == []
    assert list(built(FEW, tmp_path / "few", {"query": kind}).search("wing", 0)) == []


def test_what_is_said_of_the_index(tmp_path: Path) -> None:
    retriever = KeywordSettings.model_validate({"query": "best_fields", "fields": {"title": 2, "text": 1}}).make()

    facts = retriever.build(chunks_of(FEW), tmp_path)

    assert facts.chunks == 3
    assert facts.index_bytes == sum(path.stat().st_size for path in tmp_path.iterdir()) > 0
    assert facts.engine.startswith("tantivy 0.")
    assert facts.stated == {
        "k1": 1.2,
        "b": 0.75,
        "query": "best_fields",
        "fields": "title^2, text^1",
        "language": "auto",
        "segments": 1,
        "operator": "or",
        "tie_breaker": 0.0,
    }


def test_positions_are_paid_for_where_phrases_are_asked(tmp_path: Path) -> None:
    size = {}
    for kind in KINDS:
        retriever = KeywordSettings.model_validate({"query": kind}).make()
        size[kind] = retriever.build(chunks_of(many(2000)), _made(tmp_path / kind)).index_bytes

    assert size["plain"] == pytest.approx(size["cross_fields"], rel=0.01)
    assert size["phrase_prefix"] > 1.1 * size["plain"]


def test_closed_it_finds_nothing_and_its_files_stay(tmp_path: Path) -> None:
    retriever = built(FEW, tmp_path, {})

    retriever.close()

    assert list(retriever.search("wing", 10)) == []
    assert (tmp_path / "meta.json").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"k1": -0.1}, "greater than or equal to 0"),
        ({"b": 1.5}, "less than or equal to 1"),
        ({"fields": {"title": 2}}, 'query "plain" reads all fields as one'),
        ({"query": "best_fields", "fields": {"title": 0}}, "greater than 0"),
        ({"query": "best_fields", "fields": {"title": float("nan")}}, "title"),
        ({"tie_breaker": 0.3}, "tie_breaker says nothing to query 'plain'"),
        ({"query": "best_fields", "max_expansions": 9}, "max_expansions says nothing to query 'best_fields'"),
        ({"query": "phrase_prefix", "operator": "and"}, "operator says nothing to query 'phrase_prefix'"),
        ({"query": "most_fields"}, "best_fields"),
        ({"language": "fr"}, "none"),
        ({"bosts": {}}, "Extra inputs"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: Mapping[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        KeywordSettings.model_validate(settings)


@pytest.mark.parametrize("kind", KINDS)
def test_settings_written_out_in_full_are_read_again(kind: str) -> None:
    settings = KeywordSettings.model_validate({"query": kind})

    assert KeywordSettings.model_validate(settings.model_dump()) == settings


def test_a_field_that_no_document_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no document has the field 'titel'; there are: title, text"):
        built(FEW, tmp_path, {"fields": {"titel": 1}})


def test_the_engine_is_not_imported_before_it_is_needed() -> None:
    lines = "import sys, plumbline.extras.lab.keyword as k; k.KeywordSettings(); "
    lines += "sys.exit('tantivy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", lines], check=False).returncode == 0


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
