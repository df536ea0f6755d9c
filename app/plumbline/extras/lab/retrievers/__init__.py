"""Settings of all kinds of retrievers."""

from typing import Annotated, TypeAlias

from pydantic import Field

from plumbline.extras.lab.retriever import OwnRetriever
from plumbline.extras.lab.retrievers.dense import ApproximateSettings, DenseSettings
from plumbline.extras.lab.retrievers.elastic import ElasticRetriever
from plumbline.extras.lab.retrievers.keyword import KeywordSettings
from plumbline.extras.lab.retrievers.learned_sparse import LearnedSparseSettings

AnyRetriever: TypeAlias = Annotated[
    KeywordSettings | DenseSettings | ApproximateSettings | LearnedSparseSettings | ElasticRetriever | OwnRetriever,
    Field(discriminator="kind"),
]
