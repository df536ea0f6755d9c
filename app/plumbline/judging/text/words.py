"""Words of a text for comparison: normalised, in Chinese as character bigrams.

Nothing is downloaded: stop words and traditional characters are data of the package. The tokenizer is a pattern run
by `re`; the same one in NLTK's tokenizer takes ten times as long (docs/decisions/0004). No stemming: it lowered
agreement with people.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, islice
from typing import Final, Literal, NamedTuple

from plumbline.ground.deadline import within_deadline
from plumbline.ground.phrases import Phrases, load_data

_STOP_WORDS: Final = Phrases("judging/text/stop_words")
STOP_WORDS: Final = {language: _STOP_WORDS.words(language) for language in ("english", "chinese")}


def to_simplified(text: str) -> str:
    """Return the text with traditional characters in their simplified form, character by character.

    Both sides of a comparison go through it, so that a character with two simplified forms (乾) still meets itself.
    """
    if text.isascii() or not _traditional().search(text):
        return text
    return text.translate(_simplified_by_code())


@cache
def _simplified_by_code() -> dict[int, str]:
    read = load_data("judging/text/traditional_characters")
    return {ord(traditional): simplified for traditional, simplified in read["pairs"].split()}


@cache
def _traditional() -> re.Pattern[str]:
    return re.compile(f"[{''.join(map(chr, _simplified_by_code()))}]")


Language = Literal["en", "zh", "other"]

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_HAN_RUN = re.compile(f"[{_HAN}]+")
_KANA_OR_HANGUL = re.compile("[\u3040-\u30ff\uac00-\ud7af]")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
_LETTER = re.compile(r"[^\W\d_]")
# Short, so that most texts are left after a few characters: words of capitals, and amounts with their units.
_CODE = r"[A-Z]{2,12}(?:-[A-Z\d]{1,6})?"
_AMOUNT = r"[A-Z.,:$€£¥+-]{0,6}\d[\dA-Z.,:/+-]{0,12}(?: ?[a-zA-Zµ°%][a-zA-Z/²³]{0,3}(?![a-zA-Z]))?"
_AMOUNTS_AND_CODES = re.compile(rf"[\s*~≈]{{0,4}}(?:(?:{_CODE}|{_AMOUNT})[\s*~–-]{{0,4}}){{1,4}}[.。*]{{0,4}}")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
# A full stop or comma inside a number is part of it.
_PUNCTUATION = re.compile(r"[^\w\s.,]|_|(?<!\d)[.,]|[.,](?!\d)")
# Citation marks and list markers belong to the page, not to what is said.
# The bracket stands first and alone: `re` then runs over other characters many times as fast.
SOURCE_WORDS = f"(?:{Phrases('judging/text/citation_marks').pattern('parts.source_words')})"
CITATION_MARK = (
    r"[\[【(（](?:(?<=\[)\^?\d{1,3}\^?(?:\s?[,–-]\s?\^?\d{1,3}\^?){0,12}\]|(?<=【)\d{1,3}[^】\n]{0,40}】"
    rf"|(?i:{SOURCE_WORDS})[ .:：#]{{0,2}}\d{{1,3}}(?:\s?[,–-]\s?\d{{1,3}}){{0,12}}[\])）】])"
)
_CITATION = re.compile(CITATION_MARK)
_LIST_MARK = re.compile(r"\s*(?:[-*+•·]\s+|\(?\d{1,2}(?:[.)]\s+|、))(?=\S)")
_SPACE = re.compile(r"\s+")
# Names of relations and of code are written like this: "cityServed". On the human labels this tells data-to-text apart.
# The capital first: few characters are one, so that the pattern runs over the others at once.
_INNER_CAPITAL = re.compile(r"[A-Z](?<=[a-z][A-Z])")
_THOUSANDS = re.compile(r",(?<=\d,)(?=\d{3}(?!\d))")
# Numbers keep their decimals; words keep inner apostrophes; Han comes in runs.
_TOKEN = re.compile(rf"\d+(?:\.\d+)*|[{_HAN}]+|[^\W\d_{_HAN}]+(?:['’][^\W\d_{_HAN}]+)*")
# The same for text in lower case and ASCII.
_ASCII_TOKEN = re.compile(r"[a-z]+(?:'[a-z]+)*|[0-9]+(?:\.[0-9]+)*")

# Words cut to this length meet their inflections: "resetting" meets "reset". A stemmer agreed no better with people.
STEM: Final = 5
# Negations are content, whatever the lists say.
_NEGATIONS_EN = _STOP_WORDS.words("negations")
_NEGATIONS_ZH = _STOP_WORDS.words("negations_chinese")
FUNCTION_CHARACTERS = frozenset(_STOP_WORDS.read("function_characters"))
COMMON_CHARACTERS, EVERYDAY_CHARACTERS = (
    frozenset(_STOP_WORDS.read(name).replace("\n", "")) for name in ("common_characters", "everyday_characters")
)
_STOPWORDS_EN = STOP_WORDS["english"] - _NEGATIONS_EN | frozenset({"'s", "s", "t", "re", "ve", "ll", "d", "m"})
_STOPWORDS_ZH = STOP_WORDS["chinese"] - _NEGATIONS_ZH

# Places at which a copy is tried that a longer word may hold, and characters that are searched in one passage for all
# copies together, half a second of work. Beyond them a text is made to be slow.
_MAX_PLACES_TRIED = 100
_MAX_CHARACTERS_SEARCHED = 200_000_000

# A text with this share of Han among its letters is read as Chinese; names and units in Latin letters are common in it.
_HAN_SHARE_OF_CHINESE = 0.3
_PIECE_CHARACTERS = 20_000
_MOST_WORDS_READ = 10_000
_MOST_PIECES_READ = 10


class Words(NamedTuple):
    """Words of a text in order, repeats kept: all of them, and those that carry content (`content_words`).

    `has_content`: one of them is no stopword.
    """

    every: tuple[str, ...]
    content: tuple[str, ...]
    has_content: bool

    @property
    def without_stopwords(self) -> tuple[str, ...]:
        return self.content if self.has_content else ()

    @classmethod
    def of(cls, words: Sequence[str]) -> "Words":
        """Build it from English words."""
        content = [word for word in words if word not in _STOPWORDS_EN]
        return cls(tuple(words), tuple(content or words), bool(content))


def split_words(text: str) -> Words:
    """Split a text into words: no possessive, numbers as written, "camelCase" split, bigrams for Han."""
    if len(text) > _PIECE_CHARACTERS:
        parts = [split_words(piece) for piece in within_deadline(pieces(text))]
        every = tuple(chain.from_iterable(part.every for part in parts))
        content = tuple(chain.from_iterable(part.content for part in parts))
        return Words(every, content, any(part.has_content for part in parts))
    folded = _fold(_with_words_apart(text))
    if folded.isascii():
        # The same as `_all_words` in half the time: most text is ASCII.
        words = _ASCII_TOKEN.findall(folded)
        if "'" in folded:
            words = [word.removesuffix("'s") for word in words]
        return Words.of(words)
    found = list(_all_words(folded))
    every = tuple([word for word, _ in found])
    content = tuple([word for word, is_stopword in found if not is_stopword])
    return Words(every, content or every, bool(content))


def normalise(text: str) -> str:
    """Return the text in folded NFKC without citation and list marks; punctuation and white space as single blanks."""
    return _SPACE.sub(" ", _PUNCTUATION.sub(" ", _fold(text))).strip()


def content_words(text: str) -> tuple[str, ...]:
    """Return the content words in order, repeats kept; of a text that consists of stopwords alone, those."""
    return split_words(text).content


def split_compounds(text: str) -> str:
    """Insert blanks into "camelCase" and "snake_case", as people write words and as models know them."""
    return _with_words_apart(text).replace("_", " ")


def split_tokens(text: str) -> list[str]:
    """Return words and numbers as written, Han in runs, in order, repeats kept; case-folded, without punctuation."""
    return _TOKEN.findall(_fold(text))


def is_han(token: str) -> bool:
    return _HAN_RUN.match(token) is not None


def split_characters(text: str) -> tuple[str, ...]:
    """Return Han characters one by one, words and numbers of other scripts whole, in order; no punctuation."""
    return tuple(unit for token in split_tokens(text) for unit in (token if is_han(token) else (token,)))


def detect_language(text: str) -> Language:
    """Return `zh` for mostly Han, `en` for mostly Latin letters (in any language) or none, `other` for the rest."""
    # Most text has only English letters.
    if not any(_LETTER.search("".join(_BEYOND_ASCII.findall(piece))) for piece in pieces(text)):
        return "en"
    letters = _count(_LETTER, text)
    if not letters:
        return "en"
    if _count(_KANA_OR_HANGUL, text) > 0.1 * letters:
        return "other"
    if han_share(text) >= _HAN_SHARE_OF_CHINESE:
        return "zh"
    return "en" if _count(_LATIN, text) >= 0.5 * letters else "other"


def is_in_a_language(text: str) -> bool:
    """Return True if any letters are a word's: "400 ml", "A5" and "USB-C" may be said in every language."""
    return _LETTER.search(text) is not None and _AMOUNTS_AND_CODES.fullmatch(text) is None


