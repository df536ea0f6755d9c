"""Texts as the tokens of a model, read by its own tokenizer without the libraries around the model."""

import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from app.token_vectors import Reading

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class TextReader:
    """A tokenizer and what the model makes of its tokens.

    Args:
        definition: the tokenizer as JSON (`tokenizer.json`).
        special: ids that stand for no text (beginning, end, padding); not that of unknown words.
        unknown: the id of unknown words, None where no word is unknown.
        most: tokens that the model reads of a text, special ones among them; None for no limit.
    """

    def __init__(self, definition: str, *, special: Collection[int], unknown: int | None, most: int | None) -> None:
        # A pool of threads for a few dozen sentences costs more than it gives, and two pools share two cores badly.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self.definition = definition
        self.special = frozenset(special)
        self.unknown = unknown
        self.most = most
        self._whole = _tokenizer(definition)
        self._cut = _tokenizer(definition)
        if most is not None:
            self._cut.enable_truncation(max_length=most)

    def read(self, texts: Sequence[str]) -> Reading:
        """The texts' tokens, special ones among them."""
        tokens = [encoding.ids for encoding in self._whole.encode_batch_fast(list(texts))]
        counts = [sum(token not in self.special for token in row) for row in tokens]
        unknown = [row.count(self.unknown) if self.unknown is not None else 0 for row in tokens]
        is_overlong = [self.most is not None and len(row) > self.most for row in tokens]
        for row, long in enumerate(is_overlong):
            if long:
                tokens[row] = self._cut.encode(texts[row]).ids
        return Reading(tokens, counts, unknown, is_overlong)

    def spoken(self, tokens: Sequence[int]) -> list[int]:
        """Places of the tokens that are not special; of all, where there are no others."""
        return [place for place, token in enumerate(tokens) if token not in self.special] or list(range(len(tokens)))


def _tokenizer(definition: str) -> "Tokenizer":
    from tokenizers import Tokenizer  # noqa: PLC0415  # a process without tier embedding has no need of it

    tokenizer = Tokenizer.from_str(definition)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
