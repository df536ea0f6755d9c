"""How documents are cut into what is indexed: one settings model for each way."""

from typing import Annotated

from pydantic import Field

from app.lab.chunkings.headings import HeadingsChunking
from app.lab.chunkings.sentences import SentencesChunking
from app.lab.chunkings.tokens import TokensChunking
from app.lab.chunkings.whole import WholeChunking

AnyChunking = Annotated[
    WholeChunking | TokensChunking | SentencesChunking | HeadingsChunking, Field(discriminator="kind")
]

__all__ = ["AnyChunking", "HeadingsChunking", "SentencesChunking", "TokensChunking", "WholeChunking"]
