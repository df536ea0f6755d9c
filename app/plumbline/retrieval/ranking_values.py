"""Meanings of the keys, headings and columns around a ranking in an LLM's reply, and orders by rank or score."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Meaning(IntEnum):
    """Role of a list by the words that stand before it; of several lists the greatest is the ranking."""

    EXCLUDED = 0
    INPUT = 1
    OTHER = 2
    LIST = 3
    ORDER = 4
    FINAL = 5


# Each alternative begins with a letter of its own, for which `re` looks before it tries any.
_EXCLUDED: Final = re.compile(
    r"exclu|irrelevant|unrelated|unrelevant|non[ _-]?relevant|less[ _-]?relevant|least[ _-]?relevant"
    r"|not[ _-]?(?:relevant|selected|used|ranked)|reject|discard|remov|dropp|ignor|omit|unranked|filtered|negative"
    r"|排除|不相关|无相关|无关|剔除|丢弃|过滤|忽略|去除|删除|未入选|未选"
)
# The first that is found decides: `irrelevant` holds `relevant`.
_MEANINGS: Final = {
    Meaning.EXCLUDED: _EXCLUDED,
    Meaning.INPUT: re.compile(
        r"candidate|input|original|initial|given|unsorted|draft|first pass|before|候选|输入|原始|初始|初步|给定|备选"
    ),
    Meaning.FINAL: re.compile(r"final|conclu|answer|最终|结论|答案|综上"),
    Meaning.ORDER: re.compile(r"rank|order|sort|排|顺序|名次"),
    Meaning.LIST: re.compile(
        r"result|relevan|output|select|chosen|top|best|document|docs|\bids?\b|_ids\b|passage|items|结果|相关|文档|推荐"
    ),
}
_RANK_KEY: Final = re.compile(
    r"(?:final_)?rank(?:ing|s)?|position|place|order|#|no\.?|排名|名次|排序|顺序|位次|序号|次序"
)
_SCORE_KEY: Final = re.compile(
    r"(?:[a-z]+_)*(?:scores?|relevance|relevancy|similarity|confidence|rating|probability|grade)"
    r"|得分|分数|评分|打分|相关性|相关度|相关性得分|相关性评分|相似度|置信度"
)
_DISTANCE_KEY: Final = re.compile(r"(?:[a-z]+_)*distance|距离")
_FLAG_KEY: Final = re.compile(r"(?:is_)?(?:relevant|included?|selected|kept?|keep)|(?:是否)?(?:相关|入选|保留)")
_GAP: Final = re.compile(r"[ -]+")
_REFUSALS: Final = frozenset({"false", "no", "n", "0", "否", "不", "不相关", "无关"})
_AGREEMENTS: Final = frozenset({"true", "yes", "y", "1", "是"})
# A row names its document by the first of these that it has.
_ID_KEYS: Final = (
    *("id", "doc_id", "docid", "document_id", "_id", "pid", "passage_id", "chunk_id", "identifier", "doc"),
    *("文档id", "文档编号", "文档", "段落", "编号", "document", "passage", "chunk", "index"),
)

Blocks = list[list[str]]


@dataclass(frozen=True, slots=True)
class Reading:
    """Items that a passage ranks: best first, those held equal in one block.

    label: the key or heading that stands before. other: the order that the passage may mean as well.
    """

    blocks: Blocks
    label: str = ""
    other: Blocks | None = None


def meaning(label: str) -> Meaning:
    """Return the role that a key or heading gives to a list."""
    text = _fold(label)
    return next((role for role, pattern in _MEANINGS.items() if pattern.search(text)), Meaning.OTHER)


def excludes(label: str) -> bool:
    """Return True if a key, heading or remark says that what it names is left out."""
    return bool(label) and _EXCLUDED.search(_fold(label)) is not None


def _fold(text: str) -> str:
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def number(value: object) -> float | None:
    """Return a number, also one in a text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def by_value(pairs: Sequence[tuple[str, float]], *, label: str, name: str = "", is_list: bool = False) -> Reading:
    """Order (item, value) pairs by what `name` says that the values are: ranks, distances, or scores.

    The numbers 1 to n, each once and without a name, may be ranks as well as scores. In a list (`is_list`) the order
    in which it is written is another reading wherever scores fall differently.
    """
    role = key(name) or key(label)
    is_score, is_rank = _SCORE_KEY.fullmatch(role), _RANK_KEY.fullmatch(role)
    values = sorted(value for _, value in pairs)
    could_be_ranks = values == list(range(1, len(pairs) + 1))
    is_rising = bool(_DISTANCE_KEY.fullmatch(role) or (is_rank and (name or could_be_ranks)))
    blocks = _sorted(pairs, is_rising=is_rising)
    other = None
    if not (is_rising or is_score) and (could_be_ranks or (is_rank and all(value.is_integer() for value in values))):
        other = _sorted(pairs, is_rising=True)
    if is_list and not is_rank:
        written = [[item] for item, _ in pairs]
        other = written if flat(blocks) != flat(written) else other
    return Reading(blocks, label, other)


