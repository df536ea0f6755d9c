"""Judgments and runs from what callers have: mappings, tables of pandas or polars, files, replies of an LLM."""

import codecs
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.texts import CodedText
from plumbline.retrieval.run import MAX_GRADE, Qrels, Results, Run, check_scores
from plumbline.retrieval.text_file import ReadLimits, file_error, format_place, read_text_bytes
from plumbline.retrieval.trec import FILE_FORMATS, HEADER_NAMES

if TYPE_CHECKING:
    from plumbline.retrieval.llm_rankings import ParsedRanking

# A file of one's own on one's own machine: a bound against a bomb, not against size.
_LIMITS: Final = ReadLimits(max_bytes=8_000_000_000, max_rows=200_000_000)
_QUERY_NAMES, _DOCUMENT_NAMES, _GRADE_NAMES = HEADER_NAMES
_OUTPUT_NAMES: Final = ("output", "outputs", "text", "response", "llm_output", "answer")
_MOST_NAMED: Final = 5
_HEAD_BYTES: Final = 512
_LINES: Final = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class ReadRun:
    """A run, and the rankings that were parsed for it out of an LLM's replies, by query."""

    run: Run
    rankings: "Mapping[str, ParsedRanking]" = field(default_factory=dict)

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


def read_qrels(source: Any, *, format_name: str = "trec") -> Qrels:
    """Return judgments: by query a mapping of grades or the relevant ids; or a table, or the path of a file.

    Raises:
        InvalidInput: names the file and line, or the query and document.
    """
    if isinstance(source, str | Path):
        name = Path(source).name
        with _open(source) as file:
            if not _is_json(file):
                return FILE_FORMATS[format_name].read_qrels(file, name=name, limits=_LIMITS)
            with _in_file(name):
                return read_qrels(_json(file, name))
    if not isinstance(source, Mapping):
        rows = _columns(source, (_QUERY_NAMES, _DOCUMENT_NAMES, _GRADE_NAMES), needed=2)
        source = _group_rows(rows, default=1)
    return {str(query): _grades(str(query), judged) for query, judged in source.items()}


def read_run(
    source: Any,
    *,
    name: str,
    format_name: str = "trec",
    candidates: Mapping[str, Sequence[str]] | None = None,
    append_missing: bool = False,
) -> ReadRun:
    """Return a run: by query scores, ids best first or an LLM's reply; a `Run`; a table; or the path of a file.

    `candidates`: the ids that the LLM could choose from, by query; `append_missing` as in `parse_ranking`. A file of
    JSON holds such a mapping, or objects line by line with a query and an output.

    Raises:
        InvalidInput: names the file and line, or the query and document.
    """
    if isinstance(source, Run):
        return ReadRun(source)
    if isinstance(source, str | Path):
        with _open(source) as file:
            if not _is_json(file):
                return ReadRun(FILE_FORMATS[format_name].read_run(file, name=name, limits=_LIMITS))
            with _in_file(name):
                return _check_all_scores(
                    read_run(_json(file, name), name=name, candidates=candidates, append_missing=append_missing)
                )
    if not isinstance(source, Mapping):
        rows = _columns(source, (_QUERY_NAMES, _DOCUMENT_NAMES, {"score", "sim", "similarity"}), needed=2)
        ranks = _columns(source, ({"rank", "position"},), needed=0)
        source = _rank_rows(rows, [rank for (rank,) in ranks])
    if isinstance(source.get("llm_outputs"), Mapping) or isinstance(source.get("results"), Mapping):
        candidates = source.get("candidates") or candidates
        source = source.get("llm_outputs") or source["results"]
    replies = {str(query): given for query, given in source.items() if isinstance(given, str)}
    rankings = _parse_replies(replies, candidates or {}, append_missing=append_missing) if replies else {}
    results: dict[str, Results] = {}
    for key, given in source.items():
        query = str(key)
        if query not in rankings:
            results[query] = _results(query, given)
        elif rankings[query].parse_ok:
            results[query] = rankings[query].ids
    return ReadRun(Run(name, results), rankings)


def _parse_replies(
    replies: Mapping[str, str], candidates: Mapping[str, Sequence[str]], *, append_missing: bool
) -> "dict[str, ParsedRanking]":
    # its expressions take a tenth of a second to compile, which runs without replies need not
    from plumbline.retrieval.llm_rankings import parse_ranking  # noqa: PLC0415

    return {
        query: parse_ranking(text, candidates=candidates.get(query), append_missing=append_missing)
        for query, text in replies.items()
    }


def _check_all_scores(read: ReadRun) -> ReadRun:
    for query, scores in read.run.results.items():
        if isinstance(scores, Mapping):
            check_scores(query, scores)
    return read


def read_text(path: Path, *, name: str) -> str:
    """Return the text of a file, plain or gzip, line ends unchanged; InvalidInput names file and line."""
    with _open(path) as file:
        return read_text_bytes(file, name=name, limits=_LIMITS).decode()


def _open(path: str | Path) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise file_error(f"cannot be read ({error.strerror})", str(path)) from error


