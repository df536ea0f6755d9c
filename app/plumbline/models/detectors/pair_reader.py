"""Premise and claim as a detector's tokens: windows of the premise that fit, and where the claim's tokens are."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plumbline.judging.ports.exchange import Passage
from plumbline.judging.ports.token_vectors import TokenizedTexts
from plumbline.models.detectors.description import Description

# Two texts joined may have a token more than apart, at each seam.
_SEAM_TOKENS = 4
# A claim has no more of what the model reads, so that its premise has room.
_CLAIM_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Question:
    """Tokens of one premise and claim; where the model marks words, `places` of the claim's with their characters."""

    tokens: list[int]
    places: tuple[tuple[int, int, int], ...]


def _read_part(passage: Passage) -> str:
    if not passage.sentences:
        return passage.text
    return passage.text[passage.sentences[0][0] : passage.sentences[-1][1]]


class PairReader:
    """A `tokenizers.Tokenizer`, and the description's templates; in a caller's text `specials` are plain words."""

    def __init__(self, tokenizer: Any, description: Description, *, specials: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._description = description
        self.most: int | None = description.max_tokens
        self._limit = description.max_tokens
        self._special = re.compile("|".join(map(re.escape, specials))) if specials else None

    def read(self, texts: Sequence[str]) -> TokenizedTexts:
        """Tokenize texts that are no pairs, for a model that is warmed up."""
        tokens = [self._tokenizer.encode(text).ids[: self._limit] for text in texts]
        counts = [len(each) for each in tokens]
        return TokenizedTexts(tokens, counts, [0] * len(tokens), [False] * len(tokens))

    def wanted_places(self, tokens: Sequence[int]) -> list[int]:
        """Return the places whose numbers are kept: all, or the first alone."""
        return list(range(len(tokens))) if self._description.head == "tokens" else [0]

    def fit_claim(self, claim: str) -> str:
        """Return the claim, or so much of its beginning as leaves room for a premise."""
        offsets = self._tokenizer.encode(claim, add_special_tokens=False).offsets
        room = int(self._limit * _CLAIM_SHARE)
        return claim if len(offsets) <= room else claim[: offsets[room - 1][1]]

    def windows(self, passages: Sequence[Passage], question: str, claim: str) -> list[list[str]]:
        """Return the passages, in as many parts as the model needs to read all of them, each cut between sentences."""
        frame = len(self.ask([""], question, claim).tokens) + _SEAM_TOKENS
        room = max(16, self._limit - frame)
        if self._description.chunk_tokens is not None:
            room = min(room, self._description.chunk_tokens)
        # One reading of the whole costs a tenth of one reading for each sentence.
        whole = [_read_part(passage) for passage in passages]
        if len(self.ask(whole, question, claim).tokens) <= frame + room:
            return [whole]
        extra = self.count(self._description.numbered.replace("{text}", "")) + self.count(self._description.joined)
        pieces = [piece for passage in passages for piece in self._pieces(passage, room - extra - _SEAM_TOKENS)]
        windows: list[list[tuple[int, int, int]]] = []
        left = 0
        for context, start, end, tokens in pieces:
            is_next = bool(windows) and windows[-1][-1][0] == context
            needed = tokens + (0 if is_next else extra + _SEAM_TOKENS)
            if not windows or needed > left:
                windows.append([])
                left, is_next, needed = room, False, tokens + extra + _SEAM_TOKENS
            left -= needed
            if is_next:
                windows[-1][-1] = (context, windows[-1][-1][1], end)
            else:
                windows[-1].append((context, start, end))
        text_of = {passage.number: passage.text for passage in passages}
        return [[text_of[context][start:end] for context, start, end in window] for window in windows]

    def ask(self, window: Sequence[str], question: str, claim: str) -> Question:
        plain = [self._plain(text) for text in window]
        first, second = self._description.premise(plain, self._plain(question), self._plain(claim))
        encoding = self._tokenizer.encode(first, second)
        if not self._description.marks_words:
            return Question(encoding.ids, ())
        places = tuple(
            (place, start, end)
            for place, (sequence, (start, end)) in enumerate(zip(encoding.sequence_ids, encoding.offsets, strict=True))
            if sequence == 1 and end > start
        )
        return Question(encoding.ids, places)

    def _pieces(self, passage: Passage, room: int) -> list[tuple[int, int, int, int]]:
        """Return a passage's sentences with their tokens, those that are too long cut: none is left out."""
        room, pieces = max(8, room), []
        for start, end in passage.sentences or ((0, len(passage.text)),):
            offsets = self._tokenizer.encode(passage.text[start:end], add_special_tokens=False).offsets
            if len(offsets) <= room:
                pieces.append((passage.number, start, end, len(offsets)))
                continue
            for at in range(0, len(offsets), room):
                part = offsets[at : at + room]
                pieces.append((passage.number, start + part[0][0], start + part[-1][1], len(part)))
        return pieces

    def count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _plain(self, text: str) -> str:
        """Break the special tokens in a caller's text, length kept: it cannot end the premise."""
        if self._special is None:
            return text
        return self._special.sub(lambda found: " " + found[0][1:], text)
