"""Little corpora and what keyword retrievers find in them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.keyword import KeywordSettings
from plumbline.extras.lab.retriever import Retriever

Fields = Mapping[str, str]


def chunks_of(documents: Mapping[str, Fields | str]) -> list[Chunk]:
    """A chunk for each document; a string is its `text`."""
    fields = {id_: {"text": of} if isinstance(of, str) else of for id_, of in documents.items()}
    return [Chunk(id=id_, document_id=id_, fields=of) for id_, of in fields.items()]


def built(documents: Mapping[str, Fields | str], folder: Path, settings: Mapping[str, object]) -> Retriever:
    """A retriever with these documents in it."""
    retriever = KeywordSettings.model_validate(settings).make()
    folder.mkdir(parents=True, exist_ok=True)
    retriever.build(chunks_of(documents), folder)
    return retriever


def ids_of(hits: Sequence[tuple[str, float]]) -> list[str]:
    """The ids, best first."""
    return [id_ for id_, _ in hits]
