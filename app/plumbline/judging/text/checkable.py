"""Selection of the sentences that assert something: no markup, no labels, no abstentions."""

import re
from collections.abc import Container, Sequence

from plumbline.ground.deadline import within_deadline
from plumbline.ground.phrases import Phrases
from plumbline.judging.text.boilerplate import asks, count_new, introduces, is_boilerplate
from plumbline.judging.text.segmentation import Sentence
from plumbline.judging.text.structured import EMPTY_CELLS, header_positions, split_cells
from plumbline.judging.text.words import STEM, content_words, han_share

# A heading of more content words than this asserts something ("# The bridge was closed to cars in 2008"), and would be
# a place to hide a false claim in. Of Chinese the words are character pairs.
_LABEL_WORDS = 4
_LABEL_HAN_PAIRS = 8
# A line that ends in a colon may have one new word up to here.
_TERSE_WORDS = 2
_PHRASES = Phrases("judging/text/abstentions", borrowed="judging/text/boilerplate")
_ASKING = re.compile(_PHRASES.pattern("en.asking", "zh.asking"), re.IGNORECASE)
_STATES_EN = re.compile(_PHRASES.pattern("en.states"), re.IGNORECASE)
_STATES_ZH = re.compile(_PHRASES.pattern("zh.states"))
_SOURCE_LINK = re.compile(Phrases("judging/text/layout").pattern("sources.link"))
_SUBJECT_VERB_EN = re.compile(r"(?!The |Our |[A-Z][a-z]+ly )[A-Z][\w-]+ [a-z]{3,}(?:s(?! [a-z]+ed\b)|ed) [a-z]{3,}")


def checkable_positions(
    sentences: Sequence[Sentence], stems: Container[str] = frozenset(), known: Container[str] = frozenset()
) -> tuple[int, ...]:
    """Return the positions of the sentences that assert something, ascending.

    Left out: markup, boilerplate, the header rows of tables, sentences that abstain, links in lists of sources, and
    headings that are mere labels; a label, link or header counts when the answer says nothing else, for "**Paris**"
    alone is an answer. `stems` are the question's words, as `is_boilerplate` takes them, `known` the contexts'.
    """
    headers = header_positions(sentences)
    spoken = [
        position
        for position, sentence in enumerate(within_deadline(sentences))
        if sentence.kind != "markup"
        and not is_boilerplate(sentence.text, stems)
        and not asks(sentence.text, stems, known)
        and not (position + 1 < len(sentences) and introduces(sentence.text, stems, known))
    ]
    last = len(sentences) - 1
    unlabelled = [
        position
        for position in within_deadline(spoken)
        if position not in headers
        and not _SOURCE_LINK.match(sentences[position].text)
        and not _is_label(sentences[position], stems, known, leads=position < last)
    ]
    positions = within_deadline(unlabelled or spoken)
    return tuple(position for position in positions if not declines(sentences[position]))


def declines(sentence: Sentence) -> bool:
    """Return True if a sentence says no more than that the answer, or a field of it, is unknown."""
    if sentence.kind == "table_row":
        _, *values = split_cells(sentence.text)
        return bool(values) and all(value in EMPTY_CELLS or abstains(value) for value in values)
    if abstains(sentence.text):
        return True
    # "- Price: not mentioned"
    label = _FIELD.match(sentence.text)
    return label is not None and abstains(sentence.text[label.end() :])


def _is_label(sentence: Sentence, stems: Container[str], known: Container[str], *, leads: bool) -> bool:
    """Return True for a heading that asserts nothing, and for a line before others that is one but for its markup."""
    if sentence.kind != "heading" and not (leads and _is_terse(sentence.text, stems, known)):
        return False
    is_chinese = bool(han_share(sentence.text))
    words = content_words(sentence.text)
    if len(words) > (_LABEL_HAN_PAIRS if is_chinese else _LABEL_WORDS):
        return False
    text = sentence.text.strip(_MARKUP + ":：")
    if _ASKING.search(text):
        return True
    if (_STATES_ZH if is_chinese else _STATES_EN).search(text):
        return False
    # "Lorivan kills children" has the shape of "Payment methods accepted": only what is new to question and contexts.
    is_new = any(word not in known and word[:STEM] not in stems for word in words)
    return not (is_new and _SUBJECT_VERB_EN.match(text))


def _is_terse(text: str, stems: Container[str], known: Container[str]) -> bool:
    """Return True for a line such as "Requirements:", with hardly a word that question and contexts do not have."""
    if text.rstrip(" *_")[-1:] not in (":", "："):
        return False
    return count_new(text.lower(), stems, known) <= (len(content_words(text)) <= _TERSE_WORDS)


