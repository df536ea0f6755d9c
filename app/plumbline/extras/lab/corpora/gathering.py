"""Files that an experiment names, and the checks of every corpus: unique ids, judged queries and documents."""

import glob
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from plumbline.extras.lab.corpus import Corpus, Document, Query
from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.run import Qrels
from plumbline.retrieval.text_file import quoted

# One path or pattern, or several.
Paths = str | tuple[str, ...]


def find_files(paths: Paths, base: Path) -> Sequence[Path]:
    """Return the named files, each once; those of a pattern (`*`, `?`, `[..]`, `**`) sorted by name.

    Raises:
        InvalidInput: a path is no file, or no file fits a pattern.
    """
    found: dict[Path, None] = {}
    for named in (paths,) if isinstance(paths, str) else paths:
        path = base / named
        if path.is_file():
            found[path] = None
        elif glob.has_magic(named):
            fitting = sorted(base / name for name in glob.glob(named, root_dir=base, recursive=True))
            files = [each for each in fitting if each.is_file()]
            if not files:
                raise InvalidInput(f"no file fits the pattern, looked for in {str(base)!r}", place=named)
            found.update(dict.fromkeys(files))
        else:
            raise InvalidInput(f"no such file, looked for in {str(base)!r}", place=named)
    return tuple(found)


# Where it stands, for errors, and what stands there.
PlacedDocument = tuple[str, Document]
PlacedQuery = tuple[str, Query]

# White space parts the columns of a run's file; a `#` in front makes a line of it a comment.
_UNFIT: Final = re.compile(r"[\x00-\x20\x7f]|\A#")


class CorpusSettings(BaseModel):
    """Options for queries and judgments that do not match."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unjudged: Literal["keep", "leave_out"] = Field(
        default="keep", description="Queries without judgments: searched and written to the runs, or left out."
    )
    unasked: Literal["refuse", "leave_out"] = Field(
        default="refuse", description="Judged queries that are not among the queries: an error, or left out."
    )

    def gather(
        self, name: str, documents: Iterable[PlacedDocument], queries: Iterable[PlacedQuery], qrels: Qrels
    ) -> Corpus:
        """Check and return the corpus, ids as `run_id` writes them.

        Raises:
            InvalidInput: there is no document or no query, an id is empty or stands twice, a query has no text, a
                judged query is not asked (`unasked`), or judgments and corpus have no query or no document in common.
        """
        seen: dict[str, str] = {}
        kept = [Document(_new_id(each.id, "document", place, seen), each.fields) for place, each in documents]
        ids = {document.id for document in kept}
        if not kept:
            raise InvalidInput("there is no document", place=name)
        asked, seen = [], {}
        for place, query in queries:
            query_id = _new_id(query.id, "query", place, seen)
            text = " ".join(query.text.split())
            if not text:
                raise InvalidInput(f"query {quoted(query.id)} has no text", place=place)
            asked.append(Query(query_id, text))
        if not asked:
            raise InvalidInput("there is no query", place=name)
        renamed = {run_id(q): {run_id(doc): grade for doc, grade in grades.items()} for q, grades in qrels.items()}
        query_ids = {query.id for query in asked}
        judged = {query_id: grades for query_id, grades in renamed.items() if query_id in query_ids}
        unasked = next((query_id for query_id in renamed if query_id not in query_ids), "")
        if not judged:
            example = f"judged is {quoted(unasked)}, asked is {quoted(asked[0].id)}"
            raise InvalidInput(f"no judged query is among the queries: {example}", place=name)
        if unasked and self.unasked == "refuse":
            count = len(renamed) - len(judged)
            found = f"{count} of {len(renamed)} judged queries are not among the queries, first {quoted(unasked)}"
            detail = f'{found}; are the ids the same? unasked = "leave_out" continues without them'
            raise InvalidInput(detail, place=name)
        judged_documents = {document_id for grades in judged.values() for document_id in grades}
        if not judged_documents & ids:
            example = f"judged is {quoted(min(judged_documents))}, the corpus has {quoted(kept[0].id)}"
            raise InvalidInput(f"no judged document is in the corpus: {example}", place=name)
        if self.unjudged == "leave_out":
            asked = [query for query in asked if query.id in judged]
        return Corpus(name, tuple(kept), tuple(asked), judged, len(judged_documents - ids))


def run_id(own_id: str) -> str:
    """Escape an id for a run file: white space, control characters and a leading `#` become `%20` and so on."""
    return _UNFIT.sub(lambda match: f"%{ord(match[0]):02X}", own_id)


def _new_id(own_id: str, what: str, place: str, seen: dict[str, str]) -> str:
    if not own_id:
        raise InvalidInput(f"the id of a {what} is empty", place=place)
    fit = run_id(own_id)
    if fit in seen:
        raise InvalidInput(f"{what} {quoted(own_id)} is there already, at {seen[fit]}", place=place)
    seen[fit] = place
    return fit
