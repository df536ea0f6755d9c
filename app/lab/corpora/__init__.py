"""Where documents, queries and judgments come from: one settings model for each form."""

from typing import Annotated

from pydantic import Field

from app.lab.corpora.beir import BeirCorpus
from app.lab.corpora.folder import FolderCorpus
from app.lab.corpora.rows import RowsCorpus
from app.lab.corpora.trec_xml import TrecXmlCorpus

AnyCorpus = Annotated[BeirCorpus | TrecXmlCorpus | RowsCorpus | FolderCorpus, Field(discriminator="kind")]

__all__ = ["AnyCorpus", "BeirCorpus", "FolderCorpus", "RowsCorpus", "TrecXmlCorpus"]
