"""Forms in which an LLM writes a ranking: bracketed items, chains of `>`, lines, tables."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final

from plumbline.retrieval.ranking_json import label_before, stands_alone
from plumbline.retrieval.ranking_prose import NAMED_VALUE, CandidateTokens
from plumbline.retrieval.ranking_values import (
    Blocks,
    Reading,
    by_value,
    excludes,
    flat,
    is_value_key,
    read_rows,
    row_id,
)

_THINK_TAG: Final = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_PLAIN_TAG: Final = re.compile(r"</?[A-Za-z_]{1,30}>")
# No opening bracket inside: a search that fails stops at the next one, so no character is read twice.
_BRACKETED: Final = re.compile(r"[\[【［]([^\[\]【】［］]*+)[\]】］]")
_BETWEEN_BRACKETS: Final = " \t\r\n,，、;；"
_MAX_BETWEEN: Final = 16
_SEPARATOR: Final = re.compile(r"[,，、;；]")
# With room or a bracket on both sides: `<urn:uuid:…>` ends in a sign that chains nothing.
_LINK: Final = re.compile(r"(?<=[\s\]】］])(>=|=>|->|>>|[>＞≻≥→⇒]|<=|[<＜≺≤]|[=＝~≈])(?=[\s\[【［])")
_TIGHT_LINK: Final = re.compile(r"(?<=[\w\])）】］])([>＞≻→＝=])(?=[\w\[(（【［])")
_SIGN: Final = re.compile("[>＞≻≥→⇒<＜≺≤]")
_WORSE_SIGNS: Final = frozenset({"<=", "<", "＜", "≺", "≤"})
_EQUAL_SIGNS: Final = frozenset("=＝~≈")
_CHAIN_LENGTH: Final = 2
_HAN: Final = "一二三四五六七八九十"
_BULLET: Final = r"(?:[-*+•·‣▪–—]\s++|\#{1,6}\s++)"
_RANK: Final = (
    r"(?:\*\*)?+(?:[(（\[]?+[0-9]{1,4}+(?:[.．、:：]|[)）\]])(?![0-9])"
    r"|\#[0-9]{1,4}+[.:：)]?+(?=\s)"
    r"|(?:rank|top|no\.)\s?+\#?+[0-9]{1,4}+\s?+[.:：)-]"
    r"|[0-9]{1,3}+(?:st|nd|rd|th)(?>(?:\s(?:place|rank))?)\s?+[.:：)-]"
    rf"|第[0-9{_HAN}]{{1,4}}+[名位个]?+[是为]?+\s?+[:：、.，,]?+|[{_HAN}]{{1,3}}+[、.．]|[①-⑳])(?:\*\*)?+"
)
_PREFIX: Final = re.compile(rf"\s*+(?:{_BULLET}(?>(?:{_RANK})?)|{_RANK})\s*+", re.IGNORECASE)
_RANK_DIGITS: Final = re.compile(rf"[0-9]++|[{_HAN}]++|[①-⑳]")
# `1: doc_5; 2: doc_1` on one line
_INLINE_RANK: Final = re.compile(r"(?<=[\s,，;；。])(?=[(（]?[0-9]{1,3}[.．、:：)）](?![0-9]))")
NAMED_INDEX: Final = re.compile(
    r"(?:(?:passage|document|doc|文档|段落)\s?+[\[(#【［]?+|[\[(【［])([0-9]{1,6}+)(?![0-9])[\])】］]?+", re.IGNORECASE
)
_ID_END: Final = re.compile(r"[：，；（。、！(]|[:,;](?=\s|\Z)|\s[-–—=]")
_JOIN: Final = re.compile(r"[\s\])】］\"'`*]*+(?:[,，、/&=＝~≈+]|and\b|与|和|及)[\s\[(【［\"'`*]*+", re.IGNORECASE)
_HEADED: Final = re.compile(r"([^:：,，;；]{1,60}[:：])\s*+(.+)")
# An id, at most a word such as `score`, and a number; of short lines alone
_SCORED: Final = re.compile(
    r"(\S+?)(?:\s*[:：=|,，(（]\s*|\s+[-–—]?\s*)([^\W\d_]{0,12})\s?[:：=]?\s?([0-9]{1,9}(?:\.[0-9]{1,9})?)[)）.;；。,，]*"
)
_MAX_SCORED: Final = 200
_MAX_REMARK: Final = 40
_FENCE: Final = "```"
_MARKS: Final = " \t\"'`*_“”‘’([【［「《<"
_HEADING_END: Final = (":", "：", "**", ":*")
_ID_SIGN: Final = re.compile(r"[0-9_]|[^\W\d_][-:/@\#.][^\W\d_]")
# Brackets of a citation, the end of a Chinese sentence
_PROSE_SIGN: Final = re.compile(
    r"\][\[(]|\||[\u3400-\u9fff](?:\[|[A-Za-z]|[\u3400-\u9fff]{4})|[0-9_][^\W\d_]?[\u3400-\u9fff]\Z"
)
_Known = Callable[[str], bool]


def without_reasoning(text: str) -> str:
    """Remove `<think>` blocks, an unclosed one to the end, an unopened one from the start; and tags as `<answer>`."""
    kept: list[str] = []
    position, is_inside = 0, False
    for tag in _THINK_TAG.finditer(text):
        is_closing = bool(tag[1])
        if is_closing and not is_inside:
            kept.clear()
        elif not is_closing and not is_inside:
            kept.append(text[position : tag.start()])
        is_inside = not is_closing
        position = tag.end()
    if not is_inside:
        kept.append(text[position:])
    return _PLAIN_TAG.sub("\n", "".join(kept))


def looks_like_an_id(text: str) -> bool:
    """Return True for one word with a digit, an underscore or a sign inside, as words of prose seldom have."""
    return len(text.split(None, 1)) == 1 and _ID_SIGN.search(text) is not None and not _PROSE_SIGN.search(text)


def bracketed(text: str) -> Iterator[Reading]:
    """Yield items of brackets in a row, `[a], [b]` or `[a, b]`, that stand alone; not those cited in a sentence."""
    group: list[str] = []
    start = end = last = 0
    length = len(text.strip())
    for match in _BRACKETED.finditer(text):
        gap = text[end : match.start()] if match.start() - end <= _MAX_BETWEEN else "…"
        if group and gap.strip(_BETWEEN_BRACKETS):
            yield from _group(text, group, (last, start, end), length)
            group, last = [], end
        if not group:
            start = match.start()
        group.extend(item.strip() for item in _SEPARATOR.split(match[1]) if item.strip())
        end = match.end()
    yield from _group(text, group, (last, start, end), length)


def _group(text: str, group: list[str], place: tuple[int, int, int], length: int) -> Iterator[Reading]:
    last, start, end = place
    is_all = bool(group) and length == end - start
    if is_all or (len(group) >= _CHAIN_LENGTH and stands_alone(text, start, end)):
        yield Reading([[item] for item in group], label_before(text, last, start))


def chained(text: str, names_known: _Known) -> Iterator[Reading]:
    """Yield items joined by `>` and its kin, falling, or by `<`, rising; `=` holds equal."""
    if not _SIGN.search(text):
        return
    if "<" not in text and any(sign in text for sign in ">＞≻→"):
        text = _TIGHT_LINK.sub(r" \1 ", text)
    parts = _LINK.split(text)
    links, items = parts[1::2], [part.strip() for part in parts[::2]]
    chain: Blocks = []
    label, signs = "", list[str]()
    for index, part in enumerate(items):
        block = _whole(part, names_known)
        if block is not None:
            _link(chain, signs, block)
        else:
            # prose ends one chain and may start another
            if chain:
                _link(chain, signs, [_edge(part, names_known, is_first=True)])
                yield from _chain(chain, signs, label)
            last = _edge(part, names_known, is_first=False)
            label = label_before(part, 0, len(part) - len(last))
            chain, signs = ([[last]], []) if last and index < len(links) else ([], [])
        if index < len(links):
            signs.append(links[index])
    yield from _chain(chain, signs, label)


def _link(chain: Blocks, signs: list[str], block: list[str]) -> None:
    if chain and signs and signs[-1] in _EQUAL_SIGNS:
        chain[-1] += block
    elif block and all(block):
        chain.append(block)


def _chain(chain: Blocks, signs: list[str], label: str) -> Iterator[Reading]:
    directions = {sign in _WORSE_SIGNS for sign in signs if sign not in _EQUAL_SIGNS}
    if sum(map(len, chain)) >= _CHAIN_LENGTH and directions:
        falling = chain[::-1] if directions == {True} else chain
        yield Reading(falling, label, other=chain[::-1] if len(directions) > 1 else None)


def _whole(part: str, names_known: _Known) -> list[str] | None:
    """Return the items of a link that holds nothing else: one word, what is in brackets, or several with commas."""
    bare = part.rstrip(".。!！")
    if names_known(part) or names_known(bare) or _BRACKETED.fullmatch(bare) or NAMED_INDEX.fullmatch(bare):
        return [part]
    pieces = [piece.strip() for piece in _SEPARATOR.split(bare.strip("()（）{}")) if piece.strip()]
    return pieces if pieces and all(len(piece.split(None, 1)) == 1 for piece in pieces) else None


def _edge(part: str, names_known: _Known, *, is_first: bool) -> str:
    """Return the item at which prose begins or ends."""
    words = re.sub(r"([：，。])", r" \1 ", part[: 2 * _MAX_SCORED] if is_first else part[-2 * _MAX_SCORED :]).split()
    for count in (2, 1):
        piece = " ".join(words[:count] if is_first else words[-count:])
        if piece and (count == 1 or names_known(piece) or NAMED_INDEX.fullmatch(piece)):
            return piece
    return ""


def tabled(text: str, names_known: _Known) -> Iterator[Reading]:
    """Yield the ranking of a table with a header: Markdown's, or columns between tabs or commas."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" \t|:-+")]
    for sign in ("|", "\t", ","):
        cut = [line for line in lines if sign in line]
        header, *table = [_cells(line, sign) for line in cut] if len(cut) > 1 else [[]]
        rows = [row for row in table if len(row) == len(header)]
        if len(header) < _CHAIN_LENGTH or not rows or not (sign == "|" or any(map(is_value_key, header))):
            continue
        known = next((at for at in range(len(header)) if all(names_known(row[at]) for row in rows)), None)
        named = [dict(zip(header, row, strict=True)) for row in rows]
        if known is not None and not is_value_key(header[known]):
            named = [{**row, "id": cells[known]} for row, cells in zip(named, rows, strict=True)]
        if all(row_id(row) for row in named):
            yield from read_rows(named, "")
            return


