"""One vector for each text: the library's own, whatever the model has before and behind its network."""

import json
import socket
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.models.encoder import model_files
from plumbline.models.encoder.text_vectors import TextPrompts, TextVectors
from tests.making.small_models import save_small_model

TEXTS = [
    "the bridge was opened",
    "two railway tracks cross the river",
    "people and people " * 40,
    "",
    "warm",
    "the river was warm and two people cross in the warm river",
    "桥 was 开",
    "bridge bridge",
    "in two",
    "railway tracks",
]


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_model(tmp_path_factory.mktemp("dense"), "bert")


def gathered(model: TextVectors, texts: list[str]) -> NDArray[np.float32]:
    batches = list(model.of_documents(texts))
    order = np.concatenate([np.asarray(places) for places, _ in batches])
    found: NDArray[np.float32] = np.concatenate([vectors for _, vectors in batches])[np.argsort(order)]
    return found


def with_prompts(model: Path, prompts: dict[str, str]) -> Path:
    path = model / "config_sentence_transformers.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "prompts": prompts}))
    return model


def test_dense_vectors_are_the_librarys(dense: Path) -> None:
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(str(dense), device="cpu")
    model = TextVectors(str(dense))

    assert np.abs(gathered(model, TEXTS) - library.encode_document(TEXTS)).max() < 1e-5
    assert np.abs(model.of_query(TEXTS[1]) - library.encode_query(TEXTS[1])).max() < 1e-5


def test_texts_beyond_what_is_read_are_counted_and_one_of_that_length_is_not(dense: Path) -> None:
    model = TextVectors(str(dense))
    # 32 tokens are read, two of them begin and end the text.
    gathered(model, ["warm " * 30, "warm " * 31, "warm"])

    assert model.most_tokens == 32
    assert model.texts_cut() == 1


def test_the_models_prompts_come_before_its_texts(tmp_path: Path) -> None:
    folder = save_small_model(tmp_path, "bert")
    plain = TextVectors(str(folder))
    plain_river, plain_crossed = (plain.of_query(text) for text in ("two river", "cross river"))
    with_prompts(folder, {"query": "two ", "passage": "cross "})
    model = TextVectors(str(folder))

    assert np.allclose(model.of_query("river"), plain_river, atol=1e-5)
    assert np.allclose(gathered(model, ["river"])[0], plain_crossed, atol=1e-5)


def test_prompts_that_are_asked_for_stand_in_place_of_the_models(tmp_path: Path) -> None:
    folder = save_small_model(tmp_path, "bert")
    plain = TextVectors(str(folder)).of_query("river")
    with_prompts(folder, {"query": "two ", "document": "cross "})
    model = TextVectors(str(folder), prompts=TextPrompts(query="", document=""))

    assert np.allclose(model.of_query("river"), plain, atol=1e-5)
    assert np.allclose(gathered(model, ["river"])[0], plain, atol=1e-5)


def test_a_model_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TierFailure, match="nothing-here") as caught:
        TextVectors(str(tmp_path / "nothing-here"))

    assert caught.value.reason is FailureReason.NOT_INSTALLED


def test_a_hub_that_takes_calls_and_never_answers_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files, "_HUB_SECONDS", 0.1)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")

        with pytest.raises(TierFailure, match="LocalEntryNotFoundError"):
            model_files.find_model("some/model")
