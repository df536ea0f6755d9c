"""Rankings in the text of an LLM's reply: tables, bracketed items, chains of `>`, lines, prose."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from plumbline.retrieval.ranking_candidates import MARK, MARKS, NAMED_INDEX, Candidates, looks_like_an_id
from plumbline.retrieval.ranking_values import (
    WORDS,
    Blocks,
    Reading,
    excludes,
    flat,
    is_value_key,
    label_before,
    order_rows,
    read_table,
    row_id,
)


def read_tables(text: str, candidates: Candidates) -> Iterator[Reading]:
    """Yield the ranking of a table with a header: Markdown's, or columns between tabs or commas."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" \t|:-+")]
    for sign in ("|", "\t", ","):
        cells = [[cell.strip(" *`") for cell in line.strip("|").split(sign)] for line in lines if sign in line]
        header, *table = cells or [[]]
        rows = [row for row in table if len(row) == len(header)]
        if len(header) < _CHAIN_LENGTH or not rows or not (sign == "|" or any(map(is_value_key, header))):
            continue
        known = next((at for at in range(len(header)) if all(candidates.knows(row[at]) for row in rows)), None)
        named = [dict(zip(header, row, strict=True)) for row in rows]
        if known is not None and not is_value_key(header[known]):
            named = [{**row, "id": own[known]} for row, own in zip(named, rows, strict=True)]
        if all(row_id(row) for row in named):
            yield from read_table(named, "")
            return


_SEPARATOR: Final = re.compile(r"[,，、;；]")
_PAIR: Final = re.compile(
    r"[(（\[]\s*['\"“]?([^'\"“”()（）\[\],，\n]{1,200}?)['\"”]?\s*[,，:：]\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*[)）\]]"
)


def read_pairs(text: str) -> Iterator[Reading]:
    """Yield the order of pairs of an id and a score, `[('a', 0.4), ('b', 0.9)]`, that hold all of the text's ids."""
    pairs = _PAIR.findall(text)
    if len(pairs) > 1 and text.lstrip().startswith(("[", "(", "（")):
        yield order_rows([([item], {"": float(score)}) for item, score in pairs])


# A link has room or a bracket on both sides: `<urn:uuid:…>` ends in a sign that chains nothing.
_LINK: Final = rf"(?<=[\s\]】］]|{MARKS})(?:>=|=>|->|>>|[>＞≻≥→⇒]|<=|[<＜≺≤]|[=＝~≈])(?=[\s\[【［]|{MARKS})"
_TIGHT_LINK: Final = re.compile(rf"(?<=[\w\])）】］]|{MARKS})([>＞≻→＝=])(?=[\w\[(（【［]|{MARKS})")
_SIGN: Final = re.compile("[>＞≻≥→⇒<＜≺≤]")
_WORSE_SIGNS: Final = frozenset({"<=", "<", "＜", "≺", "≤"})
_EQUAL_SIGNS: Final = frozenset("=＝~≈")
_CHAIN_LENGTH: Final = 2
# A candidate, what is in brackets, or a word from its beginning on.
_LINKED: Final = (
    rf"{MARKS}|[\[【［][^\[\]【】［］]{{0,200}}+[\]】］]"
    rf"|(?<![^\s：，。:(（\"'`*])[^\s：，。,、;；\[\]【】［］{MARKS[1:-1]}]++"
)
_CHAIN: Final = re.compile(rf"(?:{_LINKED})(?>(?:[\s*`\"']*+{_LINK}[\s*`\"']*+(?:{_LINKED}))+)")
_LINKS: Final = re.compile(_LINK)


def read_chains(text: str) -> Iterator[Reading]:
    """Yield items joined by `>` and its kin, falling, or by `<`, rising; `=` holds equal."""
    if not _SIGN.search(text):
        return
    if "<" not in text and any(sign in text for sign in ">＞≻→"):
        text = _TIGHT_LINK.sub(r" \1 ", text)
    last = 0
    for found in _CHAIN.finditer(text):
        items, signs = map(str.strip, _LINKS.split(found[0])), _LINKS.findall(found[0])
        chain: Blocks = []
        for item, sign in zip(items, [">", *signs], strict=True):
            chain[-1:] = [[*chain[-1], item]] if chain and sign in _EQUAL_SIGNS else [*chain[-1:], [item]]
        directions = {sign in _WORSE_SIGNS for sign in signs if sign not in _EQUAL_SIGNS}
        label, last = label_before(text, last, found.start()), found.end()
        if directions:
            falling = chain[::-1] if directions == {True} else chain
            yield Reading(falling, label, other=chain[::-1] if len(directions) > 1 else None)