# A sentence longer than this asserts something besides its "I do not know".
_MAX_ABSTENTION_CHARACTERS = 240
_MAX_REST_WORDS = 3

# "Price: ", the name of a field before its value.
_FIELD = re.compile(r"[^:：.,;，。；\n]{1,40}[:：][*_\s]*")
_MARKUP = " \t\n#*_`~>-•\"'“”"
_CLAUSE_BREAK = re.compile(_PHRASES.pattern("clauses.breaks"), re.IGNORECASE)
_WORD = re.compile(r"\w+")

_OPENING_EN = re.compile(rf"(?>(?:{_PHRASES.pattern('en.openings')})*)", re.IGNORECASE)
_ABSTAINS_EN = re.compile(_PHRASES.pattern("en.abstains"), re.IGNORECASE)
_CUES = (*_PHRASES.read("en.cues"), *_PHRASES.read("zh.cues"))
_FILLER_EN = re.compile(rf"(?:{_PHRASES.pattern('en.filler')})\b", re.IGNORECASE)
_GROUND = re.compile(rf"(?:{_PHRASES.pattern('en.grounds')})\b\s?|{_PHRASES.pattern('zh.grounds')}", re.IGNORECASE)
_UNKNOWN_EN = re.compile(_PHRASES.pattern("en.unknown"), re.IGNORECASE)
_OPENING_ZH = re.compile(rf"(?>(?:{_PHRASES.pattern('zh.openings')})*)")
_ABSTAINS_ZH = re.compile(_PHRASES.pattern("zh.abstains"))
_FILLER_ZH = re.compile(_PHRASES.pattern("zh.filler"))
_REVERSAL = re.compile(rf"\b(?:{_PHRASES.pattern('en.reversals')})\b|{_PHRASES.pattern('zh.reversals')}", re.IGNORECASE)


def abstains(text: str) -> bool:
    """Return True if all clauses say that the answer is unknown or not in the contexts; any other is judged."""
    if not may_abstain(text):
        return False
    line = text.strip(_MARKUP).replace("’", "'").replace("_", " ")
    if not line or len(line) > _MAX_ABSTENTION_CHARACTERS:
        return False
    rest = line[_end(_OPENING_EN, line) :]
    if _REVERSAL.search(rest):
        return False
    clauses = [clause for clause in map(str.strip, _CLAUSE_BREAK.split(rest)) if clause] or [""]
    declining = [_is_declining(clause) for clause in clauses]
    return any(declining) and all(
        declines or _says_nothing(clause, is_first=position == 0)
        for position, (clause, declines) in enumerate(zip(clauses, declining, strict=True))
    )


def name_missing(text: str) -> str:
    """Return what a sentence says is unknown: "when it was built" of "The text does not say when it was built"."""
    for clause in _CLAUSE_BREAK.split(text.strip(_MARKUP).replace("’", "'")):
        for opening, abstaining in ((_OPENING_EN, _ABSTAINS_EN), (_OPENING_ZH, _ABSTAINS_ZH)):
            if found := abstaining.match(clause, _end(opening, clause)):
                return clause[found.end() :]
    return ""


def may_abstain(text: str) -> bool:
    """Return True if any part of a text may abstain; most texts have no word for it."""
    folded = text.lower()
    return any(map(folded.__contains__, _CUES)) or folded.startswith("na")


def _is_declining(clause: str) -> bool:
    found = _ABSTAINS_EN.match(clause, _end(_OPENING_EN, clause))
    return found is not None or _ABSTAINS_ZH.match(clause, _end(_OPENING_ZH, clause)) is not None


def _says_nothing(clause: str, *, is_first: bool) -> bool:
    """Return True if a clause only frames an abstention: its ground, its address, the rest of a list."""
    if any(character.isdigit() for character in clause):
        return False
    if ground := _GROUND.match(clause):
        rest = clause[ground.end() :]
        return _is_declining(rest) or _UNKNOWN_EN.match(rest) is not None
    if _FILLER_EN.match(clause) or _FILLER_ZH.match(clause) or _end(_OPENING_ZH, clause) == len(clause):
        return True
    return not is_first and clause.isascii() and len(_WORD.findall(clause)) <= _MAX_REST_WORDS


def _end(opening: re.Pattern[str], text: str) -> int:
    found = opening.match(text)
    return found.end() if found else 0
