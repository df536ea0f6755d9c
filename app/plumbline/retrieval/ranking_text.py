"""Rankings in the text of an LLM's reply: tables, bracketed items, chains of `>`, lines, prose."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from plumbline.retrieval.ranking_candidates import MARK, MARKS, NAMED_INDEX, Candidates, looks_like_an_id
from plumbline.retrieval.ranking_values import (
    WORDS,
    Blocks,
    Meaning,
    Reading,
    Row,
    excludes,
    flat,
    grade,
    is_value_key,
    label_before,
    meaning,
    number,
    order_rows,
    read_table,
    row_id,
)

_CHAIN_LENGTH: Final = 2


def _layout(name: str) -> str:
    return WORDS.pattern(f"layout.{name}").replace("MARKS", MARKS)


def read_tables(text: str, candidates: Candidates) -> Iterator[Reading]:
    """Yield the ranking of a table with a header: Markdown's, or columns between tabs or commas."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" \t|:-+")]
    for sign in ("|", "\t", ","):
        cells = [[cell.strip(" *`") for cell in line.strip("|").split(sign)] for line in lines if sign in line]
        header, *table = cells or [[]]
        rows = [dict(zip(header, row, strict=True)) for row in table if len(row) == len(header) > 1]
        is_headed = (sign == "|" or any(map(is_value_key, header))) and not any(map(candidates.find_known, header))
        if rows and is_headed and all(row_id(row, candidates) for row in rows):
            yield from read_table(rows, "", candidates)
            return


_RANGE_END: Final = re.compile(rf"\s?[-–—~至到]\s?(?:\[[0-9A-Z]{{1,6}}\]|{MARKS})")
_RANGE_BEGIN: Final = re.compile(rf"(?:\]|{MARKS})\s?[-–—~至到]\s?\Z")
_MAX_RANGE: Final = 8
_WORSE_SIGNS: Final = frozenset({"<=", "<", "＜", "≺", "≤"})
_EQUAL_SIGNS: Final = frozenset("=＝~≈")
_CHAIN: Final = re.compile(
    rf"(?:{_layout('linked')})(?>(?:[\s*`\"']*+{_layout('link')}[\s*`\"']*+(?:{_layout('linked')}))+)"
)
_LINK, _SCORE_OF_LINK, _INLINE_RANK, _HEADED_RANK, _RANK_DIGITS, _SCORED = (
    re.compile(_layout(name))
    for name in ("link", "score_of_link", "inline_rank", "headed_rank", "rank_digits", "scored")
)


def read_chains(text: str) -> Iterator[Reading]:
    """Yield items joined by `>` and its kin, falling, or by `<`, rising; `=` holds equal."""
    text, last = _SCORE_OF_LINK.sub(r"\1", text), 0
    for found in _CHAIN.finditer(text):
        items, signs = map(str.strip, _LINK.split(found[0])), _LINK.findall(found[0])
        chain: Blocks = []
        for item, sign in zip(items, [">", *signs], strict=True):
            chain[-1:] = [[*chain[-1], item]] if chain and sign in _EQUAL_SIGNS else [*chain[-1:], [item]]
        if _RANGE_BEGIN.search(text[max(0, found.start() - _MAX_RANGE) : found.start()]):
            chain[0][0] = f"-{chain[0][0]}"
        if behind := _RANGE_END.match(text, found.end()):
            chain[-1][-1] += behind[0]
        directions = {sign in _WORSE_SIGNS for sign in signs if sign not in _EQUAL_SIGNS}
        label, last = label_before(text, last, found.start()), found.end()
        if directions:
            falling = chain[::-1] if directions == {True} else chain
            yield Reading(falling, label, other=chain[::-1] if len(directions) > 1 else None)


