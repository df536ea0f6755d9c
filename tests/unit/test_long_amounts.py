"""Amounts of long texts are read piece by piece."""

import pytest

from plumbline.ground.deadline import work_deadline
from plumbline.ground.errors import TierFailure
from plumbline.judging.quantities.comparison import facts_in, missing
from plumbline.judging.quantities.reader import read_amounts
from plumbline.judging.text.words import pieces


@pytest.mark.parametrize("unit", ["The dam is 94 metres high. ", "word ", "大坝很高。", "x", "line\n"])
def test_pieces_are_the_text_and_end_where_a_line_sentence_or_word_does(unit: str) -> None:
    text = unit * (50_000 // len(unit))

    found = list(pieces(text))

    assert "".join(found) == text
    assert max(map(len, found)) <= 20_000
    assert len(found) > 1


def test_a_short_text_is_one_piece() -> None:
    assert list(pieces("")) == [""]
    assert list(pieces("The dam is 94 metres high.")) == ["The dam is 94 metres high."]


def test_amounts_are_found_at_both_ends_of_a_long_text() -> None:
    facts = facts_in(f"It weighs 12 tonnes. {'It is grey. ' * 5_000} It was built on 3 May 1931.")

    assert not missing(read_amounts("It weighs 12 tonnes, built on 3 May 1931."), facts)
    assert missing(read_amounts("It weighs 13 tonnes."), facts)


def test_reading_amounts_stops_at_the_deadline() -> None:
    with work_deadline(0.0), pytest.raises(TierFailure, match="timeout"):
        facts_in("It weighs 12 tonnes.")
