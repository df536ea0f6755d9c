"""Judgments and runs from what callers have, read in one way for the command, HTTP and Python.

Mappings, lists and frames; files of TREC, CSV, TSV, Parquet and JSON; answers of Elasticsearch; replies of an LLM.
"""

import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from plumbline.ground.deadline import within_deadline
from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.texts import CodedText
from plumbline.retrieval import trec
from plumbline.retrieval.input_rows import (
    DOCUMENTS,
    FOUND_LISTS,
    GOLD_LISTS,
    GRADES,
    QUERIES,
    RANKS,
    REPLIES,
    SCORES,
    Row,
    first_of,
    fold,
    list_columns,
    load,
    name_of,
    parse_cell,
)
from plumbline.retrieval.run import MAX_GRADE, ParsedRanking, Qrels, Results, Run, check_scores
from plumbline.retrieval.text_file import ReadLimits, format_place

# A file of one's own on one's own machine: a bound against a bomb, not against size.
_LIMITS: Final = ReadLimits(max_bytes=8_000_000_000, max_rows=200_000_000)
_MOST_NAMED: Final = 5
_PAIR: Final = 2
# Whole numbers of so many digits are below MAX_GRADE.
_MOST_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class Judgments:
    """Grades by query and document.

    merged: equal judgments that were given twice. alternatives: by query, documents that count as another one.
    """

    qrels: Qrels
    merged: int = 0
    alternatives: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return a line on equal judgments, if there were some."""
        return (CodedText("judgments_merged", count=self.merged),) if self.merged else ()

    def apply(self, run: Run) -> Run:
        """Return the run with each alternative as the document that it stands for, once, at its best place."""
        if not self.alternatives:
            return run
        results = dict(run.results)
        for query, name_by_id in self.alternatives.items():
            found = results.get(query, ())
            if isinstance(found, Mapping):
                best: dict[str, float] = {}
                for document, score in found.items():
                    name = name_by_id.get(document, document)
                    best[name] = max(score, best.get(name, -math.inf))
                results[query] = best
            elif query in results:
                results[query] = list(dict.fromkeys(name_by_id.get(document, document) for document in found))
        return Run(run.name, results)


@dataclass(frozen=True, slots=True)
class ReadRun:
    """A run, and the rankings that were parsed for it out of an LLM's replies, by query."""

    run: Run
    rankings: Mapping[str, ParsedRanking] = field(default_factory=dict)

    @property
    def unparsed(self) -> list[str]:
        """Return the queries whose reply holds no ranking, or several; the run lacks them."""
        return [query for query, ranking in self.rankings.items() if not ranking.parse_ok]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return a line for the replies that were not read, and one for those that name unknown ids."""
        names = self.unparsed
        several = sum(bool(self.rankings[name].readings) for name in names)
        shown = ", ".join(map(quoted, names[:_MOST_NAMED])) + (", …" if len(names) > _MOST_NAMED else "")
        lines = []
        if names:
            lines.append(
                CodedText("replies_unread", count=len(names), all=len(self.rankings), several=several, names=shown)
            )
        if strange := [each.unknown[0] for each in self.rankings.values() if each.unknown]:
            name = quoted(strange[0])
            lines.append(CodedText("replies_with_unknown", count=len(strange), all=len(self.rankings), name=name))
        return tuple(lines)


def read_qrels(source: Any, *, limits: ReadLimits | None = None, alternatives: bool = False) -> Judgments:
    """Return judgments: by query grades or relevant ids, rows with columns, a frame, or a file of any form.

    `alternatives`: a list among the relevant ids names documents of which one is enough; they count as one document.

    Raises InvalidInput: names the file and line, or the query and document: an id or a grade that is none, two grades
    of one document, or a list among ids without `alternatives`.
    """
    name, limits = name_of(source), limits or _LIMITS
    with _in_file(name):
        held = load(source, limits)
        pool, place = _Pool(alternatives), format_place(name)
        if isinstance(held, bytes):
            lines = trec.columns_of(held, name=name, limits=limits, are_judgments=True)
            for number, (query, document, grade) in lines or ():
                own = pool.qrels.setdefault(query, {})
                if document not in own and grade.isdecimal() and len(grade) <= _MOST_DIGITS:
                    own[document] = int(grade)
                else:
                    pool.grade(query, document, _cell_number(grade), f"{place}:{number}")
        elif isinstance(held, Mapping):
            for query, judged in held.items():
                pool.add(_id(query, is_query=True), judged, str(query))
        else:
            for row in held:
                pool.add_row(row)
            if not pool.qrels:
                raise InvalidInput(CodedText("holds_no_judgment") if name else CodedText("no_judgment"))
        return Judgments(pool.qrels, pool.merged, pool.name_by_id)


class _Pool:
    """Judgments as they are read."""

    def __init__(self, has_alternatives: bool) -> None:
        self.qrels: dict[str, dict[str, int]] = {}
        self.merged = 0
        self.name_by_id: dict[str, dict[str, str]] = {}
        self._has_alternatives = has_alternatives

    def add(self, query: str, judged: Any, place: str) -> None:
        own = self.qrels.setdefault(query, {})
        if isinstance(judged, Mapping):
            if not own and set(map(type, judged.values())) <= {int} and set(map(type, judged)) <= {str}:
                own.update(judged)
                judged = ()
                if own and not -MAX_GRADE <= min(own.values()) <= max(own.values()) <= MAX_GRADE:
                    judged, self.qrels[query] = dict(own), {}
            for document, grade in dict(judged).items():
                self.grade(query, document, grade, f"{place}/{document}")
            return
        if isinstance(judged, str | bytes) or not isinstance(judged, Iterable):
            raise InvalidInput(CodedText("grades_expected"), place=place)
        for each in judged:
            if isinstance(each, Mapping):
                cells = {fold(name): cell for name, cell in each.items()}
                self.grade(query, first_of(cells, DOCUMENTS), first_of({"": 1, **cells}, (*GRADES, "")), place)
            elif isinstance(each, list | tuple) and self._has_alternatives and each:
                names = [_id(one, place) for one in each]
                self.name_by_id.setdefault(query, {}).update(dict.fromkeys(names, names[0]))
                self.grade(query, names[0], 1, place)
            else:
                self.grade(query, each, 1, place)

    def add_row(self, row: Row) -> None:
        query = _query(row)
        column = next((name for name in GOLD_LISTS if name in row.cells), None)
        if column is not None:
            if query in self.qrels:
                raise InvalidInput(CodedText("second_row", name=quoted(query)), place=row.place)
            self.add(query, parse_cell(row.cells[column], row.place, column), row.place)
            return
        document = _document(row, GOLD_LISTS)
        grade = first_of({**row.cells, "": 1}, (*GRADES, ""))
        self.grade(query, document, _cell_number(grade), row.place)

    def grade(self, query: str, document: Any, grade: Any, place: str) -> None:
        name, own = _id(document, place), self.qrels.setdefault(query, {})
        whole = _whole(grade, place)
        if own.get(name, whole) != whole:
            detail = CodedText("two_grades", name=quoted(name), one=own[name], other=whole)
            raise InvalidInput(detail, place=place)
        self.merged += name in own
        own[name] = whole


def read_run(
    source: Any,
    *,
    name: str,
    limits: ReadLimits | None = None,
    candidates: Mapping[str, Sequence[str]] | None = None,
    append_missing: bool = False,
) -> ReadRun:
    """Return a run: by query scores, ids best first, hits or an LLM's reply; a `Run`; rows, a frame, or a file.

    `candidates`: the ids that the LLM could choose from, by query; `append_missing` as in `parse_ranking`.

    Raises InvalidInput: names the file and line, or the query and document.
    """
    if isinstance(source, Run):
        return ReadRun(source)
    is_file, limits = bool(name_of(source)), limits or _LIMITS
    with _in_file(name if is_file else ""):
        held = load(source, limits)
        if isinstance(held, bytes):
            lines = trec.columns_of(held, name=name, limits=limits, are_judgments=False)
            if lines is None:
                return ReadRun(trec.read_run(held, name=name, limits=limits))
            columns = ("query_id", "doc_id", "rank")
            held = (Row(format_place(name, at), dict(zip(columns, fields, strict=True))) for at, fields in lines)
        given, offered = _by_query(held) if isinstance(held, Mapping) else _group_rows(held)
        if not given and not isinstance(held, Mapping):
            raise InvalidInput(CodedText("holds_no_row") if is_file else CodedText("no_row"))
        replies = {query: found for query, found in given.items() if isinstance(found, str)}
        rankings = _parse_replies(replies, offered or candidates or {}, limits, append_missing) if replies else {}
        results = {query: _results(query, found) for query, found in given.items() if query not in rankings}
        results |= {query: ranking.ids for query, ranking in rankings.items() if ranking.parse_ok}
        return ReadRun(Run(name, results), rankings)


def _by_query(held: Mapping[Any, Any]) -> tuple[dict[str, Any], Mapping[str, Sequence[str]]]:
    """Return what a mapping has for each query, and the candidates beside it."""
    offered = held.get("candidates") or {}
    wrapped = next((held[key] for key in ("llm_outputs", "results") if isinstance(held.get(key), Mapping)), None)
    if isinstance(held.get("hits"), Mapping) or isinstance(held.get("responses"), list):
        raise InvalidInput(CodedText("answer_without_query"))
    given = {_id(query, is_query=True): found for query, found in (wrapped or held).items()}
    return given, offered if wrapped else {}


def _group_rows(rows: Iterable[Row]) -> tuple[dict[str, Any], dict[str, Sequence[str]]]:
    """Return replies, lists, or documents by score, by rank or as they stand, by query; and candidates of replies."""
    given: dict[str, Any] = {}
    offered: dict[str, Sequence[str]] = {}
    ranked: set[str] = set()
    for row in rows:
        query, cells = _query(row), row.cells
        reply = first_of(cells, REPLIES)
        column = next((name for name in FOUND_LISTS if name in cells), None)
        is_reply = isinstance(reply, str) and column in (None, "candidates")
        if is_reply or column is not None:
            if query in given:
                raise InvalidInput(CodedText("second_row", name=quoted(query)), place=row.place)
            given[query] = reply if is_reply else parse_cell(cells[column or ""], row.place, column or "")
            if is_reply and cells.get("candidates") is not None:
                listed = parse_cell(cells["candidates"], row.place, "candidates")
                offered[query] = list(_results(query, listed))
            continue
        document = _id(_document(row, (*FOUND_LISTS, *REPLIES)), row.place)
        own = given.setdefault(query, {})
        if document in own:
            detail = CodedText("listed_twice", name=quoted(document), query=quoted(query))
            raise InvalidInput(detail, place=row.place)
        name = next((name for name in (*SCORES, *RANKS) if name in cells), None)
        own[document] = None if name is None else _finite(_cell_number(cells[name]), row.place, name)
        if name in RANKS:
            ranked.add(query)
    for query in ranked:
        if len({*given[query].values()}) < len(given[query]):
            raise InvalidInput(CodedText("two_of_one_rank"), place=query)
        given[query] = sorted(given[query], key=given[query].__getitem__)
    return {
        query: [*own] if isinstance(own, dict) and None in own.values() else own for query, own in given.items()
    }, offered


def _parse_replies(
    replies: Mapping[str, str], candidates: Mapping[str, Sequence[str]], limits: ReadLimits, append_missing: bool
) -> dict[str, ParsedRanking]:
    # its expressions take a tenth of a second to compile, which runs without replies need not
    from plumbline.retrieval.llm_rankings import parse_ranking  # noqa: PLC0415

    found = {}
    for query, text in within_deadline(replies.items()):
        if limits.max_reply is not None and len(text) > limits.max_reply:
            raise InvalidInput(CodedText("text_too_long", found=len(text), limit=limits.max_reply), place=query)
        found[query] = parse_ranking(text, candidates=candidates.get(query), append_missing=append_missing)
    return found


def _results(query: str, found: Any) -> Results:
    """Return the scores or ids of one query; hits and pairs of id and score become scores where all have one."""
    place = quoted(query)[1:-1]
    if isinstance(found, Mapping) and isinstance(found.get("hits"), Mapping | list):
        hits = found["hits"]
        found = hits["hits"] if isinstance(hits, Mapping) else hits
    if isinstance(found, Mapping):
        is_plain = set(map(type, found)) <= {str}
        scores = found if is_plain else {_id(document, place): each for document, each in found.items()}
        check_scores(query, scores)
        return scores
    if isinstance(found, str | set | frozenset | bytes) or not isinstance(found, Iterable):
        raise InvalidInput(CodedText("results_expected", found=type(found).__name__), place=place)
    documents = list(found)
    if set(map(type, documents)) <= {str}:
        return documents
    rows = [_hit(each) for each in documents]
    ids = [_id(document, f"{place}: rank {rank}") for rank, (document, _) in enumerate(rows, start=1)]
    if any(score is None for _, score in rows) or len(set(ids)) < len(ids):
        return ids
    return _results(query, dict(zip(ids, (score for _, score in rows), strict=True)))


def _hit(each: Any) -> tuple[Any, Any]:
    """Return the document of an item of a list, and its score; None where it has none."""
    if isinstance(each, Mapping):
        cells = {fold(name): cell for name, cell in each.items()}
        return first_of(cells, DOCUMENTS), first_of(cells, SCORES)
    if isinstance(each, list | tuple) and len(each) == _PAIR and isinstance(each[1], int | float):
        return each[0], each[1]
    return each, None


def _query(row: Row) -> str:
    """Return the query of a row: its id or its text; the number of the row where it only has lists."""
    cell = first_of(row.cells, QUERIES)
    if isinstance(cell, Mapping):
        # RankLLM's requests hold the query's text and id
        cell = first_of(cell, QUERIES)
    hits = row.cells.get("hits")
    if isinstance(hits, list) and hits and isinstance(hits[0], Mapping):
        cell = hits[0].get("qid", cell)
    if cell is None and any(name in row.cells for name in (*GOLD_LISTS, *FOUND_LISTS)) and "query_id" not in row.cells:
        cell = row.cells.get("id", row.cells.get("_id", row.place.rpartition(" ")[2].rpartition(":")[2]))
    if cell is None:
        raise InvalidInput(CodedText("no_query_column", found=list_columns(row.cells)), place=row.place)
    return _id(cell, row.place, is_query=True)


def _document(row: Row, lists: Iterable[str]) -> Any:
    names = [name for name in DOCUMENTS if name in row.cells]
    if not names:
        wanted = (*DOCUMENTS[:2], *list(lists)[:2])
        detail = CodedText("no_document_column", names=wanted, found=list_columns(row.cells))
        raise InvalidInput(detail, place=row.place)
    return row.cells[names[0]]


def _id(value: Any, place: str = "", *, is_query: bool = False) -> str:
    """Return an id as text: a text that is not empty, or a whole number."""
    if isinstance(value, str) and value:
        return value
    if isinstance(value, float) and value.is_integer():
        # pandas makes floats of a column of numbers with a gap
        return str(int(value))
    try:
        if not isinstance(value, bool):
            return str(operator.index(value))
    except TypeError:
        pass
    wanted = CodedText("id_of_query") if is_query else CodedText("id_of_document")
    detail = CodedText("id_expected", found=quoted(repr(value)), wanted=wanted)
    is_list = isinstance(value, list | tuple)
    raise InvalidInput(CodedText("name_alternatives", flaw=detail) if is_list else detail, place=place)


def _cell_number(cell: Any) -> Any:
    """Return the number that a cell of text holds, else the cell."""
    try:
        return float(cell) if isinstance(cell, str) and "_" not in cell else cell
    except ValueError:
        return cell


def _finite(value: Any, place: str, what: str) -> float:
    if isinstance(value, str | bool | None) or not math.isfinite(value):
        raise InvalidInput(CodedText("cell_not_finite", name=what, value=quoted(str(value))), place=place)
    return float(value)


def _whole(grade: Any, place: str) -> int:
    """Return a grade as an int: numpy's and 2.0 are whole numbers, True is none."""
    try:
        if not isinstance(grade, bool | str) and int(grade) == grade and abs(grade) <= MAX_GRADE:
            return int(grade)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidInput(CodedText("grade_expected", found=quoted(repr(grade)), limit=MAX_GRADE), place=place)


@contextmanager
def _in_file(name: str) -> Iterator[None]:
    """Name the file before the query and document of an error."""
    try:
        yield
    except InvalidInput as error:
        if not name or error.place.startswith(format_place(name)):
            raise
        place = f"{format_place(name)}: {error.place}" if error.place else format_place(name)
        raise InvalidInput(error.detail, place=place) from None
    except RecursionError:
        raise InvalidInput(CodedText("nested_too_deep"), place=format_place(name)) from None