_RANK: Final = rf"(?:\*\*)?+(?:{_layout('rank')})(?:\*\*)?+"
_PREFIX: Final = re.compile(rf"\s*+(?:(?:{_layout('bullet')})(?>(?:{_RANK})?)|{_RANK})\s*+", re.IGNORECASE)
_ID_END: Final = re.compile(r"[：，；（。、！(]|[:,;](?=\s|\Z)|\s[-–—=]")
_TIED: Final = re.compile(_layout("tied"), re.IGNORECASE)
_HEADED: Final = re.compile(r"([^:：,，;；]{1,60})[:：]\s*+(.+)")
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
        yield from scored
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
    text = text.strip(" |") if text.strip().startswith("|") else text
    if not text.strip() or text.strip().startswith(("```", ":-", "--")):
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
    if digits.isdecimal():
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
    text = content.lstrip(_LEADING)
    end = None if candidates.are_given else _ID_END.search(text)
    words = text[: end.start() if end else None].split(None, 1)
    is_alone = len(words) == 1 and end is None and not candidates.are_given and not words[0].endswith(("!", "?", "！"))
    index = NAMED_INDEX.match(content) if candidates.are_given else None
    found = [index[1]] if index else words[:1] if words and (looks_like_an_id(words[0]) or is_alone) else []
    before, _, after = content.partition(found[0]) if found else ("", "", "")
    return found, found, before, after


def _read_scored_lines(lines: Sequence[_Line], candidates: Candidates) -> list[Reading]:
    """Return the order of lines that all hold an id and a number, or a word as `high` or `yes`."""
    rows: list[dict[str, object]] = []
    for line in (each.content for each in lines):
        found = None if candidates.knows(line) or len(line) > _MAX_SCORED else _SCORED.fullmatch(line)
        if found and number(found[3]) is not None:
            words = f"{found[2]} {found[3]}".strip()
            if is_value_key(found[2]) or grade(found[3]) is None:
                rows.append({"id": found[1], found[2] if is_value_key(found[2]) else "": found[3]})
            else:
                rows.append({"id": found[1], "relevant": words, "relevance": words})
        elif not line.endswith(_HEADING_END):
            return []
    items = [str(row["id"]) for row in rows]
    if not len(set(items)) == len(rows) > 1 or not all(map(candidates.is_id, items)):
        return []
    return list(read_table(rows, "", candidates))


