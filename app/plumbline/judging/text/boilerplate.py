"""Boilerplate of answers: openers, closers, remarks on the documents. It asserts nothing, and no tier judges it."""

import re
from collections.abc import Container
from typing import Final

from plumbline.ground.phrases import Phrases
from plumbline.judging.text.blocks import has_word
from plumbline.judging.text.short_answers import says_yes_or_no
from plumbline.judging.text.words import STEM

_MAX_CHARACTERS = 240
_MAX_LEAD_CHARACTERS = 160
# An answer carries a few openers one after the other.
_MAX_LAYERS = 4
_LONGEST_ZH = 6
_COUNT_DIGITS = 2
# A sentence that asserts nothing may have so many words that neither the question nor the contexts have.
_MAX_NEW_IN_LEAD = 2
_MAX_NEW_IN_QUESTION = 3
_FIRST_CHARACTERS = 24

_PHRASES: Final = Phrases("judging/text/boilerplate")
LABELS: Final = _PHRASES.words("labels.en", "labels.zh")
_FILLER: Final = _PHRASES.words("en.filler", "zh.filler")
_ASSERTING: Final = _PHRASES.words("en.asserting")
_ABSTRACT: Final = _FILLER - _PHRASES.words("en.concrete", "zh.concrete")
_SPEAKERS: Final = _PHRASES.words("en.speakers")
_SPEAKER_ZH: Final = re.compile("[我您你]")
_HEADS: Final = ("heads", "topics", "signatures")


def _any_of(name: str) -> str:
    """Return a pattern of the phrases, the longest first; an English one ends with its word."""
    found = [f"{re.escape(phrase)}\\b" for phrase in _PHRASES.read(f"en.{name}")] + _PHRASES.read(f"zh.{name}")
    return "|".join(sorted(found, key=len, reverse=True))


_HEAD = re.compile(
    rf"\s*(?:(?P<topic>{_any_of('topics')})|(?:{_any_of('heads')})|(?:{_any_of('signatures')})(?=\W*\Z))"
)
_FIRST = re.compile(r"[\s\"“]*([a-z']+|[^\W\d_])")
_HEAD_FIRST = frozenset(phrase.split()[0] for name in _HEADS for phrase in _PHRASES.read(f"en.{name}")) | frozenset(
    phrase[0] for name in _HEADS for phrase in _PHRASES.read(f"zh.{name}")
)
_AHEAD = re.compile(rf"\b(?:{_PHRASES.pattern('en.ahead')})\b|{_PHRASES.pattern('zh.ahead')}")
_PRESENTS = re.compile(_PHRASES.pattern("en.presents"))
_RELATES = re.compile(rf"\b(?:{_PHRASES.pattern('en.relates')})\b|{_PHRASES.pattern('zh.relates')}")
_ASKS_EN = re.compile(rf"\s*(?:and |so |or |also,? )?(?:{_PHRASES.pattern('en.asks')})\b")
_RHETORICAL = re.compile(_PHRASES.pattern("en.rhetorical", "zh.rhetorical"))
_NEGATION = re.compile(rf"\b(?:{_PHRASES.pattern('en.negations')})\b|n't\b|[不没未无非别]")
_DISCOURSE = re.compile(rf"(?:(?:{_PHRASES.pattern('en.discourse', 'zh.discourse')})[\s,.!。！，…]*)+")
_LONGEST_DISCOURSE = 40
_LENGTH = re.compile(_PHRASES.pattern("en.lengths", "zh.lengths"))
_COLON = re.compile("[:：]")
_CLAUSE_BREAK = re.compile(r"[,;:!?.()，。；：、！？（）~～—–]+|\s-\s")
_TOKEN = re.compile(r"[a-z]+(?:'[a-z]+)*|[0-9]+|[^\W\d_a-z]+")
_HAN = re.compile("[\u3400-\u9fff]+")
_EMPHASIS = str.maketrans("’", "'", "*_`#>")

# Most sentences start with none of these: they are spared the long pattern.
_OPENER_FIRST = _PHRASES.words("en.opener_first")
_OPENER = re.compile(rf"[\s\"“]?(?:{_PHRASES.pattern('en.openers', 'zh.openers')})\s?", re.IGNORECASE)
_SALUTATION = re.compile(rf"(?:{_PHRASES.pattern('en.salutations', 'zh.salutations')})\s?[,，:：!！]\s*\Z")
_SOURCES = re.compile(rf"\s*(?:{_PHRASES.pattern('en.lists_sources', 'zh.lists_sources')})\s?[:：]\s?", re.IGNORECASE)
_SOURCE_ITEM = re.compile(_PHRASES.pattern("en.source_items", "zh.source_items"), re.IGNORECASE)


def is_boilerplate(text: str, stems: Container[str] = frozenset()) -> bool:
    """Return True if a sentence asserts nothing: greetings, offers of help, thanks, "Here is the answer".

    Strict on purpose: each of its clauses has nothing but words of a closed list, behind one of the known beginnings.
    Behind some of those, words of the question may follow; `stems` are the question's words up to five characters,
    its Chinese characters one by one.
    """
    if len(text) > _MAX_CHARACTERS:
        return False
    folded = text.lower().translate(_EMPHASIS).replace("tl;dr", "tldr")
    is_discourse = len(folded) <= _LONGEST_DISCOURSE and _DISCOURSE.fullmatch(folded.strip())
    if _SALUTATION.match(folded) or (is_discourse and says_yes_or_no(text) is None):
        return True
    if sources := _SOURCES.match(folded):
        return not has_word(_SOURCE_ITEM.sub("", folded[sources.end() :]), 0, _MAX_CHARACTERS)
    first = _FIRST.match(folded)
    word = first.group(1) if first else ""
    opener = _OPENER.match(folded) if word in _OPENER_FIRST else None
    if _is_talk(folded) or (opener and _is_framing(folded[opener.end() :], stems)):
        return True
    if word.isascii() and word and word not in _HEAD_FIRST and word not in _FILLER:
        return False
    return _is_framing(folded, stems)


