"""Facts of structured contexts: a number belongs to its line, its row and its column, and a value may deny its key."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice
from typing import Final

from plumbline.ground.deadline import within_deadline
from plumbline.judging.text import negation
from plumbline.judging.text.structured import Flag, TableRow
from plumbline.judging.text.words import STEM, is_han, split_tokens, split_words

# Chinese stands around a number without a blank.
_TOKEN: Final = re.compile(r"[^\W\u3400-\u9fff](?:[^\W\u3400-\u9fff]|[.-])*+")
_CLAUSE_ENDS: Final = re.compile(r"[,;，；、。]\s|\b(?:and|while|but|whereas)\b|[和与而但]")
_MOST_LINES: Final = 2_000
# A line with more words is a text, and none of one value.
_MOST_WORDS: Final = 12
# The reader of amounts compares them.
_TIME_OF_DAY: Final = re.compile(r"\d{1,2}:\d{2}|\b\d{1,2}(?= ?[ap]\.?m\b)", re.IGNORECASE)
# Part of so many keys, a word tells none from another: that of "RestaurantsTakeOut", "RestaurantsDelivery" ...
_IN_MANY_KEYS: Final = 2


class StructuredFacts:
    """Numbers, identifiers and flags of the structured contexts, which belong to the words of their own line.

    Args:
        lines: what each value of JSON, or row of CSV, says.
        rows: those of Markdown tables.
        flags: values that affirm or deny their key.
    """

    def __init__(self, lines: Iterable[str], rows: Sequence[TableRow] = (), flags: Sequence[Flag] = ()) -> None:
        self._texts = list(islice(lines, _MOST_LINES))
        stems = ((line, _line_stems(line)) for line in self._texts)
        self._lines = [(words, frozenset(_exact(line))) for line, words in within_deadline(stems)]
        self._known = frozenset[str]().union(*(tokens for _, tokens in self._lines))
        self._rows = rows[:_MOST_LINES]
        self._flags = flags[:_MOST_LINES]

    def find_misplaced(self, text: str) -> tuple[str, ...]:
        """Return the numbers and identifiers of other lines: another value has all words of the clause that theirs has,
        and more of them. Of a table those of another row, or of another column, than the one that the sentence names.
        """
        found: list[str] = []
        for clause in _CLAUSE_ENDS.split(_TIME_OF_DAY.sub(" ", text)) if self._lines else ():
            wanted = [token for token in _exact(clause) if token in self._known]
            plain = _plain_words(clause)
            words = frozenset(word[:STEM] for word in plain)
            shared = [(words & line, tokens) for line, tokens in self._lines] if wanted else []
            # A line of many words, such as a review, says more than one value.
            values = [
                (of, tokens)
                for (line, _), (of, tokens) in zip(self._lines, shared, strict=False)
                if tokens and len(line) <= _MOST_WORDS
            ]
            top = max((len(of) for of, _ in values), default=0)
            if not top:
                continue
            near = [(of, tokens) for of, tokens in values if len(of) == top]
            for token in wanted:
                own = [of for of, tokens in shared if token in tokens]
                if not any(token in tokens for _, tokens in near) and all(
                    any(of < best for best, _ in near) for of in own
                ):
                    found.append(f"{token} ({' '.join(plain)})")
        return tuple(dict.fromkeys([*found, *(self._find_in_other_cells(text) if self._rows else ())]))

    def _find_in_other_cells(self, text: str) -> list[str]:
        wanted = _exact(text)
        said = _spelt(text)
        named = [row for row in self._rows if row.name and _is_said(row.name, said)] if wanted else []
        if len(named) != 1:
            return []
        row = named[0]
        columns = {column for column, _ in row.cells if column and _is_said(column, said)}
        elsewhere = frozenset(token for each in self._rows for _, value in each.cells for token in _exact(value))
        names = frozenset(_exact(" ".join([row.name, *(column for column, _ in row.cells)])))
        inside = [(column, frozenset(_exact(value))) for column, value in row.cells]
        # Of two numbers either may be of the column.
        is_told = len(columns) == 1 == len(elsewhere.intersection(wanted) - names)
        chosen = [tokens for column, tokens in inside if column in columns] if is_told else []
        here = frozenset[str]().union(*(chosen or (tokens for _, tokens in inside)))
        return [f"{token} ({row.name})" for token in wanted if token in elsewhere - here - names]

    def find_denied(self, text: str) -> tuple[str, ...]:
        """Return the keys of flags that the text goes against: it affirms what is false, null, zero or empty.

        A text with any negative turn, or with a question, affirms nothing for sure.
        """
        if not self._flags or text.rstrip().endswith(("?", "？")):
            return ()
        said, words = _spelt(text), frozenset(_line_stems(text))
        denied: list[str] = []
        for key, flags in self._flags_by_key.items():
            if not _is_said(key, said) or negation.is_negative(_without_words(text, key)) or _is_said(key, self._told):
                continue
            shared = [len(words & _line_stems(flag.path)) for flag in flags]
            nearest = [flag for flag, count in zip(flags, shared, strict=True) if count == max(shared)]
            if not any(flag.is_true for flag in nearest):
                denied.append(key)
        return tuple(denied)

    @cached_property
    def _told(self) -> "_Spelt":
        """Return the words of all other values: a review may praise the music that a flag denies."""
        own = {f"{flag.path} {flag.key}".strip() for flag in self._flags}
        return _spelt("\n".join(line for line in self._texts if own.isdisjoint((line, line.rpartition(" ")[0]))))

    @cached_property
    def _flags_by_key(self) -> dict[str, list[Flag]]:
        """Return the flags by what their key says, without words that many keys have."""
        keys = {flag.key for flag in self._flags}
        counts = Counter(word for key in keys for word in frozenset(_spelt(key)[0]))
        found: dict[str, list[Flag]] = {}
        for flag in self._flags:
            words = flag.key.split()
            told = [word for word in words if counts[word.lower()[:STEM]] < _IN_MANY_KEYS]
            found.setdefault(" ".join(told or words), []).append(flag)
        return found


_Spelt = tuple[frozenset[str], str]


def _spelt(text: str) -> _Spelt:
    tokens = split_tokens(text)
    return frozenset(token[:STEM] for token in tokens if not is_han(token)), "".join(filter(is_han, tokens))


def _without_words(text: str, name: str) -> str:
    folded = text.lower()
    for word in name.lower().split():
        folded = folded.replace(word, " ")
    return folded


def _is_said(name: str, said: _Spelt) -> bool:
    """Return True if a text has each word of a name that carries content, and its Chinese as it is."""
    stems, han = _spelt(" ".join(split_words(name).without_stopwords) if name.isascii() else name)
    return bool(stems or han) and stems <= said[0] and han in said[1]


def _exact(text: str) -> list[str]:
    tokens = (token.rstrip(".-").lower() for token in _TOKEN.findall(text))
    return [token for token in tokens if "_" in token or any(mark.isdecimal() for mark in token)]


def _plain_words(text: str) -> list[str]:
    words = split_words(text).content
    return [word for word in words if not any(mark.isdecimal() or mark == "_" for mark in word)]


def _line_stems(line: str) -> frozenset[str]:
    return frozenset(word[:STEM] for word in _plain_words(line))
