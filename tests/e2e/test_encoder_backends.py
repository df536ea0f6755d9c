"""Every backend with every kind of network: side by side as alone, half as exact where asked, kept exports checked."""

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.models.encoder.encoder import ModelChoice, load
from plumbline.models.encoder.model_files import ModelFiles, export_folders, find_model
from plumbline.models.encoder.openvino_model import OpenVinoModel
from plumbline.models.encoder.packing import TokenModel, forward_in_rows
from plumbline.models.encoder.torch_model import TorchModel
from tests.making.small_models import save_small_model

TEXTS = (
    "The bridge was opened in",
    "river",
    "two railway tracks cross the river and people",
    "warm " * 60,
    "unheard of words",
)
nightly = partial(pytest.param, marks=pytest.mark.nightly)
needs_openvino = pytest.mark.skipif(find_spec("openvino") is None, reason="needs plumbline-rag[openvino]")
# What libraries say of themselves when they trace or save a model.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelFiles]:
    return {
        kind: find_model(str(save_small_model(tmp_path_factory.mktemp(kind), kind)))
        for kind in ("bert", "roberta", "distilbert", "mpnet")
    }


def vectors_of(model: TokenModel, texts: Sequence[str] = TEXTS) -> list[np.ndarray[Any, np.dtype[np.float32]]]:
    return forward_in_rows(model.reader.read(texts).tokens, model.forward, budget=128, shares=model.supports_packing)


def plain(files: ModelFiles) -> list[np.ndarray[Any, np.dtype[np.float32]]]:
    """As the library gives them, a text at a time."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(files.folder), device="cpu")
    found = []
    for text in TEXTS:
        raw = model.encode([text], output_value="token_embeddings", show_progress_bar=False)[0].numpy()
        found.append(raw / np.linalg.norm(raw, axis=1, keepdims=True))
    return found


def largest_difference(one: Sequence[np.ndarray[Any, Any]], other: Sequence[np.ndarray[Any, Any]]) -> float:
    assert [each.shape for each in one] == [each.shape for each in other]
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("kind", "shares"), [("bert", True), nightly("roberta", True), nightly("distilbert", True), ("mpnet", False)]
)
def test_pytorch_gives_what_the_library_gives(small: dict[str, ModelFiles], kind: str, shares: bool) -> None:
    model = TorchModel(small[kind], "fp32")

    assert model.supports_packing is shares
    assert largest_difference(vectors_of(model), plain(small[kind])) < 1e-5


@needs_openvino
@pytest.mark.parametrize("kind", ["bert", nightly("roberta"), nightly("distilbert")])
def test_openvino_gives_what_the_library_gives(small: dict[str, ModelFiles], kind: str) -> None:
    # Once converted, once from the files that this left.
    for _ in range(2):
        model = OpenVinoModel(small[kind], "fp32", threads=1)
        assert largest_difference(vectors_of(model), plain(small[kind])) < 1e-5


@needs_openvino
def test_openvino_refuses_a_model_whose_texts_must_not_share_a_row(small: dict[str, ModelFiles]) -> None:
    with pytest.raises(TierFailure, match="must not share a row"):
        OpenVinoModel(small["mpnet"], "fp32", threads=1)


def test_the_backend_is_chosen_by_what_runs_the_model(small: dict[str, ModelFiles]) -> None:
    auto = {kind: load(ModelChoice(str(small[kind].folder)), threads=1).backend for kind in ("bert", "mpnet")}

    fast = "openvino" if find_spec("openvino") else "torch"
    assert auto["bert"].startswith(f"{fast} ")
    assert auto["mpnet"].startswith("torch ")
    asked = load(ModelChoice(str(small["bert"].folder), backend="torch"), threads=1)
    assert asked.backend.startswith("torch ")


def test_a_backend_that_is_not_installed_is_named(
    small: dict[str, ModelFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plumbline.models.encoder.encoder.find_spec", lambda name: None)

    with pytest.raises(TierFailure, match=r"install plumbline-rag\[openvino\]") as failed:
        load(ModelChoice(str(small["bert"].folder), backend="openvino"), threads=1)
    assert failed.value.reason is FailureReason.NOT_INSTALLED


@pytest.mark.parametrize("backend", ["torch", pytest.param("openvino", marks=needs_openvino)])
def test_reduced_precision_is_near(small: dict[str, ModelFiles], backend: Any) -> None:
    model = load(ModelChoice(str(small["bert"].folder), backend=backend, precision="bf16"), threads=1)

    # Eight bits of a mantissa: two layers of random weights move a number of a unit vector by less than a tenth.
    assert largest_difference(vectors_of(model), plain(small["bert"])) < 0.1
    assert model.backend.endswith("bf16")


@needs_openvino
def test_an_export_that_was_changed_is_made_again(tmp_path: Path) -> None:
    files = find_model(str(save_small_model(tmp_path, "bert")))
    expected = vectors_of(OpenVinoModel(files, "fp32", threads=1))
    (folder,) = files.folder.glob("plumbline-*")
    (folder / "network.bin").write_bytes(b"\x00" * (folder / "network.bin").stat().st_size)

    assert largest_difference(vectors_of(OpenVinoModel(files, "fp32", threads=1)), expected) < 1e-5


@needs_openvino
def test_a_folder_that_cannot_be_written_leaves_the_export_to_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = find_model(str(save_small_model(tmp_path, "bert")))
    beside, cached = export_folders(files, "kind")
    # A file where the folder would be: nobody, root included, makes a folder there.
    stand_in = ModelFiles(files.folder / "config.json", files.digest)

    assert export_folders(stand_in, "kind")[1] == cached
    assert beside.parent == files.folder
    assert cached.parent == tmp_path / "cache" / "plumbline"


def test_other_weights_have_another_export(small: dict[str, ModelFiles]) -> None:
    names = {export_folders(files, "kind")[0].name for files in small.values()}

    assert len(names) == 4