def _plain(lines: Sequence[_Line], candidates: Candidates) -> Iterator[Reading]:
    """Yield pieces between line ends and commas under their headings, if each is an id; nothing for prose."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    for line in (each.content for each in lines):
        headed = _HEADED.fullmatch(line)
        if headed and not candidates.is_id(headed[1].rstrip()) and not candidates.knows(line):
            sections.append((headed[1], _pieces(headed[2], candidates)))
        elif line.endswith((":", "：")) and not candidates.knows(line):
            sections.append((line, []))
        else:
            sections[-1][1].extend(_pieces(line, candidates))
    for piece in (piece for _, pieces in sections for piece in filter(None, pieces)):
        bare = piece.rstrip(".。!！")
        is_whole = candidates.is_id(piece) or candidates.is_id(bare)
        if not is_whole and (
            not looks_like_an_id(bare) or (candidates.are_given and MARK.search(candidates.mark(piece)))
        ):
            # a final answer below other text
            sections = [
                each for each in sections if meaning(each[0]) is Meaning.FINAL and all(map(candidates.is_id, each[1]))
            ]
            break
    for label, pieces in sections:
        if any(pieces):
            yield Reading([[piece] for piece in filter(None, pieces)], label)


_COMMA: Final = re.compile(r"[,，、;；|]")
_ANY_SEPARATOR: Final = re.compile(r"[\s,，、;；|]+(?:(?:and|&)\s+)?|[和与及]")


def _pieces(text: str, candidates: Candidates) -> list[str]:
    """Split a line at blanks, commas and `and` where that gives ids alone, else at commas."""
    pieces = [piece for piece in _ANY_SEPARATOR.split(text) if piece]
    if candidates.are_given and all(candidates.is_id(piece.rstrip(".。!！")) for piece in pieces):
        return pieces
    return [piece.strip() for piece in _COMMA.split(text)]


_CUES, _REVERSALS, _TURNS = (re.compile(WORDS.pattern(f"prose.{name}")) for name in ("cues", "reversals", "turns"))
_SENTENCE_END: Final = re.compile(r"[。！？；!?;\n()（）]|\.(?=\s|\Z)")
_QUESTION: Final = re.compile(r"(?:^|(?<=[.。\n]))[^.。\n?？]++[?？]")
_FALLING: Final = re.compile(WORDS.pattern("prose.falling"), re.IGNORECASE)
_CLAUSE_END: Final = re.compile(r"[。！？；!?;\n，,、]|\.(?=\s|\Z)|\band\b")
_ORDINALS: Final = [re.compile(each) for each in WORDS.patterns("prose.ordinals")]
_COMPARED: Final = re.compile(
    rf"(?<={MARKS})[\s*`\"'”’」』》\])】]*+(?:({WORDS.pattern('prose.worse')})|{WORDS.pattern('prose.better')})"
    rf"(?=[\s*`\"'“‘「『《\[(【]*+(?:passage |document |doc )?{MARKS})",
    re.IGNORECASE,
)
_THAN: Final = re.compile(rf"({MARKS})比({MARKS})(?:更|还)\w{{0,4}}")
_REPEATED: Final = re.compile(rf"({MARKS})[\s，,；;。.]+(?:and\s+)?\1(?=\s[<>])")


def read_prose(text: str, candidates: Candidates) -> Iterator[Reading]:
    """Yield the candidates of prose as it compares or places them all, else in order, where it ranks them.

    With another reading where it turns or repeats.
    """
    marked = _FALLING.sub("most", candidates.mark(text))
    asked, placed = _QUESTION.findall(marked), _read_ordinals(marked)
    if (compared := _read_comparison(marked, placed)) and not any(map(MARK.search, asked)):
        yield Reading(compared)
        return
    kept, excluded = list[str](), list[str]()
    letters = 0
    is_doubtful = any(map(candidates.mentions, asked))
    for sentence in _SENTENCE_END.split(marked):
        found, folded = candidates.mentions(sentence), sentence.casefold()
        if len(found) == 1 and excludes(folded):
            excluded += found
            continue
        letters += sum(map(str.isalnum, sentence))
        kept += found
        is_doubtful = is_doubtful or (bool(found) and (_REVERSALS.search(folded) is not None or excludes(folded)))
    if excluded:
        yield Reading([[item] for item in excluded], "excluded")
    values = [(str(at), each) for at, each in enumerate(_NAMED_VALUE.finditer(text.lower()))]
    named = order_rows([([at], {values[0][1][1]: float(each[2])}) for at, each in values])
    once, in_place = list(dict.fromkeys(kept)), flat(placed)
    is_doubtful = is_doubtful or named.other is not None or flat(named.blocks) != [at for at, _ in values]
    is_doubtful = is_doubtful or in_place != [item for item in once if item in in_place] or 1 < len(once) < len(kept)
    # one word such as `saw` may be no id
    is_bare = letters == sum(map(str.isalnum, "".join(kept)))
    if not is_bare and (len(once) > 1 or not all(map(looks_like_an_id, map(candidates.unmark, once)))):
        folded = marked.casefold()
        is_doubtful = is_doubtful or _TURNS.search(folded) is not None or not _CUES.search(folded)
    if len(once) > 1 or (once and not is_doubtful):
        blocks = [[item] for item in once]
        yield Reading(blocks, other=blocks[::-1] if is_doubtful else None)


def _read_comparison(marked: str, placed: Blocks) -> Blocks:
    """Return all documents as `A is more relevant than B, which is better than C` orders them, or as placed."""
    linked = _COMPARED.sub(lambda found: " < " if found[1] else " > ", _THAN.sub(r"\1 > \2", marked))
    named = MARK.findall(joined := _REPEATED.sub(r"\1", linked))
    chains = [each.blocks for each in read_chains(joined)]
    if len(chains) == 1 and len(flat(chains[0])) == len(named):
        return chains[0]
    return placed if len(placed) > 1 and set(flat(placed)) == set(named) else []


def _read_ordinals(marked: str) -> Blocks:
    """Return the documents of clauses that name one place each: `A second, B first`."""
    places: list[Row] = []
    for clause in _CLAUSE_END.split(marked):
        found, ranks = MARK.findall(clause), [n for n, each in enumerate(_ORDINALS) if each.search(clause.casefold())]
        if len(found) == len(ranks) == 1:
            places.append((found, {"rank": float(ranks[0])}))
    return order_rows(places).blocks