def _is_talk(folded: str) -> bool:
    """Return True if it speaks of the speakers or of what follows alone: "I dug into this for you"."""
    if not _is_filler(folded, (), words=_ABSTRACT):
        return False
    return folded.rstrip(" ")[-1:] in (":", "：") or any(
        token in _SPEAKERS or _SPEAKER_ZH.search(token) for token in _TOKEN.findall(folded)
    )


def introduces(text: str, stems: Container[str], known: Container[str]) -> bool:
    """Return True if a sentence only leads to what follows its colon: "To reset the router, follow these steps:".

    It has nothing but words of the closed list, of the question (`stems`) and of the contexts (`known`), no negation,
    and one that points ahead; if it presents ("Here's ...:"), two words of its own.
    """
    bare = text.rstrip(" *_")
    if bare[-1:] not in (":", "：") or len(bare) > _MAX_LEAD_CHARACTERS:
        return False
    folded = _LENGTH.sub(" ", bare.lower().translate(_EMPHASIS))
    if _NEGATION.search(folded):
        return False
    presents = _PRESENTS.match(folded) and not _RELATES.search(folded)
    if not (presents or _AHEAD.search(folded) or _HEAD.match(folded)):
        return False
    return count_new(folded, stems, known) <= (_MAX_NEW_IN_LEAD if presents else 0)


def asks(text: str, stems: Container[str], known: Container[str]) -> bool:
    """Return True if a sentence is a question that asserts nothing: of the user's wishes, or of what is known anyway.

    A question in form only ("Did you know that ...?") and one with numbers do not count. One about the user or the
    assistant may have a few words of its own: "Want me to draft the email?".
    """
    if "?" not in text and "？" not in text:
        return False
    folded = text.lower().translate(_EMPHASIS).rstrip(' "”)')
    if folded[-1:] not in ("?", "？") or len(folded) > _MAX_LEAD_CHARACTERS or _RHETORICAL.search(folded):
        return False
    tokens = _TOKEN.findall(folded)
    if any(token.isdigit() for token in tokens) or not (_ASKS_EN.match(folded) or _HAN.search(folded)):
        return False
    is_of_speakers = any(token in _SPEAKERS or _SPEAKER_ZH.search(token) for token in tokens)
    return count_new(folded, stems, known) <= (_MAX_NEW_IN_QUESTION if is_of_speakers else 0)


def count_new(folded: str, stems: Container[str], known: Container[str]) -> int:
    """Return how many words are in no list and known neither from the question nor from the contexts."""
    return sum(
        _new_of(token, stems, known)
        for token in _TOKEN.findall(folded)
        if not (token in known or token in LABELS or (token.isdigit() and len(token) <= _COUNT_DIGITS))
    )


def _is_framing(folded: str, stems: Container[str]) -> bool:
    has_head = False
    for clause in _CLAUSE_BREAK.split(folded):
        first = _FIRST.match(clause)
        head = _HEAD.match(clause) if first and first.group(1) in _HEAD_FIRST else None
        topical = head is not None and head.lastgroup == "topic"
        if not _is_filler(clause[head.end() :] if head else clause, stems if topical else ()):
            return False
        has_head = has_head or head is not None
    return has_head


def strip_boilerplate(text: str, stems: Container[str] = frozenset()) -> str:
    """Return what a sentence asserts, without openers.

    "According to the provided documents, the dam was built in 1950." -> "the dam was built in 1950." A text of nothing
    else comes back as it is.
    """
    rest = text
    for _ in range(_MAX_LAYERS):
        end = _end_of_opener(rest, stems)
        if not end or not has_word(rest, end, len(rest)):
            break
        rest = rest[end:]
    return rest


def _end_of_opener(text: str, stems: Container[str]) -> int:
    first = _FIRST.match(text[:_FIRST_CHARACTERS].lower())
    is_open = first is None or first.group(1) in _OPENER_FIRST or not first.group(1).isascii()
    if is_open and (match := _OPENER.match(text)):
        return match.end()
    colon = _COLON.search(text, 0, _MAX_LEAD_CHARACTERS)
    return colon.end() if colon and is_boilerplate(text[: colon.start()], stems) else 0


def _is_filler(clause: str, stems: Container[str], words: Container[str] = _FILLER) -> bool:
    if any(_new_of(match.group(), stems, (), words) for match in _TOKEN.finditer(clause)):
        return False
    tokens = _TOKEN.findall(clause)
    is_about_question = any(token not in words and not _HAN.match(token) for token in tokens)
    return not (is_about_question and _ASSERTING.intersection(tokens))


def _new_of(token: str, stems: Container[str], known: Container[str], words: Container[str] = _FILLER) -> int:
    """Return how many words of a token are new: of a run of Han, two characters count as a word."""
    if token in words:
        return 0
    if not _HAN.match(token):
        return 0 if token[:STEM] in stems and not token.isdigit() else 1
    at = new = 0
    while at < len(token):
        longest = next((size for size in range(_LONGEST_ZH, 0, -1) if token[at : at + size] in words), 0)
        pairs = (token[at : at + 2], token[at - 1 : at + 1])
        new += not longest and token[at] not in stems and not any(pair in known for pair in pairs)
        at += longest or 1
    return (new + 1) // 2
