"""Rankings in the values of an LLM's reply: lists, rows and objects of JSON, by the meaning of their keys."""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import groupby
from typing import Any, Final

from plumbline.ground.phrases import Phrases
from plumbline.retrieval.ranking_candidates import Candidates


class Meaning(IntEnum):
    """Role of a list by the words that stand before it; of several lists the greatest is the ranking."""

    EXCLUDED = 0
    INPUT = 1
    OTHER = 2
    LIST = 3
    ORDER = 4
    FINAL = 5


WORDS: Final = Phrases("retrieval/ranking_words")
# The first that is found decides: `irrelevant` holds `relevant`.
_MEANINGS: Final = {
    role: re.compile(WORDS.pattern(f"meanings.{role.name.lower()}"))
    for role in (Meaning.EXCLUDED, Meaning.INPUT, Meaning.FINAL, Meaning.ORDER, Meaning.LIST)
}
# Columns by their keys; ranks and distances rise, scores fall.
_KINDS: Final = {kind: re.compile(WORDS.pattern(f"columns.{kind}")) for kind in ("rank", "score", "distance")}
_FLAG_KEY: Final = re.compile(WORDS.pattern("columns.flag"))
# The first that is found decides: `不相关` holds `相关`.
_GRADES: Final = [
    (float(place), re.compile(WORDS.pattern(f"grades.{name}")))
    for place, name in enumerate(("none", "low", "medium", "high"))
]
_MAX_GRADE_WORD: Final = 24
_MOST_FOLDED: Final = 1_000
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_GAP: Final = re.compile(r"[ -]+")
_REMARK: Final = re.compile(r"[(（][^()（）]{0,80}+[)）]\Z")
_DECIMAL: Final = re.compile(r"[0-9]*\.[0-9]+")
_STRING_SEPARATOR: Final = re.compile(r"[,，、;；>＞≻→|\n]")