@contextmanager
def _in_file(name: str) -> Iterator[None]:
    """Name the file before the query and document of an error."""
    try:
        yield
    except InvalidInput as error:
        if error.place.startswith(format_place(name)):
            raise
        place = f"{format_place(name)}: {error.place}" if error.place else format_place(name)
        raise InvalidInput(error.detail, place=place) from None


def _is_json(file: BinaryIO) -> bool:
    """Return True if a file, gzipped or not, begins as JSON does; no line of TREC's does."""
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    if head.startswith(b"\x1f\x8b"):
        with suppress(zlib.error):
            head = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(head, _HEAD_BYTES)
    return head.removeprefix(codecs.BOM_UTF8).lstrip().startswith((b"{", b"["))


def _json(file: BinaryIO, name: str) -> Mapping[str, Any]:
    """Return the mapping in a file of JSON, or of JSON line by line."""
    data = read_text_bytes(file, name=name, limits=_LIMITS)
    try:
        value = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        try:
            value = _LINES.decode_lines(data)
        except msgspec.DecodeError:
            raise file_error(f"is not JSON: {error}", name) from None
    if isinstance(value, Mapping) and not _QUERY_NAMES & value.keys():
        return value
    rows = [value] if isinstance(value, Mapping) else value
    found: dict[str, Any] = {"llm_outputs": {}, "candidates": {}}
    for line, row in enumerate(rows, start=1):
        query = next((row[key] for key in _QUERY_NAMES if key in row), None) if isinstance(row, Mapping) else None
        output = next((row[key] for key in _OUTPUT_NAMES if key in row), None) if query is not None else None
        if not isinstance(output, str):
            detail = "wanted an object with a query_id and an output, the LLM's reply"
            raise file_error(detail, name, line)
        found["llm_outputs"][str(query)] = output
        if row.get("candidates") is not None:
            found["candidates"][str(query)] = row["candidates"]
    return found


def _grades(query: str, judged: Any) -> dict[str, int]:
    if isinstance(judged, Mapping):
        return {str(document): _whole(grade, f"{query}/{document}") for document, grade in judged.items()}
    if isinstance(judged, str) or not isinstance(judged, Iterable):
        raise InvalidInput("wanted grades by document, or the relevant documents", place=query)
    return {str(document): 1 for document in judged}


def _whole(grade: Any, place: str) -> int:
    """Return a grade as an int: numpy's and 2.0 are whole numbers, True is none."""
    try:
        if not isinstance(grade, bool) and int(grade) == grade and abs(grade) <= MAX_GRADE:
            return int(grade)
    except (TypeError, ValueError, OverflowError):
        pass
    detail = f"found the grade {quoted(repr(grade))}, wanted a whole number up to {MAX_GRADE}"
    raise InvalidInput(detail, place=place)


def _results(query: str, found: Any) -> Results:
    if isinstance(found, Mapping):
        return found if set(map(type, found)) <= {str} else {str(document): score for document, score in found.items()}
    if isinstance(found, set | frozenset | bytes) or not isinstance(found, Iterable):
        detail = f"found a {type(found).__name__}, wanted scores by document or ids best first"
        raise InvalidInput(detail, place=query)
    documents = list(found)
    for place, document in enumerate(documents):
        if not isinstance(document, str | int) or isinstance(document, bool):
            detail = f"found {quoted(repr(document))} at rank {place + 1}, wanted the id of a document"
            raise InvalidInput(detail, place=query)
    return documents if set(map(type, documents)) <= {str} else list(map(str, documents))


def _columns(table: Any, names: Sequence[set[str]], *, needed: int) -> list[tuple[Any, ...]]:
    """Return the rows of the columns of these names, None where an optional one is missing."""
    columns = {str(column).casefold(): column for column in getattr(table, "columns", ())}
    found = [next((columns[name] for name in columns if name in known), None) for known in names]
    lacking = next((known for column, known in zip(found[:needed], names, strict=False) if column is None), None)
    if lacking is not None:
        detail = f"wanted a mapping, a path or a table with a column such as {', '.join(sorted(lacking)[:4])}"
        raise InvalidInput(f"{detail}; found {', '.join(columns) or type(table).__name__}")
    lists = [None if column is None else table[column].to_list() for column in found]
    count = max((len(each) for each in lists if each is not None), default=0)
    return list(zip(*([None] * count if each is None else each for each in lists), strict=True))


def _group_rows(rows: Iterable[tuple[Any, ...]], *, default: Any) -> dict[str, dict[str, Any]]:
    grouped: dict[str, dict[str, Any]] = {}
    for query, document, value in rows:
        own = grouped.setdefault(str(query), {})
        if str(document) in own:
            raise InvalidInput("the document has two rows", place=f"{query}/{document}")
        own[str(document)] = default if value is None else value
    return grouped


def _rank_rows(rows: Sequence[tuple[Any, ...]], ranks: Sequence[Any]) -> dict[str, Results]:
    """Group the rows by query: by score; without scores as lists by rank, or as they stand."""
    if rows and rows[0][-1] is not None:
        return dict(_group_rows(rows, default=None))
    ordered = (
        [rows[place] for place in sorted(range(len(rows)), key=ranks.__getitem__)] if ranks[:1] != [None] else rows
    )
    lists: dict[str, list[str]] = {}
    for query, document, _ in ordered:
        lists.setdefault(str(query), []).append(str(document))
    return dict(lists)
