"""Documents and queries as rows: JSON Lines, JSON arrays, CSV, TSV, Parquet."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from plumbline.extras.lab.corpora.columns import Columns, documents_in_rows, queries_in_rows
from plumbline.extras.lab.corpora.files import Paths, found_files, judgments
from plumbline.extras.lab.corpora.gathering import CorpusSettings, PlacedQuery
from plumbline.extras.lab.corpus import BODY, Corpus

RowForm = Literal["jsonl", "json", "csv", "tsv", "parquet"]


class AskedCorpus(CorpusSettings):
    """Queries as rows, and a file of judgments: what rows and folders have alike."""

    queries: Paths = Field(description="File or files of queries: JSON Lines, JSON, CSV, TSV or Parquet.")
    qrels: str = Field(description="Judgments: TREC's four columns, or TSV with the header query-id corpus-id score.")
    query_id_column: str = Field(default="id", description="Where a query's id stands: text or a whole number.")
    query_text_column: str = Field(default="text", description="Where a query's text stands.")
    query_format: RowForm | None = Field(default=None, description="Of the queries, where the suffix does not say it.")

    def asked(self, base: Path) -> Iterator[PlacedQuery]:
        """The queries.

        Raises:
            InvalidInput: as `queries_in_rows`.
        """
        files = found_files(self.queries, base)
        return queries_in_rows(files, self.query_id_column, self.query_text_column, self.query_format)


class RowsCorpus(AskedCorpus):
    """Documents and queries with named columns; `a.b` is b inside of the object a."""

    kind: Literal["rows"]
    documents: Paths = Field(description="File or files of documents, or patterns.")
    format: RowForm | None = Field(default=None, description="Of the documents, where the suffix does not say it.")
    id_column: str = Field(default="id", description="Where a document's id stands: text or a whole number.")
    text_column: str = Field(default="text", description="Where a document's text stands.")
    field_columns: tuple[str, ...] = Field(
        default=(), description="Other columns that are fields of the document, under their own names."
    )

    def read(self, name: str, base: Path) -> Corpus:
        """The corpus; paths are relative to `base`.

        Raises:
            InvalidInput: a file, a row or an id is wrong; names file and line.
        """
        fields = {column: column for column in self.field_columns} | {BODY: self.text_column}
        documents = documents_in_rows(found_files(self.documents, base), Columns(self.id_column, fields), self.format)
        return self.gathered(name, documents, self.asked(base), judgments(self.qrels, base))