def pieces(text: str, size: int = _PIECE_CHARACTERS) -> Iterator[str]:
    """Yield a long text in pieces that end with a line, a sentence or a word: no pattern runs over megabytes.

    It would hold the interpreter, and with it the event loop.
    """
    return (text[start:end] for start, end in _stretches(text, size))


def find_in_pieces(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield what `finditer` does, but for matches that reach from one of the `pieces` into the next."""
    for start, end in _stretches(text, _PIECE_CHARACTERS):
        yield from pattern.finditer(text, start, end)


def _stretches(text: str, size: int) -> Iterator[tuple[int, int]]:
    at = 0
    while len(text) - at > size:
        limit = at + size
        end = next((end for mark in ("\n", ". ", "。", " ") if (end := text.rfind(mark, at + 1, limit)) > at), limit)
        yield at, end
        at = end
    yield at, len(text)


def _count(pattern: re.Pattern[str], text: str) -> int:
    return sum(len(pattern.findall(piece)) for piece in pieces(text))


class Passage:
    """A text in which others are searched verbatim: normalised once for all of them."""

    def __init__(self, text: str) -> None:
        normalised = normalise(text)
        self._text = f" {normalised} "
        self._negations = _negations(normalised)
        self._searched = 0

    def contains(self, part: str) -> bool:
        """Return True if `part` stands in the text verbatim, compared after normalisation.

        No word or number may be cut, and the text may not negate beyond it: "the drug works" is no copy of "there is
        no evidence that the drug works".
        """
        return self.find(part) is not None

    def find(self, part: str) -> tuple[int, int] | None:
        """Return where a part stands that the text `contains`, for `around`."""
        inner = normalise(part)
        self._searched += len(self._text)
        if not inner or self._searched > _MAX_CHARACTERS_SEARCHED or _negations(inner) != self._negations:
            return None
        if (start := next(self._starts(f" {inner} "), None)) is not None:
            return start + 1, start + 1 + len(inner)
        # Chinese has no blanks next to a copy.
        for start in self._starts(inner):
            end = start + len(inner)
            if _is_between_words(self._text[start - 1], inner[0]) and _is_between_words(inner[-1], self._text[end]):
                return start, end
        return None

    def around(self, place: tuple[int, int], reach: int) -> tuple[str, str]:
        """Return the normalised text before and behind a place that `find` gave, so many characters of each."""
        start, end = place
        return self._text[max(0, start - reach) : start], self._text[end : end + reach]

    def _starts(self, wanted: str) -> Iterator[int]:
        start = self._text.find(wanted)
        for _ in range(_MAX_PLACES_TRIED):
            if start < 0:
                break
            yield start
            start = self._text.find(wanted, start + 1)


def has_content(text: str) -> bool:
    """Return True if a word is no stopword, of a long text one of the first ten thousand, within 200,000 characters."""
    if len(text) <= _PIECE_CHARACTERS:
        return any(not is_stopword for _, is_stopword in _all_words(_fold(_with_words_apart(text))))
    spoken = islice((piece for piece in pieces(text) if _LETTER_OR_DIGIT.search(piece)), _MOST_PIECES_READ)
    words = chain.from_iterable(_all_words(_fold(_with_words_apart(piece))) for piece in spoken)
    return any(not is_stopword for _, is_stopword in islice(words, _MOST_WORDS_READ))


def han_share(text: str) -> float:
    """Return the share of Han characters among the letters of the text, in [0, 1]; 0 without letters."""
    if not _HAN_RUN.search(text):
        return 0.0
    letters = _count(_LETTER, text)
    # A code point of a Han block that is not assigned yet is no letter.
    return min(1.0, sum(map(len, _HAN_RUN.findall(text))) / letters) if letters else 0.0


def _with_words_apart(text: str) -> str:
    return _INNER_CAPITAL.sub(r" \g<0>", text) if _INNER_CAPITAL.search(text) else text


def _all_words(folded: str) -> Iterator[tuple[str, bool]]:
    for match in _TOKEN.finditer(folded):
        token = match.group()
        if _HAN_RUN.match(token):
            yield from _han_bigrams(token)
        else:
            word = token.removesuffix("'s").removesuffix("’s")
            yield word, word in _STOPWORDS_EN


def _fold(text: str) -> str:
    folded = text.lower() if text.isascii() else to_simplified(nfkc(text).casefold())
    marker = _LIST_MARK.match(folded)
    if marker:
        folded = f" {folded[marker.end() :]}"
    if "[" in folded or "(" in folded or "【" in folded:
        folded = _CITATION.sub(" ", folded)
    return _THOUSANDS.sub("", folded) if "," in folded else folded


def _negations(normalised: str) -> int:
    words = sum(word in _NEGATIONS_EN for word in normalised.split())
    return words if normalised.isascii() else words + sum(character in _NEGATIONS_ZH for character in normalised)


def _is_between_words(left: str, right: str) -> bool:
    return not (left.isalnum() and right.isalnum()) or any(map(_HAN_RUN.match, (left, right)))


def _han_bigrams(run: str) -> list[tuple[str, bool]]:
    if len(run) == 1:
        return [(run, run in _STOPWORDS_ZH)]
    pairs = (run[i : i + 2] for i in range(len(run) - 1))
    return [(pair, pair[0] in _STOPWORDS_ZH and pair[1] in _STOPWORDS_ZH) for pair in pairs]


# Unicode's Stream-Safe Text Format (UAX #15, section 13) allows so many marks in a row; no language needs more.
_MAX_MARKS = 30
# Blocks of the basic plane that have marks: all but Han, Hangul and private use.
_BLOCKS_WITH_MARKS = ((0x0300, 0x3400), (0xA66F, 0xAC00), (0xFB1E, 0x10000))
# All scripts beyond it that have marks: `re` is slow with many stretches there, and a cut between letters does no harm.
_BEYOND = "\U000101fd-\U0001e94a"


# Two Arabic ligatures stand for 18 and 8 letters, all others for 6 at most: their customary abbreviations take their
# place, so that a text cannot grow many times over.
_LONG_LIGATURES = {0xFDFA: "صلعم", 0xFDFB: "جل"}


def nfkc(text: str) -> str:
    """Return the text in NFKC; of more than 30 combining marks in a row, each 30 are ordered by themselves.

    `unicodedata` sorts the marks of one letter by insertion: a million of them in the wrong order would take hours.
    """
    if text.isascii():
        return text
    if "\ufdfa" in text or "\ufdfb" in text:
        text = text.translate(_LONG_LIGATURES)
    if len(text) > _PIECE_CHARACTERS:
        return "".join(map(nfkc, pieces(text)))
    cuts = [match.end() for match in _long_runs().finditer(text)]
    if not cuts:
        return unicodedata.normalize("NFKC", text)
    bounds = zip([0, *cuts], [*cuts, len(text)], strict=True)
    return "".join([unicodedata.normalize("NFKC", text[start:end]) for start, end in bounds])


@cache
def _long_runs() -> re.Pattern[str]:
    """Compile a pattern of 30 characters that decompose to nothing but marks."""
    characters = (chr(code) for block in _BLOCKS_WITH_MARKS for code in range(*block))
    return re.compile(f"[{''.join(filter(is_mark, characters))}{_BEYOND}]{{{_MAX_MARKS}}}")


def is_mark(character: str) -> bool:
    """Return True if a character is a combining mark, or decomposes to one."""
    if unicodedata.combining(character):
        return True
    return bool(
        unicodedata.decomposition(character) and unicodedata.combining(unicodedata.normalize("NFKD", character)[0])
    )
