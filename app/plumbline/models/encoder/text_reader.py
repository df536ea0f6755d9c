"""Tokenization by a model's own tokenizer, without the libraries around the model."""

import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from plumbline.ground.bounded_cache import BoundedCache
from plumbline.judging.ports.token_vectors import TokenizedTexts

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

# Tokens, how many of them are of the text, how many of those are unknown, whether the text was cut.
_TextReading = tuple[list[int], int, int, bool]

# Texts of which the tokens are kept, 1 to 2 kB each, and how long they may be, in characters.
_KEPT = 10_000
_LONGEST_KEPT = 1_000


class TextReader:
    """A tokenizer and the roles of its tokens in the model.

    Args:
        definition: the tokenizer as JSON (`tokenizer.json`).
        special: ids that stand for no text (beginning, end, padding); not that of unknown words.
        unknown: the id of unknown words, None where no word is unknown.
        most: tokens that the model reads of a text, special ones among them; None for no limit.
        prefix: put before every text; its tokens are read with the text and are no part of it.
    """

    def __init__(
        self,
        definition: str,
        *,
        special: Collection[int],
        unknown: int | None,
        most: int | None,
        prefix: str = "",
    ) -> None:
        self.definition = definition
        self.special = frozenset(special)
        self.unknown = unknown
        self.most = most
        self._lately: BoundedCache[tuple[str, str], _TextReading] = BoundedCache(_KEPT, lambda _: 1)
        self._whole = load_tokenizer(definition)
        self._cut = load_tokenizer(definition)
        if most is not None:
            self._cut.enable_truncation(max_length=most)
        self._prefix = prefix
        self._prefix_tokens = self._count_prefix()

    def read(self, texts: Sequence[str], scope: str = "") -> TokenizedTexts:
        """Tokenize the texts, special tokens included; those lately read for the scope are kept. For one thread."""
        known = {text: self._lately.get((scope, text)) for text in texts}
        new = [text for text, reading in known.items() if reading is None]
        encodings = self._whole.encode_batch_fast([self._prefix + text for text in new])
        found = {text: self._reading_of(text, encoding) for text, encoding in zip(new, encodings, strict=True)}
        for text, reading in found.items():
            if len(text) <= _LONGEST_KEPT:
                self._lately.put((scope, text), reading)
        of_texts = [known[text] or found[text] for text in texts]
        return TokenizedTexts(*map(list, zip(*of_texts, strict=True))) if of_texts else TokenizedTexts([], [], [], [])

    def _reading_of(self, text: str, encoding: "Encoding") -> "_TextReading":
        tokens = encoding.ids
        own = [token for token in tokens if token not in self.special][self._prefix_tokens :]
        unknown = own.count(self.unknown) if self.unknown is not None else 0
        is_overlong = self.most is not None and len(tokens) > self.most
        read = self._cut.encode(self._prefix + text).ids if is_overlong else tokens
        return read, len(own), unknown, is_overlong

    def _count_prefix(self) -> int:
        if not self._prefix:
            return 0
        encoding, end = self._whole.encode(f"{self._prefix}a"), len(self._prefix.rstrip())
        return sum(0 < stop <= end for _, stop in encoding.offsets)

    def wanted_places(self, tokens: Sequence[int]) -> list[int]:
        """Return the places of the text's own tokens, neither special nor of the prefix; all, if there are none."""
        own = [place for place, token in enumerate(tokens) if token not in self.special][self._prefix_tokens :]
        return own or list(range(len(tokens)))


def load_tokenizer(definition: str) -> "Tokenizer":
    """Build a tokenizer that neither cuts nor pads from its JSON (`tokenizer.json`)."""
    # A pool of threads for a few dozen sentences costs more than it gives, and two pools share two cores badly.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from tokenizers import Tokenizer  # noqa: PLC0415  # a process without a local model has no need of it

    tokenizer = Tokenizer.from_str(definition)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