_HAN: Final = "一二三四五六七八九十"
_BULLET: Final = r"(?:[-*+•·‣▪–—]\s++|\#{1,6}\s++)"
_RANK: Final = (
    r"(?:\*\*)?+(?:[(（]?+[0-9]{1,4}+(?:[.．、:：]|[)）])(?![0-9])|\[[0-9]{1,4}+\](?!\s?(?:[,，、;；:：(（]|\Z))"
    r"|\#[0-9]{1,4}+[.:：)]?+(?=\s)"
    r"|(?:rank|top|no\.)\s?+\#?+[0-9]{1,4}+\s?+[.:：)-]"
    r"|[0-9]{1,3}+(?:st|nd|rd|th)(?>(?:\s(?:place|rank))?)\s?+[.:：)-]"
    rf"|第[0-9{_HAN}]{{1,4}}+[名位个]?+[是为]?+\s?+[:：、.，,]?+|[{_HAN}]{{1,3}}+[、.．]|[①-⑳])(?:\*\*)?+"
)
_PREFIX: Final = re.compile(rf"\s*+(?:{_BULLET}(?>(?:{_RANK})?)|{_RANK})\s*+", re.IGNORECASE)
_RANK_DIGITS: Final = re.compile(rf"[0-9]++|[{_HAN}]++|[①-⑳]")
# `1: doc_5; 2: doc_1` on one line
_INLINE_RANK: Final = re.compile(r"(?<=[\s,，;；。])(?=[(（]?[0-9]{1,3}[.．、:：)）](?![0-9]))|(?=[②-⑳])")
_HEADED_RANK: Final = re.compile(r"\s*([^0-9①]{1,60}[:：])\s*(?=[(（]?1[.．、:：)）](?![0-9])|①)")
_ID_END: Final = re.compile(r"[：，；（。、！(]|[:,;](?=\s|\Z)|\s[-–—=]")
_TIED: Final = re.compile(
    rf"{MARKS}(?>(?:[\s\])】］\"'`*]*+(?:[,，、/&=＝~≈+]|and\b|与|和|及)[\s\[(【［\"'`*]*+{MARKS})*)", re.IGNORECASE
)
_HEADED: Final = re.compile(r"([^:：,，;；]{1,60})[:：]\s*+(.+)")
# An id, at most a word such as `score`, and a number; of short lines alone
_SCORED: Final = re.compile(
    r"(\S+?)(?:\s*[:：=|,，(（]\s*|\s+[-–—]?\s*)([^\W\d_]{0,12})\s?[:：=]?\s?([0-9]{1,9}(?:\.[0-9]{1,9})?)"
    r"(?:\s?(?:/\s?[0-9]{1,3}|%|分))?[)）.;；。,，]*"
)
_MAX_SCORED: Final = 200
_MAX_REMARK: Final = 40
_HEADING_END: Final = (":", "：", "**", ":*")
_LEADING: Final = " \t\"'`*_“”‘’([【［「《<"
# Of text in lower case.
_NAMED_VALUE: Final = re.compile(
    rf"({WORDS.pattern('prose.named_values')})[\s:：=\"为是]{{1,4}}([0-9]{{1,9}}(?:\.[0-9]{{1,9}})?)"
)


class _Line(NamedTuple):
    indent: int
    has_prefix: bool
    place: int | None
    content: str


def read_lines(text: str, candidates: Candidates) -> Iterator[Reading]:
    """Yield items of numbered or bulleted lines under their headings; failing those, of lines that hold only ids."""
    lines = [line for each in text.splitlines() for line in _split_line(each, candidates)]
    is_numbered = any(line.place is not None for line in lines)
    if not is_numbered and (scored := _read_scored_lines(lines, candidates)):
        yield scored
        return
    if not any(line.has_prefix for line in lines):
        yield from _plain(lines, candidates)
        return
    # under numbers, bullets give reasons
    is_item = [line.place is not None if is_numbered else line.has_prefix for line in lines]
    shallow = min(line.indent for line, own in zip(lines, is_item, strict=True) if own)
    heading, section = "", list[_Line]()
    for line, own in zip(lines, is_item, strict=True):
        if line.indent > shallow and section:
            if len(section[-1].content) < _MAX_SCORED:
                section[-1] = section[-1]._replace(content=f"{section[-1].content}\n{line.content}")
        elif (own or (not is_numbered and candidates.knows(line.content))) and line.indent <= shallow:
            if line.place != (section[-1].place if section else None) and line.place in {
                each.place for each in section
            }:
                yield from _section(section, heading, candidates)
                section = []
            section.append(line)
        elif not line.has_prefix and (line.content.startswith("#") or line.content.endswith(_HEADING_END)):
            yield from _section(section, heading, candidates)
            heading, section = line.content, []
    yield from _section(section, heading, candidates)


