"""Labels in citation marks of all usual forms, and the contexts that they name."""

import re
import unicodedata
from collections.abc import Iterator

from plumbline.ground.phrases import Phrases
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.words import SOURCE_WORDS

_FORMS = Phrases("judging/text/citation_marks")
# The group that has matched decides who reads the label.
_MARK = re.compile(_FORMS.pattern("labels.forms"))
# The ends of `SOURCE_WORDS`, and of "turn".
_ENDS = "(?i:doc|ocs|ent|nts|rce|ces|age|ges|ext|xts|ref|efs|nce|ion|ons|ite|unk|nks|urn)"
_HAN_ENDS = "源档料段落考献处"
_LAST = f"[cefknstCEFKNST{_HAN_ENDS}]"
# What a mark may begin with, or its number behind a word, stands first and alone: `re` then runs over the other
# characters many times as fast.
MAY_MARK = re.compile(
    r"[\[【(（［〔<0-9０-９](?:(?<![<0-9０-９])|(?<=<)/?(?:sup|ref|source|cite|doc|co)\b"
    rf"|(?<={_LAST}[0-9０-９])(?:(?<=[{_HAN_ENDS}].)|(?<={_ENDS}.))"
    rf"|(?<={_LAST} [0-9０-９])(?:(?<=[{_HAN_ENDS}]..)|(?<={_ENDS}..)))"
)
# A mark with such a number begins here; this part ends where the number begins.
_WORDS_BEFORE = re.compile(
    rf"\ue200?(?:file)?cite\ue202?turn\Z|(?:{_FORMS.pattern('parts.according_to')})?(?i:{SOURCE_WORDS}) ?\Z"
)
_WORDS_REACH = 40
# "[3] text": the number that a passage, or a line of sources, begins with.
OWN_LABEL = re.compile(r"\s*[\[【]\^?([0-9]{1,3})\]?】?[\])】:.]?\s")
_NUMBERS = re.compile(_FORMS.pattern("parts.numbers"), re.IGNORECASE)
_WORDED_NUMBERS = re.compile(_FORMS.pattern("numbers.worded"), re.IGNORECASE)
# OpenAI's file search (the message, and the passage in it): passages count from 0.
_FROM_ZERO = re.compile(r"\d{1,3}:(\d{1,3})†.*", re.DOTALL)
_NUMBER_AND_LINES = re.compile(r"(\d{1,3})†.*", re.DOTALL)
_RANGE = re.compile(r"(\d{1,3})\^?(?:\s?(?:[–—~-]|至)\s?\^?(\d{1,3}))?")
_LONGEST_RANGE = 20
# What OpenAI's models leave of their search: the turn, the kind and the passage, which counts from 0.
_TURN_PASSAGE = re.compile(r"(?:(?<![a-z])|(?<=cite))turn\d{1,3}[a-z]{2,10}(\d{1,3})")
_OPENED_PASSAGE = re.compile(r"(?<![\d:-])\d{1,3}(?!\d|:\[)")
_ZERO = re.compile(r"[\[【](?:\^|web:)?0\^?[\]】]|<cite index=[\"']?0\b")
# "[1, p. 4]", "[2，第5页]": where in the passage.
_PAGE = re.compile(r"\s?[,;:]\s?(?:pp?\.? ?|pages? |第 ?)\d{1,4}(?:\s?[–—~-]\s?\d{1,4})?(?: ?页)?\Z", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s?[,;、]\s?")
_SHAPE = re.compile(r"(\d+)|([^\W\d_]+)")
_TRACKING = re.compile(r"[?&]utm_\w{1,20}=[\w.-]{1,60}|#:~:text=.*")
# A label, and its context; None if there is no such passage.
Named = tuple[str, int | None]


def find_candidates(text: str, start: int = 0, end: int | None = None) -> Iterator[re.Match[str]]:
    """Yield what looks like a mark, in order; `LabelResolver.read` says what it names."""
    stop = len(text) if end is None else end
    while sign := MAY_MARK.search(text, start, stop):
        at = sign.start()
        if text[at].isdecimal():
            words = _WORDS_BEFORE.search(text, max(start, at - _WORDS_REACH), at)
            at = words.start() if words else at
        match = _MARK.match(text, at, stop)
        if match:
            yield match
        start = match.end() if match else sign.end()


class LabelResolver:
    """Finds the contexts that a mark names: by id, title or source; by the number they begin with; by position.

    `base`: number of the first position; None: 0 if the answer cites [0], else 1.
    """

    def __init__(self, sample: Sample, base: int | None) -> None:
        self._count = len(sample.contexts)
        self._base = (0 if _ZERO.search(sample.answer) else 1) if base is None else base
        self._by_name: dict[str, int] = {}
        for index, labels in enumerate(sample.context_labels):
            for name in labels.names:
                self._by_name.setdefault(_fold(name), index)
        self._has_links = any(name.startswith("http") for name in self._by_name)
        ids = (labels.id for labels in sample.context_labels if labels.id and not labels.id.isdigit())
        self._shapes = {_shape(each) for each in ids}
        own = [match[1] for context in sample.contexts if (match := OWN_LABEL.match(context))]
        # Passages that all carry numbers of their own are cited by them.
        is_numbered = bool(own) and len(set(own)) == self._count
        self._by_number = {int(number): index for index, number in enumerate(own)} if is_numbered else None

    def read(self, match: re.Match[str]) -> list[Named]:
        """Return what a match of `find_candidates` names; nothing for no mark."""
        kind = match.lastgroup or ""
        if kind == "link":
            context = self._by_name.get(_fold(match["link"]))
            return [(match["link"], context)] if self._has_links or context is not None else []
        if turns := list(_TURN_PASSAGE.finditer(match.group())):
            return [(each[0], self._by_name.get(each[0], self._at_position(int(each[1]), 0))) for each in turns]
        return self._read_tag(match) if kind in ("opened", "closed") else self._read_brackets(match)

    def _read_brackets(self, match: re.Match[str]) -> list[Named]:
        content = unicodedata.normalize("NFKC", match[match.lastgroup or 0]).strip().rstrip("\\")
        if passage := _FROM_ZERO.fullmatch(content):
            return [(content.partition("†")[0], self._at_position(int(passage[1]), 0))]
        if lines := _NUMBER_AND_LINES.fullmatch(content):
            return [(lines[1], self._find(int(lines[1])))]
        if (context := self._by_name.get(_fold(content))) is not None:
            return [(content, context)]
        content = _PAGE.sub("", content)
        is_round = match["bracket"] in ("(", "（")
        if (not is_round and _NUMBERS.fullmatch(content)) or _WORDED_NUMBERS.fullmatch(content):
            return self._find_all(_expand_numbers(content))
        named = [(part, self._by_name.get(_fold(part))) for part in _SEPARATOR.split(content)]
        is_likely = all(found is not None or (not is_round and _shape(part) in self._shapes) for part, found in named)
        return named if is_likely else []

    def _read_tag(self, match: re.Match[str]) -> list[Named]:
        numbers = dict.fromkeys(map(int, _OPENED_PASSAGE.findall(match[match.lastgroup or 0])))
        is_from_zero = match.group().startswith(("<co", "</co"))
        return [(str(each), self._at_position(each, 0) if is_from_zero else self._find(each)) for each in numbers]

    def _find_all(self, numbers: list[int]) -> list[Named]:
        """Return the contexts of numbers; nothing if one is rather a year, a size or the bound of an interval."""
        found = [(str(number), self._find(number)) for number in numbers]
        highest = max(99, self._count)
        is_mark = all(
            context is not None or self._base <= number <= highest
            for number, (_, context) in zip(numbers, found, strict=True)
        )
        return found if is_mark else []

    def _find(self, number: int) -> int | None:
        if (named := self._by_name.get(str(number))) is not None:
            return named
        return self._at_position(number, self._base) if self._by_number is None else self._by_number.get(number)

    def _at_position(self, number: int, base: int) -> int | None:
        return number - base if 0 <= number - base < self._count else None


def _expand_numbers(content: str) -> list[int]:
    numbers: list[int] = []
    for first, last in _RANGE.findall(content):
        start, end = int(first), int(last or first)
        numbers += range(start, end + 1) if start <= end < start + _LONGEST_RANGE else (start, end)
    return list(dict.fromkeys(numbers))


def _fold(name: str) -> str:
    folded = unicodedata.normalize("NFKC", name).casefold().strip()
    return _TRACKING.sub("", folded).rstrip("/") if folded.startswith("http") else folded


def _shape(label: str) -> str:
    return _SHAPE.sub(lambda match: "0" if match[1] else "a", _fold(label))
