"""Chunks by what is encoded of them: a text that several hold is encoded once, and each of them is found by it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retriever import Hits
from plumbline.ground.errors import InvalidInput

BYTES_ARE: Final = "files of the index folder: vectors, and ids of the chunks; texts are not in it"


@dataclass(frozen=True, slots=True)
class DistinctTexts:
    """Texts that are not blank, and the ids of the chunks that hold each; the place of a text is its row.

    `stated`: of the chunks, what a report should tell.
    """

    texts: Sequence[str]
    ids: Sequence[Sequence[str]]
    stated: dict[str, str | int | float]

    @property
    def chunks(self) -> int:
        """How many chunks can be found."""
        return sum(map(len, self.ids))

    def best(self, scores: NDArray[np.float32], k: int, rows: NDArray[np.intp] | None = None) -> Hits:
        """The k best chunks, or all when there are fewer: score descending, then id.

        Args:
            scores: of the rows.
            k: how many.
            rows: each once; None for all.
        """
        if k <= 0 or not len(scores):
            return []
        worst = scores.min() if k >= len(scores) else np.partition(scores, -k)[-k]
        places = np.flatnonzero(scores >= worst)
        kept = (places if rows is None else rows[places]).tolist()
        of_rows = zip(kept, scores[places].tolist(), strict=True)
        found = [(chunk, score) for row, score in of_rows for chunk in self.ids[row]]
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))[:k]

    def write_ids(self, folder: Path) -> None:
        """Puts down whose rows they are."""
        (folder / "ids.json").write_text(json.dumps(self.ids), encoding="utf-8")


def distinct_texts(chunks: Sequence[Chunk], fields: Sequence[str]) -> DistinctTexts:
    """The chunks' texts: the named fields, or all when none is named, a line each.

    Raises:
        InvalidInput: there is no chunk, none with a text, or none with a field that is named.
    """
    if not chunks:
        raise InvalidInput("there is no chunk to index")
    there = dict.fromkeys(name for chunk in chunks for name in chunk.fields)
    if absent := [name for name in fields if name not in there]:
        raise InvalidInput(f"no document has the field {absent[0]!r}; there are: {', '.join(there) or 'none'}")
    by_text: dict[str, list[str]] = {}
    for chunk in chunks:
        by_text.setdefault(encodable(_text(chunk, fields)), []).append(chunk.id)
    blank = sum(len(by_text.pop(text)) for text in list(by_text) if not text.strip())
    if not by_text:
        raise InvalidInput(f"none of {len(chunks)} chunks has a text in {', '.join(fields) or 'any field'}")
    held = len(chunks) - blank
    return DistinctTexts(
        texts=list(by_text),
        ids=[sorted(ids) for ids in by_text.values()],
        stated={
            "fields": "+".join(fields or there),
            "chunks_without_text": blank,
            "repeated_texts": held - len(by_text),
        },
    )


def encodable(text: str) -> str:
    """The text with a question mark for each half of a character, which no tokenizer reads."""
    return text.encode("utf-8", "replace").decode("utf-8")


def folder_bytes(folder: Path) -> int:
    """What the folder's files take."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _text(chunk: Chunk, fields: Sequence[str]) -> str:
    if not fields:
        return chunk.text
    return "\n".join(text for name in fields if (text := chunk.fields.get(name)))
