"""TREC's files: judgments and runs read line by line; errors name the line, and nothing is skipped silently.

A line that is blank, or whose first character is `#`, is a comment. Blanks are ASCII white space, as in C's isspace.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.retrieval.run import MAX_GRADE, Qrels, Results, Run
from plumbline.retrieval.text_file import ReadLimits, file_error, numbered_lines

_QRELS_FORM: Final = "'query_id 0 doc_id relevance'"
_RUN_FORM: Final = "'query_id Q0 doc_id rank score tag'"
_RANKED_FORM: Final = "'query_id doc_id rank'"
_QRELS_FIELDS: Final = 4
_RUN_FIELDS: Final = 6
_TRIPLE_FIELDS: Final = 3
_MAX_NUMBER_LENGTH: Final = 64

_Row = tuple[int, list[bytes]]


def read_qrels(data: bytes, *, name: str, limits: ReadLimits) -> tuple[Qrels, int]:
    """Read judgments from lines `query_id 0 doc_id relevance`; return them, and the number that stood there twice.

    The second column is not read, as in trec_eval; a fifth is refused, as in trec_eval.

    Raises:
        InvalidInput: names the file and the line; also when the file holds no judgment, or a document has two grades.
    """
    qrels: dict[str, dict[str, int]] = {}
    merged = 0
    for line_number, fields in _rows(data, name, limits):
        if len(fields) != _QRELS_FIELDS:
            other = "; that is a run: are the files swapped?" if len(fields) == _RUN_FIELDS else ""
            raise file_error(f"expected 4 fields {_QRELS_FORM}, found {len(fields)}{other}", name, line_number)
        judged = qrels.setdefault(fields[0].decode(), {})
        doc_id, grade = fields[2].decode(), _grade(fields[3], name, line_number)
        if judged.get(doc_id, grade) != grade:
            raise _duplicate(name, line_number, doc_id, fields[0])
        merged += doc_id in judged
        judged[doc_id] = grade
    if not qrels:
        raise file_error(f"holds no judgment; expected lines of {_QRELS_FORM}", name)
    return qrels, merged


def read_run(data: bytes, *, name: str, limits: ReadLimits) -> Run:
    """Read a run from six columns `query_id Q0 doc_id rank score tag`, or MS MARCO's three `query_id doc_id rank`.

    Six columns give scores: the columns Q0, rank and tag are not read, and a seventh is ignored, as in trec_eval.
    Three columns give ranked lists in the order of their ranks: ranks are distinct and >= 0, gaps are closed.
    The first row decides which it is. The run is named `name`.

    Raises InvalidInput: names the file and the line; also when the file holds no row.
    """
    rows = _rows(data, name, limits)
    first = next(rows, None)
    if first is None:
        raise file_error(f"holds no row; expected lines of {_RUN_FORM}", name)
    if len(first[1]) == _TRIPLE_FIELDS:
        return Run(name, _ranked_lists(chain([first], rows), name))
    if len(first[1]) >= _RUN_FIELDS:
        return Run(name, _scores(chain([first], rows), name))
    expected = f"expected 6 fields {_RUN_FORM} or 3 fields {_RANKED_FORM}"
    other = "; those are judgments: are the files swapped?" if len(first[1]) == _QRELS_FIELDS else ""
    raise file_error(f"{expected}, found {len(first[1])}{other}", name, first[0])


def format_run(run: Run) -> Iterator[str]:
    """Yield the lines of a run with scores, as its mappings are ordered; a query without documents has none."""
    for query_id, results in run.results.items():
        for rank, (doc_id, score) in enumerate(results.items() if isinstance(results, Mapping) else (), start=1):
            yield f"{query_id} Q0 {doc_id} {rank} {score!r} {run.name}\n"


def is_comment(line: bytes) -> bool:
    """Return True for a line that is blank, or whose first character is `#`."""
    return line.startswith(b"#") or not line.strip()


def _rows(data: bytes, name: str, limits: ReadLimits) -> Iterator[_Row]:
    count = 0
    for line_number, line in numbered_lines(data):
        fields = line.split()
        if not fields or line.startswith(b"#"):
            continue
        count += 1
        if count > limits.max_rows:
            raise file_error(f"more than {limits.max_rows} rows, the limit", name, line_number)
        yield line_number, fields


def _scores(rows: Iterable[_Row], name: str) -> dict[str, Results]:
    results: dict[str, Results] = {}
    current, scores = b"", dict[str, float]()
    for line_number, fields in rows:
        if len(fields) < _RUN_FIELDS:
            raise file_error(f"expected 6 fields {_RUN_FORM}, found {len(fields)}", name, line_number)
        if fields[0] != current:
            current = fields[0]
            scores = results.setdefault(current.decode(), {})  # type: ignore[assignment]  # only dicts go in
        doc_id = fields[2].decode()
        if doc_id in scores:
            raise _duplicate(name, line_number, doc_id, current)
        scores[doc_id] = _number(fields[4], name, line_number, "score")
    return results


def _ranked_lists(rows: Iterable[_Row], name: str) -> dict[str, Results]:
    ranked: dict[str, tuple[dict[str, int], set[int]]] = {}
    for line_number, fields in rows:
        if len(fields) != _TRIPLE_FIELDS:
            raise file_error(f"expected 3 fields {_RANKED_FORM}, found {len(fields)}", name, line_number)
        rank_by_doc, ranks = ranked.setdefault(fields[0].decode(), ({}, set()))
        doc_id = fields[1].decode()
        if len(fields[2]) > _MAX_NUMBER_LENGTH or not fields[2].isdigit():
            detail = f"rank {quoted(fields[2])} is not an integer >= 0; expected 3 fields {_RANKED_FORM}"
            raise file_error(detail, name, line_number)
        rank = int(fields[2])
        if doc_id in rank_by_doc:
            raise _duplicate(name, line_number, doc_id, fields[0])
        if rank in ranks:
            detail = f"rank {rank} is taken by another document of query {quoted(fields[0])}"
            raise file_error(detail, name, line_number)
        rank_by_doc[doc_id] = rank
        ranks.add(rank)
    return {query_id: tuple(sorted(by_doc, key=by_doc.__getitem__)) for query_id, (by_doc, _) in ranked.items()}


def _grade(field: bytes, name: str, line_number: int) -> int:
    value = _number(field, name, line_number, "relevance")
    if not value.is_integer():
        detail = f"relevance {quoted(field)} is not an integer; round it or scale the grades"
        raise file_error(detail, name, line_number)
    if abs(value) > MAX_GRADE:
        raise file_error(f"relevance {quoted(field)} is beyond {MAX_GRADE}", name, line_number)
    return int(value)


def _number(field: bytes, name: str, line_number: int, what: str) -> float:
    try:
        value = float(field)
    except ValueError:
        value = math.nan
    # Python reads 1_0 as 10; no other reader of these files does.
    if not math.isfinite(value) or b"_" in field:
        raise file_error(f"{what} {quoted(field)} is not a finite number", name, line_number)
    return value


def _duplicate(name: str, line_number: int, doc_id: str, query: bytes) -> InvalidInput:
    detail = f"document {quoted(doc_id)} is listed twice for query {quoted(query)}"
    return file_error(detail, name, line_number)