Blocks = list[list[str]]
# Items held equal, and numbers by their key; a number that nothing names has the key "".
Row = tuple[list[str], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Reading:
    """Items that a passage ranks: best first, those held equal in one block.

    label: the key or heading that stands before. other: the order that the passage may mean as well. is_from_zero: the
    items are positions in a reranker's answer.
    """

    blocks: Blocks
    label: str = ""
    other: Blocks | None = None
    is_from_zero: bool = False
    is_other_written: bool = False


def meaning(label: str) -> Meaning:
    text = _fold(label)
    if text.startswith("by "):
        # one of several criteria
        return Meaning.OTHER
    return next((role for role, pattern in _MEANINGS.items() if pattern.search(text)), Meaning.OTHER)


def excludes(label: str) -> bool:
    """Return True if a key, heading or remark says that what it names is left out."""
    return bool(label) and _MEANINGS[Meaning.EXCLUDED].search(_fold(label)) is not None


def _fold(text: str) -> str:
    if len(text) > _MOST_FOLDED:
        # takes time quadratic in a run of combining marks
        return text.casefold()
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def key(name: str) -> str:
    """Return a key as it is compared: without case, width, marks; blanks and hyphens as underscores."""
    return _GAP.sub("_", _REMARK.sub("", _fold(_CAMEL.sub("_", name)).strip()).strip(" *`\"':"))


def is_value_key(name: str) -> bool:
    """Return True if a column of that name holds ranks or scores."""
    return any(pattern.fullmatch(key(name)) for pattern in _KINDS.values())


def flat(blocks: Blocks) -> list[str]:
    return [item for block in blocks for item in block]


def order_rows(rows: Sequence[Row], label: str = "", *, is_written: bool = True) -> Reading:
    """Order rows by their ranks or scores, or as they are written; where two of these disagree, there are two readings.

    Numbers that nothing names are read by the label, else as scores; 1 to n, each once, may be ranks as well.
    `is_written`: the order in which the rows are written tells something.
    """
    written = [list(items) for items, _ in rows]
    unnamed = sorted(values[""] for _, values in rows if "" in values)
    labelled = next((kind for kind, pattern in _KINDS.items() if pattern.fullmatch(key(label))), None)
    could_be_ranks = unnamed == list(range(1, len(rows) + 1))
    kind_of_unnamed = "score" if labelled is None or (labelled == "rank" and not could_be_ranks) else labelled
    orders: list[Blocks] = []
    for kind, pattern in _KINDS.items():
        found = [
            (items, next((each for name, each in values.items() if pattern.fullmatch(name or kind_of_unnamed)), None))
            for items, values in rows
        ]
        if column := [(items, value) for items, value in found if value is not None]:
            last = [items for items, value in found if value is None]
            orders.append([*_sort_blocks(column, is_rising=kind != "score"), *last])
            is_written = is_written and (kind != "rank" or len(column) < len(rows))
    is_whole = labelled == "rank" and all(value.is_integer() for value in unnamed)
    if unnamed and (could_be_ranks or is_whole) and kind_of_unnamed == "score" != labelled:
        orders.append(_sort_blocks([(items, values[""]) for items, values in rows], is_rising=True))
    orders += [written] if is_written or not orders else []
    best = orders[0]
    other = next((each for each in orders if not _agree(best, each)), None)
    return Reading(best, label, other, is_other_written=other is written)


def _agree(best: Blocks, other: Blocks) -> bool:
    """Return True if two orders hold the same items, and none the other way round."""
    place_by_item = {item: place for place, block in enumerate(other) for item in block}
    places = [place_by_item.get(item, -1) for item in flat(best)]
    return len(places) == len(flat(other)) and -1 not in places and places == sorted(places)


def _sort_blocks(pairs: Sequence[tuple[list[str], float]], *, is_rising: bool) -> Blocks:
    ordered = sorted(pairs, key=lambda pair: pair[1] if is_rising else -pair[1])
    return [[item for items, _ in tied for item in items] for _, tied in groupby(ordered, key=lambda pair: pair[1])]


def read_table(rows: Sequence[Mapping[str, object]], label: str, candidates: Candidates) -> Iterator[Reading]:
    """Yield the ranking of rows that name a document each, by their ranks, scores or order; and what they exclude."""
    kept, excluded = list[Row](), list[str]()
    for row in rows:
        doc_id = row_id(row, candidates)
        if doc_id is None:
            continue
        if any(str(value).strip().casefold() in _excluding_words(name) for name, value in row.items()):
            excluded.append(doc_id)
        else:
            kept.append(
                ([doc_id], {key(name): each for name, value in row.items() if (each := number(value)) is not None})
            )
    if excluded:
        yield Reading([[doc_id] for doc_id in excluded], "excluded")
    if kept:
        scored = any(_KINDS["score"].fullmatch(name) for _, values in kept for name in values)
        is_index = all(_row_key(row, candidates) in ("index", "corpus_id") for row in rows)
        yield replace(order_rows(kept, label), label=label, is_from_zero=scored and is_index)


def row_id(row: Mapping[str, object], candidates: Candidates) -> str | None:
    name = _row_key(row, candidates)
    return next((str(value) for own, value in row.items() if key(own) == name), None)


def _row_key(row: Mapping[str, object], candidates: Candidates) -> str | None:
    texts = {key(name): value for name, value in row.items() if isinstance(value, str)}
    named = [name for name in WORDS.read("columns.ids") if name in texts]
    known = [name for name, text in texts.items() if candidates.find_known(text)]
    best = next((name for name in named if candidates.knows(texts[name])), next(iter(named), None))
    return best or (known[0] if len(known) == 1 < len(row) else None)


def number(value: object) -> float | None:
    """Return a number, or the place of a word as `high` or `相关` in the order of grades."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value)
    if text and set(text) <= set("★⭐☆"):
        return float(len(text) - text.count("☆"))
    try:
        return float(text.rstrip("%分 "))
    except ValueError:
        return grade(text) if len(text) <= _MAX_GRADE_WORD else None


def grade(text: str) -> float | None:
    """Return the place of a grade that a text names: `partially relevant`, `高`."""
    folded = _fold(text[:_MAX_LABEL])
    return next((value for value, pattern in _GRADES if pattern.search(folded)), None)


def _excluding_words(name: str) -> set[str]:
    """Return the words under this name that exclude a row."""
    words = set(WORDS.read("columns.agreements")) if excludes(name) else set()
    return words | set(WORDS.read("columns.refusals")) if _FLAG_KEY.fullmatch(key(name)) else words


# Where a value may begin: a list, an object, a pair, or a Python object as `repr` prints it.
_START: Final = re.compile(r"[\[{]|\((?=\s*+['\"])|\b[A-Za-z]\w{0,60}+\((?=\w{1,60}+=)")
_TOKEN: Final = re.compile(
    r"""\s*+(?>(?:(?://|\#)[^\n]*+\s*+)*)(?:(?P<object>\{|[^\W\d][\w.]*+\((?=\s*\w+\s*=))|(?P<wrapper>[^\W\d][\w.]*+\()"""
    r"""|(?P<list>[\[(])|(?P<close>[\])}])|(?P<comma>,)|(?P<colon>[:=])|(?P<name>(?:[^\W\d][\w.]*+|[0-9]++)(?=\s*+[:=]))"""
    r"""|(?P<text>"(?>(?:[^"\\]|\\.)*)")|(?P<python>'(?>(?:[^'\\]|\\.)*)')"""
    r"""|(?P<number>-?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)(?!\w)|(?P<constant>(?i:true|false|null|none))\b)""",
    re.DOTALL,
)
# Signs as JSON has them; `np.float32(8.6)` is its number.
_BRACKETS: Final = {"object": ("{", "}"), "list": ("[", "]"), "wrapper": ("", "")}
# Each may read the text to its end.
_MOST_FAILURES: Final = 20
_MAX_DEPTH: Final = 8
_MAX_LABEL: Final = 80
_MAX_ID_WORDS: Final = 4
_PAIR: Final = 2
ORDINALS: Final = WORDS.read("columns.ordinals")
_RANK_NAME: Final = re.compile(r"(?:rank|top|no\.?|第)?_?#?([0-9]{1,6})(?:st|nd|rd|th)?[名位]?")
_LABEL_END: Final = re.compile(r"[\n.。!！?？;；]")
_ALONE_BEFORE: Final = re.compile(r"(?:[:：=]|\b(?:is|are|be)|[是为])[\s`*]*\Z|\A[\s`*>\-]*\Z", re.IGNORECASE)
_ALONE_AFTER: Final = re.compile(r"[\s.。;；,，*`})\]]*(?:\Z|(?<=[,，\s])[\"'])")


class _Number(str):
    """A number as it was written: an id such as 7067032 keeps its digits."""

    __slots__ = ()


def _read_value(text: str, position: int) -> tuple[Any, int]:
    """Return the value of JSON or Python that begins there, and its end; raise ValueError without one."""
    parts, closing = list[str](), list[str]()
    while closing or not parts:
        token = _TOKEN.match(text, position)
        if token is None or len(closing) > _MAX_DEPTH:
            raise ValueError
        kind, position = token.lastgroup or "", token.end()
        word = token[kind]
        if kind in _BRACKETS:
            word, close = _BRACKETS[kind]
            closing.append(close)
        elif kind == "close":
            parts[-1:] = [each for each in parts[-1:] if each != ","]
            word = closing.pop()
        elif kind in ("name", "python"):
            word = json.dumps(word.strip("'"))
        elif kind == "constant":
            word = word.lower().replace("none", "null")
        parts.append(":" if kind == "colon" else word)
    return json.loads(" ".join(parts), parse_int=_Number, parse_float=_Number, strict=False), position


def json_readings(text: str, candidates: Candidates) -> tuple[list[Reading], bool]:
    """Return the rankings in the values of a text, JSON or Python's, and whether it holds an object without any."""
    found, rows, has_unread = list[Reading](), list[Any](), False
    position = last = failures = 0
    while failures < _MOST_FAILURES and (start := _START.search(text, position)):
        try:
            value, position = _read_value(text, start.start())
        except ValueError:
            position = start.end()
            failures += 1
            continue
        label, is_alone = label_before(text, last, start.start()), _stands_alone(text, start.start(), position)
        last = position
        if isinstance(value, dict) and row_id(value, candidates) is not None and not _holds_rows(value):
            rows.append(value)
        elif isinstance(value, dict) or is_alone or not all(isinstance(each, _Number) for each in value):
            readings = list(_read_tree(value, label, candidates, _MAX_DEPTH))
            has_unread = has_unread or (isinstance(value, dict) and bool(value) and not readings)
            found += readings
    return [*found, *read_table(rows, "", candidates)], has_unread


def _holds_rows(row: Mapping[str, Any]) -> bool:
    return any(isinstance(each, dict) for part in row.values() for each in (part if isinstance(part, list) else [part]))


def label_before(text: str, start: int, end: int) -> str:
    """Return the last line or sentence before `end`: the heading of what follows."""
    pieces = _LABEL_END.split(text[max(start, end - _MAX_LABEL) : end])
    return next((piece.strip() for piece in reversed(pieces) if piece.strip(" `*\t\"'")), "")


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Return True if a line holds nothing but a heading and this part, as a list does and a citation does not."""
    before = text[max(0, start - _MAX_LABEL) : start].rpartition("\n")[2]
    after = text[end : end + _MAX_LABEL].partition("\n")[0]
    return _ALONE_BEFORE.search(before) is not None and _ALONE_AFTER.match(after) is not None


def _read_tree(value: Any, label: str, candidates: Candidates, depth: int) -> Iterator[Reading]:
    if not value or not depth or isinstance(value, _Number | bool):
        return
    if isinstance(value, str):
        yield from _read_string(value, label, candidates)
    elif rows := _rows_of_list(value, candidates) if isinstance(value, list) else None:
        yield from read_table(rows, label, candidates)
    elif isinstance(value, dict):
        yield from _read_object(value, label, candidates, depth)
    elif all(isinstance(each, str) and _is_item(each) for each in value):
        # `[2]` alone is a link of a chain or a citation
        if len(value) > 1 or not isinstance(value[0], _Number):
            yield Reading([[str(each)] for each in value], label)
    elif all(isinstance(each, list) and all(isinstance(item, str) for item in each) for each in value):
        yield Reading([each for each in value if each], label)
    elif all(isinstance(each, dict) for each in value):
        for each in value:
            yield from _read_tree(each, label, candidates, depth - 1)


def _read_string(text: str, label: str, candidates: Candidates) -> Iterator[Reading]:
    """Yield the ranking of a text in a value: JSON as in a tool's arguments, a chain, or ids with commas."""
    if text.lstrip().startswith(("{", "[{", '["')):
        yield from json_readings(text, candidates)[0]
    elif meaning(label) >= Meaning.LIST:
        pieces = [piece.strip() for piece in _STRING_SEPARATOR.split(text)]
        if len(pieces) > 1 and all(map(candidates.is_id, pieces)):
            yield Reading([[piece] for piece in pieces], label)


def _rows_of_list(value: list[Any], candidates: Candidates) -> list[dict[str, Any]] | None:
    """Return the rows of a list: objects, pairs of an id and a score or rank, or a score for each candidate."""
    if all(isinstance(each, dict) for each in value):
        rows = [_flat_row(each) for each in value]
        ids = [row_id(row, candidates) or "" for row in rows]
        is_known = not candidates.are_given or any(candidates.knows(each) or each.isdecimal() for each in ids)
        return rows if all(ids) and is_known else None
    if all(isinstance(each, list) and len(each) == _PAIR for each in value):
        for at, name in ((1, ""), (0, "rank")):
            if all([isinstance(item, _Number) for item in each] == [at == 0, at == 1] for each in value):
                return [{"id": each[1 - at], name: each[at]} for each in value]
    if len(value) == candidates.count and all(isinstance(each, _Number) for each in value) and "." in "".join(value):
        return [{"index": str(place), "score": each} for place, each in enumerate(value)]
    return None


def _flat_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the fields of its parts that have an id, such as a document's metadata, beside its own."""
    inner = [part for part in row.values() if isinstance(part, dict) and part.keys() & {"id", "doc_id"}]
    own = {name: each for name, each in row.items() if not isinstance(each, dict)}
    return {name: each for part in (*inner, own) for name, each in part.items()}


def _read_object(fields: dict[str, Any], label: str, candidates: Candidates, depth: int) -> Iterator[Reading]:
    """Yield the ranking of documents by rank, of scores or facts by document, or those under each of the keys."""
    fields = {
        name: row_id(each, candidates) or each if isinstance(each, dict) else each for name, each in fields.items()
    }
    ranked = [
        ([item], {"rank": rank})
        for name, each in fields.items()
        for rank in [_rank_of(name)]
        for item in (each if isinstance(each, list) else [each])
        if rank is not None and isinstance(item, str) and _is_item(item)
    ]
    is_ranked = len({row["rank"] for _, row in ranked}) == len(fields) - list(fields.values()).count(None)
    by_rank = replace(order_rows(ranked), label=label)
    values = [
        (name, str(each)) for name, each in fields.items() if isinstance(each, _Number) or _DECIMAL.fullmatch(str(each))
    ]
    if len(values) == len(fields) > 1:
        scored = order_rows([([name], {"": float(each)}) for name, each in values], label, is_written=False)
        # `{"3": 2, "1": 1}`: the documents of ranks, or the scores of documents
        is_either = is_ranked and all("." not in each for _, each in values)
        yield Reading(scored.blocks, label, by_rank.blocks if is_either else scored.other)
    elif is_ranked and ranked:
        yield by_rank
    elif all(isinstance(each, bool) for each in fields.values()):
        yield from read_table([{"id": name, "relevant": each} for name, each in fields.items()], label, candidates)
    else:
        for name, each in fields.items():
            # a key that says nothing leaves the word to the one above it
            own = name if meaning(name) is not Meaning.OTHER or key(name).endswith("scores") else label or name
            yield from _read_tree(each, own, candidates, depth - 1)


def _rank_of(name: str) -> float | None:
    """Return the rank that a key names: `1`, `rank_1`, `1st`, `first`, `第1名`."""
    if (found := _RANK_NAME.fullmatch(key(name))) is not None:
        return float(found[1])
    return float(ORDINALS.index(key(name))) if key(name) in ORDINALS else None


def _is_item(text: str) -> bool:
    return 0 < len(text.split(None, _MAX_ID_WORDS)) < _MAX_ID_WORDS