def read_rows(rows: Sequence[Mapping[str, object]], label: str) -> Iterator[Reading]:
    """Yield the ranking of rows that name a document each, by their ranks, scores or order; and what they exclude."""
    # the keys of one row are mostly those of all
    key_by_name = {name: key(name) for name in dict.fromkeys(name for row in rows for name in row)}
    flags = {name: role for name, own in key_by_name.items() if (role := _flag(name, own)) is not None}
    kept, excluded = list[tuple[str, Mapping[str, object]]](), list[str]()
    for row in rows:
        doc_id = _row_id({key_by_name[name]: value for name, value in row.items()})
        if doc_id is None:
            continue
        if any(str(value).strip().casefold() in flags[name] for name, value in row.items() if name in flags):
            excluded.append(doc_id)
        else:
            kept.append((doc_id, row))
    if excluded:
        yield Reading([[doc_id] for doc_id in excluded], "excluded")
    if kept:
        yield _ordered_rows(kept, key_by_name, label)


def _ordered_rows(
    kept: Sequence[tuple[str, Mapping[str, object]]], key_by_name: Mapping[str, str], label: str
) -> Reading:
    written = [[doc_id] for doc_id, _ in kept]
    ranks, scores, distances = (
        _column(kept, {name for name, own in key_by_name.items() if pattern.fullmatch(own)})
        for pattern in (_RANK_KEY, _SCORE_KEY, _DISTANCE_KEY)
    )
    if ranks and len(ranks) < len(kept):
        return Reading(_sorted(ranks, is_rising=True), label, other=written)
    best = _sorted(ranks, is_rising=True) if ranks else written
    other = None
    place = {doc_id: index for index, doc_id in enumerate(flat(best))}
    for column, is_rising in ((scores, False), (distances, True)):
        if len(column) == len(kept):
            by_score = _sorted(sorted(column, key=lambda pair: place[pair[0]]), is_rising=is_rising)
            if flat(by_score) != flat(best):
                other = by_score
            elif not ranks:
                best = by_score
        elif column:
            other = written if ranks else _sorted(column, is_rising=is_rising)
    return Reading(best, label, other)


def row_id(row: Mapping[str, object]) -> str | None:
    """Return the document that a row names."""
    return _row_id({key(name): value for name, value in row.items()})


def _row_id(by_key: Mapping[str, object]) -> str | None:
    return next((str(by_key[name]) for name in _ID_KEYS if isinstance(by_key.get(name), str)), None)


def key(name: str) -> str:
    """Return a key as it is compared: without case, width, marks; blanks and hyphens as underscores."""
    return _GAP.sub("_", _fold(name).strip(" *`\"':"))


def is_value_key(name: str) -> bool:
    """Return True if a column of that name holds ranks or scores."""
    return any(pattern.fullmatch(key(name)) for pattern in (_RANK_KEY, _SCORE_KEY, _DISTANCE_KEY))


def flat(blocks: Blocks) -> list[str]:
    """Return the items of all blocks in their order."""
    return [item for block in blocks for item in block]


def _sorted(pairs: Sequence[tuple[str, float]], *, is_rising: bool) -> Blocks:
    blocks: Blocks = []
    last: float | None = None
    for item, value in sorted(pairs, key=lambda pair: pair[1] if is_rising else -pair[1]):
        if value == last:
            blocks[-1].append(item)
        else:
            blocks.append([item])
        last = value
    return blocks


def _column(rows: Sequence[tuple[str, Mapping[str, object]]], names: Set[str]) -> list[tuple[str, float]]:
    """Return the first number of each row under the first of these names that it has one for."""
    found = []
    for doc_id, row in rows if names else ():
        values = [number(value) for name, value in row.items() if name in names]
        value = next((each for each in values if each is not None), None)
        if value is not None:
            found.append((doc_id, value))
    return found


def _flag(name: str, own: str) -> frozenset[str] | None:
    """Return the words under this name that exclude a row; None for a name that says nothing of it."""
    if _FLAG_KEY.fullmatch(own):
        return _REFUSALS | (_AGREEMENTS if excludes(name) else frozenset())
    return _AGREEMENTS if excludes(name) else None
