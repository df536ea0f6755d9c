"""Texts that crashed a parser once, or took the square of their length: found by fuzzing, each mended."""

import sys
import unicodedata
from collections.abc import Callable
from types import FrameType
from typing import Any

import json_repair
import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.judging.judge.evidence.quotes import Quote, fold, plain, strip_markup
from plumbline.judging.judge.evidence.search import EvidenceSearch
from plumbline.judging.judge.replies import read_sentences
from plumbline.judging.quantities.comparison import facts_in, missing
from plumbline.judging.quantities.reader import read_amounts
from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.words import Passage, is_mark, nfkc
from plumbline.retrieval.text_file import ReadLimits
from plumbline.retrieval.trec import read_run

LIMITS = ReadLimits(max_bytes=10_000, max_rows=100)
# Instructions of Python carried out for a text of 20,000 characters by what reads each some times.
MAX_LINES = 20_000 * 60


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python the work runs."""
    total = 0

    def watch(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal total
        total += event == "line"
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        work()
    finally:
        sys.settrace(before)
    return total


def test_a_quoted_line_may_go_on_with_blanks_of_other_kinds() -> None:
    text = "A" * 70 + "\n> " + "\u00a0" * 130 + "Word here"

    assert [sentence.text[-9:] for sentence in split_sentences(text)] == ["AAAAAAAAA", "Word here"]


@pytest.mark.parametrize("text", ["\u0664 may 2020", "may \u0664", "2020-\u0664-\u0661", "\u0663 月 \u0664 日"])
def test_dates_may_be_written_with_the_digits_of_any_script(text: str) -> None:
    assert not missing(read_amounts(text), facts_in(text))


def test_the_digits_of_other_scripts_are_those_of_ours() -> None:
    assert not missing(read_amounts("4 may 2020"), facts_in("\u0664 may 2020"))


def test_a_number_beyond_what_a_float_holds_is_a_number() -> None:
    endless = "1" * 400

    stated = read_amounts(f"{endless} km and 3")

    assert not missing(stated, facts_in(f"{endless} km and 3"))
    assert missing(stated, facts_in("2 km"))


def test_a_line_that_ends_with_a_blank_instead_of_its_last_field_is_refused() -> None:
    for data in (b"q1 1 Q0 d2 2 ", b"q Q0 d 1 2 t\nq Q0 e 1 2 "):
        with pytest.raises(InvalidInput, match="found 5"):
            read_run(data, name="f", limits=LIMITS)


def test_marks_in_the_wrong_order_are_sorted_a_few_at_a_time() -> None:
    # Sorted by insertion, all at once, they would take days.
    text = "a" + "\u0301" * 1_000_000 + "\u0323" * 1_000_000 + "\uff9e" * 1_000_000

    assert len(nfkc(text)) > 2_900_000


def test_no_mark_of_unicode_is_overlooked() -> None:
    marks = [character for character in map(chr, range(sys.maxunicode + 1)) if is_mark(character)]

    assert len(marks) > 900
    # Each with itself 30 times over is put in order apart from what follows.
    assert all(nfkc(mark * 30 + "\u0323") == unicodedata.normalize("NFKC", mark * 30) + "\u0323" for mark in marks)


@pytest.mark.parametrize(
    "text", ["e\u0323\u0301" * 20, "a\u0301\u0323 b", "ﬁ", "\uff9e\u0301", "한국", "x" + "\u0301\u0323" * 14]
)
def test_the_marks_that_languages_need_are_sorted_as_unicode_says(text: str) -> None:
    assert nfkc(text) == unicodedata.normalize("NFKC", text)


def test_long_runs_of_blanks_in_a_quote_are_gone_over_once() -> None:
    # Gone over from each of them, 400,000 blanks would take minutes.
    quote = "the dam was" + " " * 400_000 + "built"

    assert Quote(quote[:4_000]).parts == ()
    assert EvidenceSearch(["the dam was built"]).locate(quote) is not None


def test_a_torn_string_of_escapes_is_read_once() -> None:
    # Read from each of its quotes, 200,000 escapes would take hours.
    reading = read_sentences('{"sentences": [{"id": 1, "claims": "' + '\\"' * 200_000 + "\\", [1])

    assert reading.claims == {}


def test_only_short_items_are_mended_and_few_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    loads = json_repair.loads

    def watched(text: str, *, skip_json_loads: bool) -> object:
        seen.append(text)
        return loads(text, skip_json_loads=skip_json_loads)

    monkeypatch.setattr(json_repair, "loads", watched)
    broken = "{'id': %d, 'claims': [{'verdict': 'supported', 'claim': '%s'}]}"
    items = [broken % (number, "x" * 400) for number in range(1, 101)] + [broken % (101, "y" * 4_000)]

    reading = read_sentences('{"sentences": [' + ", ".join(items) + "]}", range(1, 102))

    assert sum(map(len, seen)) <= 20_000
    assert sorted(reading.claims) == list(range(1, len(seen) + 1))
    assert 101 not in reading.claims


def test_a_broken_item_leaves_the_others_as_they_are() -> None:
    broken, whole = '{"id": 1, "claims": [{"verdict": "supported",}]}', '{"id": 2, "claims": [{"verdict": "partial"}]}'
    content = f'{{"sentences": [{broken}, {whole}]}}'

    reading = read_sentences(content, [1, 2])

    assert {number: claims[0].verdict.value for number, claims in reading.claims.items()} == {
        1: "supported",
        2: "partial",
    }
    assert reading.flags == ("repaired_reply",)


@pytest.mark.parametrize("unit", ["|", "*a", "&amp;", "\\*", "<!--", "1 may ", "10:30 ", "3 may 1999, "])
def test_cuts_are_made_all_at_once(unit: str) -> None:
    # Text copied for each cut shows in no count of lines: 1 MB for each of 100,000 would take a minute.
    text = unit * (200_000 // len(unit))

    fold(strip_markup(plain(text)))
    assert lines_run(lambda: read_amounts(text[:4_000])) < MAX_LINES


def test_amounts_are_looked_up_not_gone_through() -> None:
    facts = facts_in(" ".join(f"{number} kg" for number in range(2_000, 4_000)))
    claim = read_amounts(", ".join(f"{number} km" for number in range(2_000, 2_500)))

    found: list[object] = []
    lines = lines_run(lambda: found.append(missing(claim, facts)))

    assert len(claim.amounts) == 500
    # Each with each would be a million.
    assert lines < 100_000
    assert found == [claim]


def test_dates_are_looked_up_not_gone_through() -> None:
    days = [f"{day} {month} {year}" for year in range(1900, 1950) for month in ("may", "june") for day in range(1, 11)]
    facts, claim = facts_in(", ".join(days)), read_amounts(", ".join(day.replace("19", "20") for day in days[::2]))

    lines = lines_run(lambda: missing(claim, facts))

    assert len(claim.dates) == 500
    assert lines < 100_000


def test_a_long_passage_is_searched_for_so_many_copies_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plumbline.judging.text.words._MAX_CHARACTERS_SEARCHED", 300)
    passage = Passage("a" * 98)

    assert [passage.contains("a" * 98) for _ in range(4)] == [True, True, True, False]


def test_copies_are_found_where_words_and_characters_meet() -> None:
    passage = Passage("大坝建成于1932年, abc abcd the dam was built in 1932 and in 19321 again")
    copies = ["大坝", "1932年", "abc", "the dam was built", "in 1932 and", "again", "坝"]
    others = ["ab", "bcd", "in 193", "am was built", "a gain", "dam  is", "x"]

    assert [part for part in copies if passage.contains(part)] == copies
    assert [part for part in others if passage.contains(part)] == []


def test_markup_of_a_long_text_is_taken_out_piece_by_piece() -> None:
    line = "The *old* dam is [here](https://a.example/b) &amp; 94 metres high.[1]\n"

    stripped = strip_markup(plain(line * 2_000))

    assert stripped.text == strip_markup(plain(line)).text * 2_000
    assert stripped.place(0, 3) == (0, 3)
