"""Retrievers by vectors over a scripted model: what is found, in which order."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.vectors import DenseRetriever, DenseSettings, SparseSettings

# A text is the count of each of them, behind a prompt.
WORDS = ("warm", "river", "bridge")


class CountingModel:
    """The words of a text in place of a network; keeps the prompts that it was given."""

    def __init__(self, similarity: str = "cosine") -> None:
        self.similarity_fn_name = similarity
        self.given: list[str | None] = []

    def encode_document(self, texts: Sequence[str], *, prompt: str | None, **options: Any) -> Any:
        self.given.append(prompt)
        counts = np.array([[text.split().count(word) for word in WORDS] for text in texts], dtype=np.float32)
        lengths = np.linalg.norm(counts, axis=1, keepdims=True) if options["normalize_embeddings"] else 1
        return counts / np.where(lengths == 0, 1, lengths)

    encode_query = encode_document

    def similarity(self, queries: Any, documents: Any) -> Any:
        import torch

        return torch.from_numpy(queries @ documents.T)


def dense(model: CountingModel | None = None, **settings: Any) -> DenseRetriever:
    return DenseRetriever(model or CountingModel(), DenseSettings(**settings))


def chunk(name: str, text: str, **fields: str) -> Chunk:
    return Chunk(name, name, {**fields, "text": text})


def test_similarities_order_the_chunks_and_equal_ones_come_by_id(tmp_path: Path) -> None:
    some = [chunk("z", "river river"), chunk("far", "bridge warm"), chunk("b", "river"), chunk("mid", "river warm")]
    cosine, dot = dense(), dense(CountingModel("dot"))
    dot.build(some, tmp_path)
    # Four vectors of three numbers of four bytes.
    assert cosine.build(some, tmp_path) == 48

    found = cosine.search("river", 3)

    assert [name for name, _ in found] == ["b", "z", "mid"]
    assert [score for _, score in found] == pytest.approx([1.0, 1.0, 0.5**0.5])
    assert dot.search("river", 1) == [("z", 2.0)]


def test_blank_chunks_are_left_out(tmp_path: Path) -> None:
    retriever = dense()
    retriever.build([chunk("a", "warm river"), chunk("b", ""), chunk("c", " \n"), chunk("d", "warm " * 5)], tmp_path)

    assert {name for name, _ in retriever.search("warm", 10)} == {"a", "d"}


@pytest.mark.parametrize(
    ("settings", "given"), [({"document_prompt": "", "query_prompt": "q: "}, ["", "q: "]), ({}, [None, None])]
)
def test_prompts_are_the_models_unless_named(settings: dict[str, str], given: list[str | None], tmp_path: Path) -> None:
    model = CountingModel()
    retriever = dense(model, **settings)
    retriever.build([chunk("a", "river")], tmp_path)
    retriever.search("river", 1)

    assert model.given == given


def test_a_function_of_the_users_gives_weights_of_terms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_weights.py").write_text(
        "def weigh(texts):\n    return [{word: float(len(word)) for word in text.split()} for text in texts]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    retriever = SparseSettings(function="own_weights:weigh").make()
    retriever.build([chunk("a", "warm river"), chunk("b", "river"), chunk("c", "ice")], tmp_path)

    assert retriever.search("river snow", 9) == [("a", 25.0), ("b", 25.0)]
    assert retriever.search("snow", 9) == []


def test_a_function_is_named_by_its_module() -> None:
    with pytest.raises(ValidationError):
        SparseSettings(function="a b")
