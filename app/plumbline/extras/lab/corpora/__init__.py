"""Corpora: one settings model for each format of documents, queries and judgments."""

from typing import Annotated

from pydantic import Field

from plumbline.extras.lab.corpora.folder import FolderCorpus
from plumbline.extras.lab.corpora.rows import BeirCorpus, RowsCorpus

AnyCorpus = Annotated[BeirCorpus | RowsCorpus | FolderCorpus, Field(discriminator="kind")]

__all__ = ["AnyCorpus", "BeirCorpus", "FolderCorpus", "RowsCorpus"]
