"""Documents, queries and judgments put together: ids unique and fit for a run's file, what does not meet is told."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from plumbline.extras.lab.corpus import Corpus, Document, Query
from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.run import Qrels
from plumbline.retrieval.text_file import shown

# Where it stands, for errors, and what stands there.
PlacedDocument = tuple[str, Document]
PlacedQuery = tuple[str, Query]

# White space parts the columns of a run's file; a `#` in front makes a line of it a comment.
_UNFIT: Final = re.compile(r"[\x00-\x20\x7f]|\A#")


class CorpusSettings(BaseModel):
    """What every corpus lets one choose of queries and judgments that do not meet."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unjudged: Literal["keep", "leave_out"] = Field(
        default="keep", description="Queries that nobody judged: asked and written to the runs, or left out."
    )
    unasked: Literal["refuse", "leave_out"] = Field(
        default="refuse", description="Judged queries that are not among the queries: an error, or left out."
    )

    def gathered(
        self, name: str, documents: Iterable[PlacedDocument], queries: Iterable[PlacedQuery], qrels: Qrels
    ) -> Corpus:
        """The corpus, ids as `run_id` writes them.

        Raises:
            InvalidInput: there is no document or no query, an id is empty or stands twice, a query has no text, a
                judged query is not asked (`unasked`), or judgments and corpus have no query or no document in common.
        """
        kept = list(_unique_documents(documents))
        ids = {document.id for document in kept}
        if not kept:
            raise InvalidInput("there is no document", place=name)
        asked = list(_unique_queries(queries))
        if not asked:
            raise InvalidInput("there is no query", place=name)
        judged = self._judged(name, asked, _with_run_ids(qrels))
        judged_documents = {document_id for grades in judged.values() for document_id in grades}
        if not judged_documents & ids:
            example = f"judged is {shown(min(judged_documents))}, the corpus has {shown(kept[0].id)}"
            raise InvalidInput(f"no judged document is in the corpus: {example}", place=name)
        if self.unjudged == "leave_out":
            asked = [query for query in asked if query.id in judged]
        return Corpus(name, tuple(kept), tuple(asked), judged, len(judged_documents - ids))

    def _judged(self, name: str, asked: list[Query], qrels: Qrels) -> Qrels:
        ids = {query.id for query in asked}
        unasked = [query_id for query_id in qrels if query_id not in ids]
        if len(unasked) == len(qrels):
            example = f"judged is {shown(unasked[0])}, asked is {shown(asked[0].id)}"
            raise InvalidInput(f"no judged query is among the queries: {example}", place=name)
        if unasked and self.unasked == "refuse":
            found = (
                f"{len(unasked)} of {len(qrels)} judged queries are not among the queries, first {shown(unasked[0])}"
            )
            raise InvalidInput(f'{found}; are the ids the same? unasked = "leave_out" goes on without them', place=name)
        return {query_id: grades for query_id, grades in qrels.items() if query_id in ids}


def run_id(own_id: str) -> str:
    """The id as it stands in a run's file: white space and control characters, and a `#` in front, as `%20`."""
    return _UNFIT.sub(lambda match: f"%{ord(match[0]):02X}", own_id)


def _with_run_ids(qrels: Qrels) -> Qrels:
    return {run_id(query): {run_id(doc): grade for doc, grade in grades.items()} for query, grades in qrels.items()}


def _unique_documents(documents: Iterable[PlacedDocument]) -> Iterator[Document]:
    seen: dict[str, str] = {}
    for place, document in documents:
        yield Document(_new_id(document.id, "document", place, seen), document.fields)


def _unique_queries(queries: Iterable[PlacedQuery]) -> Iterator[Query]:
    seen: dict[str, str] = {}
    for place, query in queries:
        query_id = _new_id(query.id, "query", place, seen)
        text = " ".join(query.text.split())
        if not text:
            raise InvalidInput(f"query {shown(query.id)} has no text", place=place)
        yield Query(query_id, text)


def _new_id(own_id: str, what: str, place: str, seen: dict[str, str]) -> str:
    if not own_id:
        raise InvalidInput(f"the id of a {what} is empty", place=place)
    fit = run_id(own_id)
    if fit in seen:
        raise InvalidInput(f"{what} {shown(own_id)} is there already, at {seen[fit]}", place=place)
    seen[fit] = place
    return fit
