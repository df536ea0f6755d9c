"""Experiments' settings and retrievers on a scripted server, for the contract tests of the lab's server retriever."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from plumbline.client.retries import Retries
from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retrievers.elastic import ElasticKnn, ElasticRetriever
from plumbline.extras.lab.retrievers.elastic_index import ServerIndex
from plumbline.extras.lab.retrievers.elastic_server import Server
from plumbline.extras.lab.retrievers.vectors import ModelVectors
from tests.doubles.scripted_elasticsearch import ScriptedElasticsearch
from tests.doubles.scripted_service import Asked, ScriptedService, scripted

AXES = ("wing", "heat", "sound")


class CountedWords:
    """Vectors of three words' counts."""

    name = "counted-words"

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([[1 + text.lower().count(axis) for axis in AXES] for text in texts], dtype=np.float32)

    encode_queries = encode_documents


@dataclass
class Lab:
    """A retriever and the server that it asks."""

    server: ScriptedElasticsearch
    service: ScriptedService
    retriever: ServerIndex
    waits: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        (name,) = self.server.indexes
        return name

    def asked(self, method: str, verb: str) -> list[Asked]:
        return [asked for asked in self.service.asked if asked.method == method and verb in asked.path]


def settings_of(**given: Any) -> Any:
    """The settings, as an experiment file gives them."""
    return TypeAdapter(ElasticRetriever).validate_python({"kind": "elasticsearch", "query": "best_fields", **given})


@contextmanager
def lab(server: ScriptedElasticsearch | None = None, **given: Any) -> Iterator[Lab]:
    """A retriever on a scripted server; no wait is waited."""
    server = server or ScriptedElasticsearch()
    with scripted(server) as service:
        settings = settings_of(url=service.url, **given)
        waits: list[float] = []
        asking = Server(settings, retries=Retries(attempts=3), sleep=waits.append)
        planner = (
            (lambda *rest: settings.plan_vectors(cast("ModelVectors", CountedWords()), *rest))
            if isinstance(settings, ElasticKnn)
            else settings.plan
        )
        it = Lab(server, service, ServerIndex(settings, planner, server=asking), waits)
        try:
            yield it
        finally:
            it.retriever.close()


def chunk(name: str, text: str = "", **fields: str) -> Chunk:
    """A document as one chunk."""
    return Chunk(name, name, {"title": fields.pop("title", ""), "text": text, **fields}, 0, len(text))


CHUNKS = (
    chunk("d1", "Heat moves through the wing of a plane.", title="Heat transfer"),
    chunk("d2", "Sound in the wake of a wing: a wing hums.", title="Noise"),
    chunk("d3", "机翼的热传导", title="传热"),
)


def built(it: Lab, chunks: Sequence[Chunk] = CHUNKS) -> Mapping[str, Any]:
    """What the retriever says after a build, as an object."""
    facts = it.retriever.build(chunks, Path())
    return {"chunks": facts.chunks, "bytes": facts.index_bytes, "engine": facts.engine, "stated": facts.stated}
