"""Every kind of network: side by side as alone, and half as exact where asked."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from plumbline.models.encoder.encoder import ModelChoice, load
from plumbline.models.encoder.model_files import ModelFiles, find_model
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
# What libraries say of themselves when they save a model.
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


def test_reduced_precision_is_near(small: dict[str, ModelFiles]) -> None:
    model = load(ModelChoice(str(small["bert"].folder), precision="bf16"))

    # Eight bits of a mantissa: two layers of random weights move a number of a unit vector by less than a tenth.
    assert largest_difference(vectors_of(model), plain(small["bert"])) < 0.1
    assert model.backend.endswith("bf16")