def _cells(line: str, sign: str) -> list[str]:
    return [cell.strip(" *`") for cell in line.strip("|").split(sign)]


def listed(text: str, *, tokens: CandidateTokens | None, names_known: _Known) -> Iterator[Reading]:
    """Yield items of numbered or bulleted lines under their headings; failing those, of lines that hold only ids.

    `tokens` finds candidates inside of a line; `names_known` returns True for a whole item that is a candidate.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith((_FENCE, "|"))]
    found = [each for line in lines for each in _split_inline(line, _PREFIX.match(line))]
    split = [line for line, _ in found]
    prefixes = [prefix if prefix and not names_known(line.strip()) else None for line, prefix in found]
    digits = [_RANK_DIGITS.search(prefix[0]) if prefix else None for prefix in prefixes]
    contents = [line[prefix.end() if prefix else 0 :].strip() for line, prefix in zip(split, prefixes, strict=True)]
    if not any(digits) and (scored := _scored(contents, tokens, names_known)):
        yield scored
        return
    if not any(prefixes):
        yield from _plain(contents, tokens, names_known)
        return
    # under numbers, bullets give reasons
    is_item = [bool(each) for each in (digits if any(digits) else prefixes)]
    indents = [len(line) - len(line.lstrip()) for line in split]
    shallow = min(indent for indent, own in zip(indents, is_item, strict=True) if own)
    heading, section, seen = "", list[tuple[int | None, str, str]](), set[int]()
    for content, prefix, digit, own, indent in zip(contents, prefixes, digits, is_item, indents, strict=True):
        if not (own or (names_known(content) and not any(digits))) or indent > shallow:
            if section and indent > shallow and len(section[-1][2]) < _MAX_SCORED:
                section[-1] = (*section[-1][:2], f"{section[-1][2]} {content}")
            elif prefix is None and (content.startswith("#") or content.endswith(_HEADING_END)):
                yield from _section(section, heading, tokens, names_known)
                heading, section, seen = content, [], set()
            continue
        place = _place(digit[0]) if digit else None
        if place is not None and place in seen and section[-1][0] != place:
            yield from _section(section, heading, tokens, names_known)
            section, seen = [], set()
        seen |= {place} if place is not None else set()
        section.append((place, content, content[:_MAX_SCORED]))
    yield from _section(section, heading, tokens, names_known)


def _split_inline(line: str, prefix: re.Match[str] | None) -> list[tuple[str, re.Match[str] | None]]:
    """Split `1. a 2. b 3. c` into its items with the prefix of each, if they count on."""
    digits = _RANK_DIGITS.search(prefix[0]) if prefix else None
    if prefix is None or digits is None:
        return [(line, prefix)]
    first = _place(digits[0]) + 1
    rest = line[prefix.end() :]
    pieces = [piece for piece in _INLINE_RANK.split(rest) if piece.strip()] if str(first) in rest else []
    places = [_RANK_DIGITS.search(piece) for piece in pieces[1:]]
    if not places or [each and each[0] for each in places] != [str(first + step) for step in range(len(places))]:
        return [(line, prefix)]
    indent = line[: len(line) - len(line.lstrip())]
    starts = [line[: prefix.end()], *[indent] * len(places)]
    split = [start + piece.rstrip(" ,，;；、。") for start, piece in zip(starts, pieces, strict=True)]
    return [(piece, _PREFIX.match(piece)) for piece in split]


def _place(digits: str) -> int:
    if digits[0] not in _HAN:
        return int(unicodedata.numeric(digits)) if len(digits) == 1 else int(digits)
    tens, ten, ones = digits.rpartition("十")
    return _HAN.find(ones or "?") + 1 + (10 * (_HAN.find(tens) + 1 if tens else 1) if ten else 0)


def _section(
    section: list[tuple[int | None, str, str]], heading: str, tokens: CandidateTokens | None, names_known: _Known
) -> Iterator[Reading]:
    """Yield the items of one list by their numbers; where all numbers are one, as Markdown allows, as written."""
    excluded: Blocks = []
    read: list[tuple[int | None, list[str], list[str], str]] = []
    for place, content, whole in section:
        block, other = _item(content, tokens, names_known)
        if not block and tokens is None:
            return
        if block and excludes(content[: content.find(block[0])]):
            excluded.append(block)
        elif block:
            read.append((place, block, other, whole))
    if excluded:
        yield Reading(excluded, "excluded")
    if not read:
        return
    is_numbered = len({place for place, *_ in read}) > 1
    if is_numbered:
        read.sort(key=lambda row: row[0] or 0)
    blocks: Blocks = []
    for index, (place, block, *_) in enumerate(read):
        is_tied = is_numbered and index > 0 and place == read[index - 1][0]
        blocks[-1:] = [blocks[-1] + block] if is_tied else [*blocks[-1:], block]
    yield Reading(blocks, heading, _other_order(read))


def _other_order(read: list[tuple[int | None, list[str], list[str], str]]) -> Blocks | None:
    """Return the order that remarks in the lines give: another document, a rank or a score, an exclusion."""
    if any(other != block for _, block, other, _ in read):
        return [other for _, _, other, _ in read]
    is_judged = [excludes(whole.partition(block[-1])[2][:_MAX_REMARK]) for _, block, _, whole in read]
    if is_judged != sorted(is_judged):
        return [block for (_, block, *_), judged in zip(read, is_judged, strict=True) if not judged]
    values = [(block[0], each) for _, block, _, whole in read if (each := NAMED_VALUE.search(whole.lower()))]
    if len(values) < _CHAIN_LENGTH:
        return None
    named = by_value([(item, float(each[2])) for item, each in values], label="", name=values[0][1][1])
    return named.blocks if flat(named.blocks) != [item for item, _ in values] else None


def _item(content: str, tokens: CandidateTokens | None, names_known: _Known) -> tuple[list[str], list[str]]:
    """Return the ids that a line is about, several if they are tied, and those that it may be about as well."""
    if names_known(content):
        return [content], [content]
    bare = content.lstrip(_MARKS)
    if tokens is None:
        end = _ID_END.search(bare)
        words = bare[: end.start()].split(None, 1) if end else bare.split(None, 1)
        is_id = bool(words) and (looks_like_an_id(words[0]) or (len(words) == 1 and end is None))
        found = [words[0]] if is_id and not words[0].endswith(("!", "?", "！")) else []
        return found, found
    scan = tokens.scan(content)
    first = next(scan, None)
    if first is None:
        index = NAMED_INDEX.match(content)
        found = [index[1]] if index and names_known(index[1]) else bare.split(None, 1)[:1]
        found = found if found and (index or looks_like_an_id(found[0])) else []
        return found, found
    position = content.find(first)
    leading, mentions = content[:position].strip(_MARKS), [first]
    position += len(first)
    tied = 1
    while _JOIN.match(content, position) and (mention := next(scan, None)) is not None:
        mentions.append(mention)
        at = content.find(mention, position)
        if not _JOIN.fullmatch(content, position, at):
            break
        tied += 1
        position = at + len(mention)
    block = mentions[:tied]
    if leading:
        mentions += scan
    return block, mentions[-1:] if leading and len(set(mentions)) > 1 else block


def _plain(lines: list[str], tokens: CandidateTokens | None, names_known: _Known) -> Iterator[Reading]:
    """Yield pieces between line ends and commas under their headings, if each is an id; nothing for prose."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    for line in lines:
        headed = None if names_known(line) else _HEADED.fullmatch(line)
        if headed and not _is_id(headed[1].rstrip(":： "), tokens, names_known):
            sections.append((headed[1], []))
        elif line.endswith((":", "：")) and not names_known(line):
            sections.append((line, []))
            continue
        else:
            headed = None
        content = headed[2] if headed else line
        pieces = [line] if names_known(line) else [piece.strip() for piece in _SEPARATOR.split(content)]
        sections[-1][1].extend(piece for piece in pieces if piece)
    for piece in (piece for _, pieces in sections for piece in pieces):
        bare = piece.rstrip(".。!！")
        is_whole = _is_id(piece, tokens, names_known) or _is_id(bare, tokens, names_known)
        if not is_whole and (not looks_like_an_id(bare) or (tokens and any(tokens.scan(piece)))):
            return
    yield from (Reading([[piece] for piece in pieces], label) for label, pieces in sections if pieces)


def _scored(lines: list[str], tokens: CandidateTokens | None, names_known: _Known) -> Reading | None:
    """Return the order of lines that all hold an id and a number."""
    found = [None if names_known(line) or len(line) > _MAX_SCORED else _SCORED.fullmatch(line) for line in lines]
    pairs = [(each[1], float(each[3])) for each in found if each]
    ids = {item for item, _ in pairs}
    is_all = all(each or line.endswith(_HEADING_END) for each, line in zip(found, lines, strict=True))
    if not is_all or not len(ids) == len(pairs) > 1 or not all(_is_id(item, tokens, names_known) for item in ids):
        return None
    return by_value(pairs, label="", name=next(each[2] for each in found if each), is_list=True)


def _is_id(text: str, tokens: CandidateTokens | None, names_known: _Known) -> bool:
    return names_known(text) or NAMED_INDEX.fullmatch(text) is not None or (tokens is None and looks_like_an_id(text))
