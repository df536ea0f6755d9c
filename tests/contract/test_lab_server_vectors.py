"""Vectors on a server are those that the lab's dense retriever has here, for queries as for chunks."""

from pathlib import Path

import pytest

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retrievers.dense import DenseSettings
from plumbline.ground.errors import InvalidInput
from tests.contract.elastic_indexes import settings_of
from tests.doubles.scripted_elasticsearch import ScriptedElasticsearch
from tests.doubles.scripted_service import scripted
from tests.making.small_models import WORDS, save_small_model

TEXTS = {f"d{place}": " ".join(WORDS[place : place + 3]) for place in range(8)}
CHUNKS = [Chunk(name, name, {"text": text}, 0, len(text)) for name, text in TEXTS.items()]


def test_the_server_ranks_as_the_lab_does(tmp_path: Path) -> None:
    model = str(save_small_model(tmp_path / "weights", "bert"))
    here = DenseSettings(model=model, similarity="cosine").make()
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    here.build(CHUNKS, tmp_path / "here")
    query = TEXTS["d3"]

    with scripted(ScriptedElasticsearch()) as service:
        there = settings_of(query="knn", url=service.url, model=model).make()
        there.build(CHUNKS, tmp_path / "there")
        found = there.search(query, 5)
        there.close()

    assert [name for name, _ in found] == [name for name, _ in here.search(query, 5)]
    assert found[0][0] == "d3"


def test_a_model_that_is_not_there_is_said_before_the_server_is_asked() -> None:
    with pytest.raises(InvalidInput, match="no-such-model"):
        settings_of(query="knn", model="/no-such-model").make()
