"""Retrievers, each behind the lab's one protocol."""

from typing import Annotated

from pydantic import Field

from app.errors import InvalidInput
from app.lab.retriever import Retriever
from app.lab.retrievers.elastic import ElasticRetriever
from app.lab.retrievers.elastic_knn import ElasticKnn
from app.lab.retrievers.keyword import KeywordSettings
from app.lab.retrievers.own import OwnRetriever

AnyRetriever = Annotated[KeywordSettings | ElasticRetriever | OwnRetriever, Field(discriminator="kind")]


def made(settings: KeywordSettings | ElasticRetriever | OwnRetriever) -> Retriever:
    """The retriever that the settings say.

    Raises:
        InvalidInput: a package, a model or a variable is missing; the message says how to get it.
    """
    if isinstance(settings, ElasticKnn):
        raise InvalidInput("has no encoder yet", place="query")
    return settings.make()
