"""A folder as BEIR lays it out (Thakur et al. 2021, github.com/beir-cellar/beir)."""

from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from plumbline.extras.lab.corpora.columns import Columns, documents_in_rows, queries_in_rows
from plumbline.extras.lab.corpora.files import judgments
from plumbline.extras.lab.corpora.gathering import CorpusSettings
from plumbline.extras.lab.corpus import BODY, Corpus
from plumbline.ground.errors import InvalidInput

_ID: Final = "_id"
_TITLE: Final = "title"


class BeirCorpus(CorpusSettings):
    """`corpus.jsonl`, `queries.jsonl` and `qrels/<split>.tsv` in one folder, each plain or with `.gz`."""

    kind: Literal["beir"]
    folder: str = Field(description="The folder.")
    split: str = Field(
        default="test", description="Which judgments: the name of a file in qrels/.", pattern=r"^[^/\\]+$"
    )
    metadata_fields: tuple[str, ...] = Field(
        default=(), description="Names inside of `metadata` that are fields of the document."
    )
    unjudged: Literal["keep", "leave_out"] = Field(
        default="leave_out",
        description="Queries that the split does not judge; queries.jsonl holds those of all splits.",
    )

    def read(self, name: str, base: Path) -> Corpus:
        """The corpus; the folder is relative to `base`.

        Raises:
            InvalidInput: a file, a row or an id is wrong; names file and line.
        """
        folder = base / self.folder
        fields = {_TITLE: _TITLE} | {each: f"metadata.{each}" for each in self.metadata_fields} | {BODY: "text"}
        columns = Columns(_ID, fields, optional=frozenset(fields.values()) - {"text"})
        qrels = judgments(str(self._file(folder, f"qrels/{self.split}.tsv")), base)
        documents = documents_in_rows([self._file(folder, "corpus.jsonl")], columns, "jsonl")
        queries = queries_in_rows([self._file(folder, "queries.jsonl")], _ID, "text", "jsonl")
        return self.gathered(name, documents, queries, qrels)

    def _file(self, folder: Path, name: str) -> Path:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
        raise InvalidInput(f"the folder {self.folder!r} has no such file, nor with .gz", place=name)
