"""How documents are cut into what is indexed: one settings model for each way."""

from typing import Annotated

from pydantic import Field

from plumbline.extras.lab.chunkings.headings import HeadingsChunking
from plumbline.extras.lab.chunkings.sentences import SentencesChunking
from plumbline.extras.lab.chunkings.tokens import TokensChunking
from plumbline.extras.lab.chunkings.whole import WholeChunking

AnyChunking = Annotated[
    WholeChunking | TokensChunking | SentencesChunking | HeadingsChunking, Field(discriminator="kind")
]

__all__ = ["AnyChunking", "HeadingsChunking", "SentencesChunking", "TokensChunking", "WholeChunking"]
