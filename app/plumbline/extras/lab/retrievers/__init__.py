"""Settings of all kinds of retrievers."""

from typing import Annotated, TypeAlias

from pydantic import Field

from plumbline.extras.lab.retriever import OwnRetriever, Retriever
from plumbline.extras.lab.retrievers.dense import ApproximateSettings, DenseSettings
from plumbline.extras.lab.retrievers.elastic import ElasticKnn, ElasticRetriever
from plumbline.extras.lab.retrievers.keyword import KeywordSettings
from plumbline.extras.lab.retrievers.learned_sparse import LearnedSparseSettings
from plumbline.extras.lab.retrievers.vectors import ModelVectors

AnyRetriever: TypeAlias = Annotated[
    KeywordSettings | DenseSettings | ApproximateSettings | LearnedSparseSettings | ElasticRetriever | OwnRetriever,
    Field(discriminator="kind"),
]


def made(settings: AnyRetriever) -> Retriever:
    """Create the retriever of these settings; load what can be loaded before `build`.

    Raises:
        InvalidInput: a package, a model or a variable is missing; the message says how to get it.
    """
    if isinstance(settings, ElasticKnn):
        return settings.make(ModelVectors(settings.encoder()))
    return settings.make()
