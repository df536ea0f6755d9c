"""Settings of all kinds of retrievers."""

from typing import Annotated, TypeAlias

from pydantic import Field

from plumbline.extras.lab.retriever import OwnRetriever
from plumbline.extras.lab.retrievers.dense import DenseSettings
from plumbline.extras.lab.retrievers.keyword import KeywordSettings

AnyRetriever: TypeAlias = Annotated[
    KeywordSettings | DenseSettings | OwnRetriever,
    Field(discriminator="kind"),
]
