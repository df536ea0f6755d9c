"""Columns of texts: where they change and what their fingerprints are, whatever their lengths."""

import numpy as np
import pytest

from plumbline.retrieval.run import WORD_BYTES, TextColumn, fingerprint

TEXTS = ["a", "a", "b", "12345678", "12345678", "123456789", "12345678x", "x" * 100, "x" * 100, "x" * 99 + "y", "a", ""]


def column_of(texts: list[str]) -> TextColumn:
    data = [text.encode() for text in texts]
    ends = np.cumsum([len(each) for each in data])
    lengths = np.array([len(each) for each in data])
    buffer = np.frombuffer(b"".join(data) + bytes(WORD_BYTES), dtype=np.uint8)
    return TextColumn(buffer, ends - lengths, lengths)


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[::-1], ["é" * 9, "é" * 9, "é" * 8 + "è"], ["one"]])
def test_changes_and_fingerprints_are_those_of_the_texts(texts: list[str]) -> None:
    column = column_of(texts)

    assert column.changes().tolist() == [row for row in range(1, len(texts)) if texts[row] != texts[row - 1]]
    assert column.fingerprints().tolist() == [fingerprint(text) for text in texts]


def test_one_long_text_does_not_have_the_short_ones_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    words = TextColumn.words

    def counted(self: TextColumn, skipped: int, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        found = words(self, skipped, rows)
        read.append(len(found))
        return found

    monkeypatch.setattr(TextColumn, "words", counted)
    column = column_of([*["short"] * 1_000, "x" * 8_000, "x" * 8_000])

    column.changes()
    column.fingerprints()

    # The bytes in words, a few times over, where every row for every word would be a million.
    assert sum(read) < 10_000
