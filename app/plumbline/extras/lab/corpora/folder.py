"""A folder of plain and Markdown texts as a corpus: a file is a document, YAML front matter gives its fields."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from plumbline.extras.lab.chunkings import first_heading
from plumbline.extras.lab.corpora.rows import AskedCorpus, PlacedDocument
from plumbline.extras.lab.corpus import BODY, Corpus, Document
from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.inputs import read_qrels, read_text

_FENCE: Final = re.compile(r"---[ \t]*\r?\n")
_CLOSING_FENCE: Final = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$\n?", re.MULTILINE)
# Front matter is a handful of lines; what is longer is a text between two rules.
_MAX_FRONT_MATTER_CHARS: Final = 64 * 1024


def split_front_matter(text: str, wanted: Collection[str], *, name: str) -> tuple[dict[str, str], str]:
    """Split off the front matter and return its `wanted` fields, with the text after it unchanged.

    Text, numbers and dates are fields as they are written in YAML; a list of them is joined by commas; what is nested
    deeper, and what is not wanted, is left out with the front matter. Text between two rules that YAML does not read
    as names and values is no front matter.

    Raises:
        InvalidInput: it is no YAML; PyYAML is missing.
    """
    opening = _FENCE.match(text)
    closing = _CLOSING_FENCE.search(text, opening.end(), opening.end() + _MAX_FRONT_MATTER_CHARS) if opening else None
    if opening is None or closing is None:
        return {}, text
    values = _load_yaml(text[opening.end() : closing.start()], name)
    if not isinstance(values, dict):
        return {}, text
    fields = {}
    for key in wanted:
        if key in values:
            value = values[key]
            listed = value if isinstance(value, list) else [value]
            fields[key] = ", ".join(each for each in listed if isinstance(each, str))
    return fields, text[closing.end() :]


def _load_yaml(matter: str, name: str) -> object:
    try:
        import yaml  # noqa: PLC0415  # of the extra `lab`
    except ImportError:
        detail = "front matter needs PyYAML; install it with: pip install 'plumbline-rag[lab]'"
        raise InvalidInput(detail, place=name) from None
    try:
        # Every value as it is written: no dates, no numbers, no objects, and aliases are not copied.
        return yaml.load(matter, Loader=yaml.BaseLoader)  # noqa: S506  # the loader that makes texts alone
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 2 if mark else 1
        detail = "the front matter is no YAML; front_matter = false reads it as text"
        raise InvalidInput(detail, place=f"{name}:{line}") from error


_MARKDOWN: Final = frozenset({".md", ".markdown"})
_TITLE: Final = "title"


class FolderCorpus(AskedCorpus):
    """Files of a folder and its subfolders; hidden files and links to folders are skipped.

    A document's id is its path from the folder on, with `/` between the parts: `guides/setup.md`.
    """

    kind: Literal["folder"]
    folder: str = Field(description="The folder.")
    suffixes: tuple[str, ...] = Field(
        default=(".txt", ".md", ".markdown"), min_length=1, description="Which files are documents."
    )
    front_matter: bool = Field(
        default=True, description="Split YAML front matter between lines of --- off Markdown texts."
    )
    front_matter_fields: tuple[str, ...] = Field(
        default=(_TITLE,), description="Keys that become fields. The title defaults to the text's first heading."
    )

    def read(self, name: str, base: Path) -> Corpus:
        """Read the corpus; paths are relative to `base`. InvalidInput names file and line of what is wrong."""
        return self.gather(name, self._documents(base), self.read_query_files(base), read_qrels(base / self.qrels))

    def _documents(self, base: Path) -> Iterator[PlacedDocument]:
        folder = base / self.folder
        if not folder.is_dir():
            raise InvalidInput(f"no such folder, looked for in {str(base)!r}", place=self.folder)
        suffixes = tuple(suffix.lower() for suffix in self.suffixes)
        paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
        for own_id, path in sorted(paths.items()):
            is_hidden = any(part.startswith(".") for part in own_id.split("/"))
            if not is_hidden and own_id.lower().endswith(suffixes) and path.is_file():
                text = read_text(path, name=own_id)
                fields = {_TITLE: ""}
                if path.suffix.lower() in _MARKDOWN:
                    fields |= dict.fromkeys(self.front_matter_fields, "")
                    if self.front_matter:
                        found, text = split_front_matter(text, self.front_matter_fields, name=own_id)
                        fields |= found
                    fields[_TITLE] = fields[_TITLE] or first_heading(text)
                yield own_id, Document(own_id, fields | {BODY: text})
