"""Length of a text in words or in a model's tokens, and the longest stretches that fit a size."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Final, Literal

from plumbline.ground.errors import InvalidInput, TierFailure
from plumbline.models.encoder.model_files import find_model
from plumbline.models.encoder.text_reader import load_tokenizer

Unit = Literal["words", "tokens"]


# Scripts that are written without blanks, Han and kana: a character is a word, with the punctuation that belongs to it.
_UNSPACED: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_OPENING: Final = "《〈（【「『"
_OPENING_OR_QUOTE: Final = f"{_OPENING}“‘"
_CLOSING: Final = "、。，．…！？：；》〉）】」』”’"
_WORD: Final = re.compile(
    rf"[{_OPENING_OR_QUOTE}]*+[{_UNSPACED}][{_CLOSING}]*+"
    rf"|[{_OPENING_OR_QUOTE}]*+[^\s{_UNSPACED}{_OPENING}]++"
    rf"|[{_OPENING_OR_QUOTE}]++"
)


@dataclass(slots=True)
class Pieces:
    """Stretches of a text in order with their lengths; as columns, for there may be a million."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)

    def add(self, start: int, end: int, length: int) -> None:
        self.starts.append(start)
        self.ends.append(end)
        self.lengths.append(length)

    def extend(self, others: "Pieces") -> None:
        self.starts += others.starts
        self.ends += others.ends
        self.lengths += others.lengths


class MeasuredText:
    """A text with its words: separated by blanks, or single Chinese or Japanese characters.

    Args:
        tokens: where its tokens lie; None counts words. A token counts for the word that it ends in.
    """

    def __init__(self, text: str, tokens: Sequence[tuple[int, int]] | None) -> None:
        self.text = text
        spans = [match.span() for match in _WORD.finditer(text)]
        self._begins = [start for start, _ in spans]
        self._ends = [end for _, end in spans]
        self._tokens = None if tokens is None else sorted((max(start, end - 1), start) for start, end in tokens)
        self._lengths = [1] * len(spans)
        if self._tokens is not None:
            bounds = [bisect_left(self._tokens, (begin, 0)) for begin in self._begins]
            # At least 1, so that no word is free
            self._lengths = [max(1, after - first) for first, after in pairwise([*bounds, len(self._tokens)])]
        self._sums = [0, *accumulate(self._lengths)]

    def length(self, start: int, end: int) -> int:
        """Count the words of which a part lies in [start, end), or their tokens: never fewer than lie there."""
        first, after = self._places(start, end)
        return self._sums[after] - self._sums[first]

    def words(self, start: int, end: int, *, size: int) -> Pieces:
        """Return the parts of words that lie in [start, end); a word of more than `size` tokens is cut."""
        first, after = self._places(start, end)
        pieces = Pieces(self._begins[first:after], self._ends[first:after], self._lengths[first:after])
        if first < after:
            # The stretch may start or end inside a word.
            pieces.starts[0] = max(start, pieces.starts[0])
            pieces.ends[-1] = min(end, pieces.ends[-1])
        if self._tokens is None or max(pieces.lengths, default=0) <= size:
            return pieces
        cut = Pieces()
        for begin, stop, length in zip(pieces.starts, pieces.ends, pieces.lengths, strict=True):
            if length > size:
                cut.extend(_cut_word(begin, stop, self._tokens, size))
            else:
                cut.add(begin, stop, length)
        return cut

    def _places(self, start: int, end: int) -> tuple[int, int]:
        """Return the first word that reaches into [start, end), and the first after it."""
        return bisect_right(self._ends, start), bisect_left(self._begins, end)


def _cut_word(start: int, end: int, tokens: Sequence[tuple[int, int]], size: int) -> Pieces:
    """Cut into pieces of at most `size` tokens; more only if one character has more."""
    pieces, begin, count = Pieces(), start, 0
    for _, token_start in tokens[bisect_left(tokens, (start, 0)) : bisect_left(tokens, (end, 0))]:
        # A character may be several tokens with the same start.
        if count >= size and token_start > begin:
            pieces.add(begin, token_start, count)
            begin, count = token_start, 0
        count += 1
    pieces.add(begin, end, max(1, count))
    return pieces


def load_text_measure(unit: Unit, model: str | None) -> Callable[[str], MeasuredText]:
    """Return a function that measures texts.

    Args:
        model: whose tokens: a folder or hub id as in PLUMBLINE_EMBEDDING_MODEL; None takes the built-in model.

    Raises:
        InvalidInput: the model is not there or has no `tokenizer.json`.
    """
    if unit == "words":
        return lambda text: MeasuredText(text, None)
    try:
        folder = find_model(model).folder
    except TierFailure as error:
        raise InvalidInput(error.detail, place="model") from error
    definition = next(iter(sorted(folder.rglob("tokenizer.json"))), None)
    if definition is None:
        raise InvalidInput(f'{str(model)!r} has no tokenizer.json; unit = "words" needs none', place="model")
    tokenizer = load_tokenizer(definition.read_text(encoding="utf-8"))
    return lambda text: MeasuredText(text, tokenizer.encode(text, add_special_tokens=False).offsets)


def pack_runs(
    lengths: Sequence[int], *, size: int, overlap: int = 0, counts_pieces: bool = False
) -> Iterator[tuple[int, int]]:
    """Yield runs [first:after) of pieces as long as fit `size`, in order; a longer piece is a run by itself.

    Args:
        lengths: of the pieces, 1 or more each.
        overlap: how much of the end of a run the next one may begin with, at most; it is less where no further piece
            would fit.
        counts_pieces: the overlap is a number of pieces, not a length.
    """
    sums = [0, *accumulate(lengths)]
    first = after = 0
    while after < len(lengths):
        after = max(first + 1, bisect_right(sums, sums[first] + size) - 1)
        yield first, after
        if after < len(lengths):
            repeated = after - overlap if counts_pieces else bisect_left(sums, sums[after] - overlap)
            first = min(after, max(repeated, bisect_left(sums, sums[after + 1] - size)))
