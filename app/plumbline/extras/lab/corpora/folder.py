"""A folder of plain and Markdown texts: a file is a document."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from plumbline.extras.lab.corpora.files import file_text, judgments
from plumbline.extras.lab.corpora.front_matter import without_front_matter
from plumbline.extras.lab.corpora.gathering import PlacedDocument
from plumbline.extras.lab.corpora.rows import AskedCorpus
from plumbline.extras.lab.corpus import BODY, Corpus, Document
from plumbline.extras.lab.heading_text import first_heading
from plumbline.ground.errors import InvalidInput

_MARKDOWN: Final = frozenset({".md", ".markdown"})
_TITLE: Final = "title"


class FolderCorpus(AskedCorpus):
    """The files of a folder and of those below it; what begins with a dot is passed over, links to folders too.

    A document's id is its path from the folder on, with `/` between the parts: `guides/setup.md`.
    """

    kind: Literal["folder"]
    folder: str = Field(description="The folder.")
    suffixes: tuple[str, ...] = Field(
        default=(".txt", ".md", ".markdown"), min_length=1, description="Which files are documents."
    )
    front_matter: bool = Field(
        default=True, description="Whether Markdown's YAML between lines of --- is taken off the text."
    )
    front_matter_fields: tuple[str, ...] = Field(
        default=(_TITLE,), description="What of it is a field. The title is else the heading that the text begins with."
    )

    def read(self, name: str, base: Path) -> Corpus:
        """The corpus; paths are relative to `base`.

        Raises:
            InvalidInput: a file, a row or an id is wrong; names the file, and the line where there is one.
        """
        return self.gathered(name, self._documents(base), self.asked(base), judgments(self.qrels, base))

    def _documents(self, base: Path) -> Iterator[PlacedDocument]:
        folder = base / self.folder
        if not folder.is_dir():
            raise InvalidInput(f"no such folder, looked for in {str(base)!r}", place=self.folder)
        suffixes = tuple(suffix.lower() for suffix in self.suffixes)
        paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
        for own_id, path in sorted(paths.items()):
            is_hidden = any(part.startswith(".") for part in own_id.split("/"))
            if not is_hidden and own_id.lower().endswith(suffixes) and path.is_file():
                text = file_text(path, name=own_id)
                is_markdown = path.suffix.lower() in _MARKDOWN
                yield (
                    own_id,
                    self._markdown(own_id, text) if is_markdown else Document(own_id, {_TITLE: "", BODY: text}),
                )

    def _markdown(self, own_id: str, text: str) -> Document:
        fields = dict.fromkeys((_TITLE, *self.front_matter_fields), "")
        if self.front_matter:
            found, text = without_front_matter(text, self.front_matter_fields, name=own_id)
            fields |= found
        fields[_TITLE] = fields[_TITLE] or first_heading(text)
        return Document(own_id, fields | {BODY: text})
