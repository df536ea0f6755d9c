"""Tokenization by a model's own tokenizer, without the libraries around the model."""

import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from plumbline.judging.ports.token_vectors import TokenizedTexts

if TYPE_CHECKING:
    from tokenizers import Tokenizer


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
        self._whole = load_tokenizer(definition)
        self._cut = load_tokenizer(definition)
        if most is not None:
            self._cut.enable_truncation(max_length=most)
        self._prefix = prefix
        self._prefix_tokens = self._count_prefix()

    def read(self, texts: Sequence[str]) -> TokenizedTexts:
        """Tokenize the texts, special tokens included. For one thread."""
        whole = [each.ids for each in self._whole.encode_batch_fast([self._prefix + text for text in texts])]
        own = [[token for token in tokens if token not in self.special][self._prefix_tokens :] for tokens in whole]
        is_overlong = [self.most is not None and len(tokens) > self.most for tokens in whole]
        return TokenizedTexts(
            tokens=[
                self._cut.encode(self._prefix + text).ids if is_cut else tokens
                for text, tokens, is_cut in zip(texts, whole, is_overlong, strict=True)
            ],
            counts=list(map(len, own)),
            unknown=[tokens.count(self.unknown) if self.unknown is not None else 0 for tokens in own],
            is_overlong=is_overlong,
        )

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