def _split_line(text: str, candidates: Candidates) -> list[_Line]:
    """Return a line, or the items of `1. a 2. b 3. c` if they count on; none for blank lines, fences and tables."""
    if not text.strip() or text.strip().startswith(("```", "|")):
        return []
    if headed := _HEADED_RANK.match(text):
        return [_read_line(headed[1], candidates), *_split_line(text[headed.end() :], candidates)]
    first = _read_line(text, candidates)
    if first.place is not None:
        pieces = [piece.rstrip(" ,，;；、。") for piece in _INLINE_RANK.split(text) if piece.strip()]
        items = [_read_line(piece, candidates)._replace(indent=first.indent) for piece in pieces]
        if [item.place for item in items] == list(range(first.place, first.place + len(items))):
            return items
    return [first]


def _read_line(text: str, candidates: Candidates) -> _Line:
    prefix = None if candidates.knows(text.strip()) else _PREFIX.match(text)
    digits = _RANK_DIGITS.search(prefix[0]) if prefix else None
    content = text[prefix.end() if prefix else 0 :].strip()
    return _Line(len(text) - len(text.lstrip()), prefix is not None, _place(digits[0]) if digits else None, content)


def _place(digits: str) -> int:
    if digits.isascii():
        return int(digits)
    tens, ten, ones = (int(unicodedata.numeric(part[0])) if part else 0 for part in digits.rpartition("十"))
    return ten * (tens or 1) + ones


def _section(lines: Sequence[_Line], heading: str, candidates: Candidates) -> Iterator[Reading]:
    """Yield the items of one list by their numbers; where all numbers are one, as Markdown allows, as written."""
    excluded: Blocks = []
    read: list[tuple[_Line, list[str], list[str], str]] = []
    for line in lines:
        block, other, before, after = _item(line.content.partition("\n")[0], candidates)
        if not block and not candidates.are_given:
            return
        if block and excludes(before):
            excluded.append(block)
        elif block:
            read.append((line, block, other, after + line.content.partition("\n")[2]))
    if excluded:
        yield Reading(excluded, "excluded")
    is_numbered = len({line.place for line, *_ in read}) > 1
    if is_numbered:
        read.sort(key=lambda row: row[0].place or 0)
    values = [{"rank": float(line.place or 0)} if is_numbered else {} for line, *_ in read]
    blocks = order_rows([(block, own) for (_, block, *_), own in zip(read, values, strict=True)]).blocks
    if blocks:
        yield Reading(blocks, heading, _other_order(read))


def _other_order(read: Sequence[tuple[_Line, list[str], list[str], str]]) -> Blocks | None:
    """Return the order that remarks in the lines give: another document, an exclusion, a rank or a score."""
    if any(other != block for _, block, other, _ in read):
        return [other for _, _, other, _ in read]
    is_judged = [excludes(after[:_MAX_REMARK]) for *_, after in read]
    if is_judged != sorted(is_judged):
        return [block for (_, block, *_), judged in zip(read, is_judged, strict=True) if not judged]
    found = [(block, each) for line, block, *_ in read if (each := _NAMED_VALUE.search(line.content.lower()))]
    named = order_rows([(block[:1], {found[0][1][1]: float(each[2])}) for block, each in found])
    return named.blocks if len(found) >= _CHAIN_LENGTH and flat(named.blocks) != [b[0] for b, _ in found] else None


