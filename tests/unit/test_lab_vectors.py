"""Retrievers by vectors over a scripted model: what is found, in which order, and what hostile texts do."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.vectors import (
    DenseSettings,
    SparseSettings,
    VectorRetriever,
    encoder_of,
)
from plumbline.ground.errors import InvalidInput

# A text is the count of each of them, behind a prompt.
WORDS = ("warm", "river", "bridge")


class CountingModel:
    """The words of a text in place of a network; keeps the prompts that it was given."""

    def __init__(self, **prompts: str) -> None:
        self.prompts = {"query": "", "document": "", **prompts}
        self.given: list[str | None] = []

    def encode_document(self, texts: Sequence[str], *, prompt: str | None, **options: Any) -> Any:
        self.given.append(prompt)
        counts = np.array([[text.split().count(word) for word in WORDS] for text in texts], dtype=np.float32)
        lengths = np.linalg.norm(counts, axis=1, keepdims=True) if options["normalize_embeddings"] else 1
        return counts / np.where(lengths == 0, 1, lengths)

    encode_query = encode_document


def dense(model: CountingModel | None = None, *, similarity: str = "cosine", **settings: Any) -> VectorRetriever:
    given = DenseSettings(**settings)
    options = {"normalize_embeddings": similarity == "cosine"}
    return VectorRetriever(given, encoder_of(model or CountingModel(), given, **options))


def chunk(name: str, text: str, **fields: str) -> Chunk:
    return Chunk(name, name, {**fields, "text": text})


def test_similarities_order_the_chunks_and_equal_ones_come_by_id(tmp_path: Path) -> None:
    some = [chunk("z", "river river"), chunk("far", "bridge warm"), chunk("b", "river"), chunk("mid", "river warm")]
    cosine, dot = dense(), dense(similarity="dot")
    dot.build(some, tmp_path)
    facts = cosine.build(some, tmp_path)

    found = cosine.search("river", 3)

    assert [name for name, _ in found] == ["b", "z", "mid"]
    assert [score for _, score in found] == pytest.approx([1.0, 1.0, 0.5**0.5])
    assert dot.search("river", 1) == [("z", 2.0)]
    assert facts.index_bytes == (tmp_path / "vectors.npz").stat().st_size
    assert facts.chunks == 4


def test_blank_chunks_are_left_out(tmp_path: Path) -> None:
    retriever = dense()
    facts = retriever.build(
        [chunk("a", "warm river"), chunk("b", ""), chunk("c", " \n"), chunk("d", "warm " * 5)], tmp_path
    )

    assert {name for name, _ in retriever.search("river", 10)} == {"a", "d"}
    assert facts.chunks == 2


def test_any_query_has_finite_scores_and_none_is_found_without_text_or_after_the_end(tmp_path: Path) -> None:
    retriever = dense()
    retriever.build([chunk("han", "桥 river"), chunk("half", "\ud800 warm")], tmp_path)

    for query in ("river " * 20_000, "桥", "\ud800", "\x00", "e\u0301 👩‍👩‍👧 ا"):
        assert all(np.isfinite(score) for _, score in retriever.search(query, 10))
    assert retriever.search("", 5) == retriever.search(" \t\n", 5) == retriever.search("river", 0) == []


def test_only_the_fields_that_are_named_are_read(tmp_path: Path) -> None:
    some = [chunk("a", "warm", title="river"), chunk("b", "river", title="warm")]
    retriever = dense(fields=("title",))
    retriever.build(some, tmp_path)

    assert retriever.search("river", 1)[0][0] == "a"
    with pytest.raises(InvalidInput, match="no document has the field 'body'; there are: title, text"):
        dense(fields=("body",)).build(some, tmp_path)
    with pytest.raises(InvalidInput, match="none of 1 chunks has a text"):
        dense().build([chunk("a", "")], tmp_path)


@pytest.mark.parametrize(
    ("own", "settings", "given"),
    [
        ({"passage": "passage: "}, {}, ["passage: ", None]),
        ({"document": "doc: "}, {"document_prompt": "", "query_prompt": "q: "}, ["", "q: "]),
        ({}, {}, [None, None]),
    ],
)
def test_prompts_are_the_models_unless_named(
    own: dict[str, str], settings: dict[str, str], given: list[str | None], tmp_path: Path
) -> None:
    model = CountingModel(**own)
    retriever = dense(model, **settings)
    retriever.build([chunk("a", "river")], tmp_path)
    retriever.search("river", 1)

    assert model.given == given


def test_a_function_of_the_users_gives_weights_of_terms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_weights.py").write_text(
        "def weigh(texts):\n    return [{word: float(len(word)) for word in text.split()} for text in texts]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "index").mkdir()
    retriever = SparseSettings(function="own_weights:weigh").make()
    retriever.build([chunk("a", "warm river"), chunk("b", "river"), chunk("c", "ice")], tmp_path / "index")

    assert retriever.search("river snow", 9) == [("a", 25.0), ("b", 25.0)]
    assert retriever.search("snow", 9) == []


@pytest.mark.parametrize("wrong", [{}, {"model": "m", "function": "a:b"}, {"function": "a b"}])
def test_a_sparse_retriever_has_a_model_or_a_function(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        SparseSettings.model_validate(wrong)


@pytest.mark.parametrize("wrong", [{"similarity": "euclidean"}, {"nprobe": 3}])
def test_settings_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        DenseSettings.model_validate(wrong)
