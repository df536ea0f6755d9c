"""Retrievers, each behind the lab's one protocol."""

from typing import Annotated, TypeAlias

from pydantic import Field

from app.lab.retriever import Retriever
from app.lab.retrievers.approximate import ApproximateSettings
from app.lab.retrievers.dense import DenseSettings
from app.lab.retrievers.elastic import ElasticRetriever
from app.lab.retrievers.elastic_knn import ElasticKnn
from app.lab.retrievers.elastic_vectors import ModelVectors
from app.lab.retrievers.keyword import KeywordSettings
from app.lab.retrievers.learned_sparse import LearnedSparseSettings
from app.lab.retrievers.own import OwnRetriever

AnyRetriever: TypeAlias = Annotated[
    KeywordSettings | DenseSettings | ApproximateSettings | LearnedSparseSettings | ElasticRetriever | OwnRetriever,
    Field(discriminator="kind"),
]


def made(settings: AnyRetriever) -> Retriever:
    """The retriever that the settings say, with what it can load before it is built.

    Raises:
        InvalidInput: a package, a model or a variable is missing; the message says how to get it.
    """
    if isinstance(settings, ElasticKnn):
        return settings.make(ModelVectors(settings.encoder()))
    return settings.make()