def _item(content: str, candidates: Candidates) -> tuple[list[str], list[str], str, str]:
    """Return the ids that a line is about, several if tied, and those that it may be about; the text around them."""
    if candidates.knows(content):
        return [content], [content], "", ""
    marked = candidates.mark(content)
    if (tied := _TIED.search(marked)) is not None:
        block = MARK.findall(tied[0])
        before, after = marked[: tied.start()], marked[tied.end() :]
        mentions = [*block, *MARK.findall(after)] if before.strip(_LEADING) else block[:1]
        return block, mentions[-1:] if len(set(mentions)) > 1 else block, before, candidates.unmark(after)
    index = NAMED_INDEX.match(content) if candidates.are_given else None
    if index:
        found = [index[1]]
    else:
        end = None if candidates.are_given else _ID_END.search(content.lstrip(_LEADING))
        words = content.lstrip(_LEADING)[: end.start() if end else None].split(None, 1)
        is_alone = len(words) == 1 and end is None and not candidates.are_given
        found = words[:1] if words and (looks_like_an_id(words[0]) or is_alone) else []
        found = [] if found and not candidates.are_given and found[0].endswith(("!", "?", "！")) else found
    before, _, after = content.partition(found[0]) if found else ("", "", "")
    return found, found, before, after


def _read_scored_lines(lines: Sequence[_Line], candidates: Candidates) -> Reading | None:
    """Return the order of lines that all hold an id and a number."""
    rows: list[tuple[str, str, float]] = []
    for line in (each.content for each in lines):
        found = None if candidates.knows(line) or len(line) > _MAX_SCORED else _SCORED.fullmatch(line)
        if found:
            rows.append((found[1], found[2], float(found[3])))
        elif not line.endswith(_HEADING_END):
            return None
    if not len({item for item, *_ in rows}) == len(rows) > 1 or not all(candidates.is_id(item) for item, *_ in rows):
        return None
    name = rows[0][1] if is_value_key(rows[0][1]) else ""
    return order_rows([([item], {name: value}) for item, _, value in rows])


def _plain(lines: Sequence[_Line], candidates: Candidates) -> Iterator[Reading]:
    """Yield pieces between line ends and commas under their headings, if each is an id; nothing for prose."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    for line in (each.content for each in lines):
        headed = _HEADED.fullmatch(line)
        if headed and not candidates.is_id(headed[1].rstrip()) and not candidates.knows(line):
            sections.append((headed[1], [piece.strip() for piece in _SEPARATOR.split(headed[2])]))
        elif line.endswith((":", "：")) and not candidates.knows(line):
            sections.append((line, []))
        else:
            sections[-1][1].extend(piece.strip() for piece in _SEPARATOR.split(line))
    for piece in (piece for _, pieces in sections for piece in filter(None, pieces)):
        bare = piece.rstrip(".。!！")
        is_whole = candidates.is_id(piece) or candidates.is_id(bare)
        if not is_whole and (
            not looks_like_an_id(bare) or (candidates.are_given and MARK.search(candidates.mark(piece)))
        ):
            return
    for label, pieces in sections:
        if any(pieces):
            yield Reading([[piece] for piece in filter(None, pieces)], label)


_CUES, _REVERSALS, _TURNS = (re.compile(WORDS.pattern(f"prose.{name}")) for name in ("cues", "reversals", "turns"))
_SENTENCE_END: Final = re.compile(r"[。！？；!?;\n]|\.(?=\s|\Z)")


def read_prose(text: str, candidates: Candidates) -> Iterator[Reading]:
    """Yield the candidates of prose in order, where it ranks them; with another reading where it turns or repeats."""
    marked = candidates.mark(text)
    kept: list[str] = []
    excluded: list[str] = []
    is_doubtful = False
    for sentence in _SENTENCE_END.split(marked):
        found = candidates.mentions(sentence)
        folded = sentence.casefold()
        if len(found) == 1 and excludes(folded):
            excluded += found
        elif found:
            kept += found
            is_doubtful = is_doubtful or _REVERSALS.search(folded) is not None or excludes(folded)
    if excluded:
        yield Reading([[item] for item in excluded], "excluded")
    values = [(str(at), each) for at, each in enumerate(_NAMED_VALUE.finditer(text.lower()))]
    named = order_rows([([at], {values[0][1][1]: float(each[2])}) for at, each in values])
    once = list(dict.fromkeys(kept))
    folded = marked.casefold()
    is_bare = sum(map(str.isalnum, marked)) == sum(sum(map(str.isalnum, item)) for item in kept)
    is_doubtful = is_doubtful or named.other is not None or flat(named.blocks) != [at for at, _ in values]
    if len(once) > 1 and not is_bare:
        is_doubtful = is_doubtful or _TURNS.search(folded) is not None or not _CUES.search(folded)
    if once:
        turned = [[item] for item in reversed(once)] if len(once) > 1 else []
        yield Reading([[item] for item in once], "", other=turned if is_doubtful or len(once) < len(kept) else None)
