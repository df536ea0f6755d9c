"""Words of a text as they are compared."""

import hashlib

import pytest

from plumbline.judging.text.words import (
    STOP_WORDS,
    Passage,
    content_words,
    detect_language,
    han_share,
    has_content,
    is_in_a_language,
    nfkc,
    normalise,
    split_characters,
    split_compounds,
    split_words,
)
from tests.making.cases import load_cases


@pytest.mark.parametrize(
    ("text", "expected"), load_cases("words", "normalising_folds_width_case_punctuation_and_white_space")
)
def test_normalising_folds_width_case_punctuation_and_white_space(text: str, expected: str) -> None:
    assert normalise(text) == expected


@pytest.mark.parametrize(("text", "words"), load_cases("words", "these_are_the_content_words_of_a_text"))
def test_these_are_the_content_words_of_a_text(text: str, words: tuple[str, ...]) -> None:
    assert content_words(text) == words


def test_the_words_of_a_text_are_all_of_them_and_those_with_content() -> None:
    words = split_words("The dam of the river.")

    assert words.every == ("the", "dam", "of", "the", "river")
    assert words.content == ("dam", "river")


@pytest.mark.parametrize(("text", "words", "apart"), load_cases("words", "names_of_relations_are_words"))
def test_names_of_relations_are_words(text: str, words: tuple[str, ...], apart: str) -> None:
    assert split_words(text).every == words
    assert split_compounds(text) == apart


@pytest.mark.parametrize(
    ("text", "characters"), load_cases("words", "characters_are_han_one_by_one_and_other_words_whole")
)
def test_characters_are_han_one_by_one_and_other_words_whole(text: str, characters: tuple[str, ...]) -> None:
    assert split_characters(text) == characters


@pytest.mark.parametrize(
    ("text", "has"),
    [("lamp", True), ("The", False), ("the of", False), ("not", True), ("大坝", True), ("的", False), ("", False)],
)
def test_a_word_that_is_no_stopword_is_content(text: str, has: bool) -> None:
    assert has_content(text) is has


def test_of_a_long_text_blanks_and_the_first_ten_thousand_words_are_read_for_content() -> None:
    # Its end costs a tenth of a second more, of a text made to be slow.
    assert has_content(f"{' ' * 100_000}lamp")
    assert not has_content(f"{'( ' * 100_000}the")
    assert not has_content(f"{'the ' * 10_000}lamp")


@pytest.mark.parametrize("negation", ["not", "never", "no", "without", "nobody", "cannot"])
def test_an_english_negation_is_a_content_word(negation: str) -> None:
    assert negation in content_words(f"The dam is {negation} safe.")


@pytest.mark.parametrize(
    ("written", "word"), load_cases("words", "a_number_is_one_word_whatever_its_thousands_separator")
)
def test_a_number_is_one_word_whatever_its_thousands_separator(written: str, word: str) -> None:
    assert word in content_words(f"Keld counted {written}")


@pytest.mark.parametrize("negation", ["不", "无", "别"])
def test_a_chinese_negation_is_a_content_word(negation: str) -> None:
    assert content_words(f"{negation}，大坝") == (negation, "大坝")


@pytest.mark.parametrize(("text", "language"), load_cases("words", "the_language_is_that_of_most_letters"))
def test_the_language_is_that_of_most_letters(text: str, language: str) -> None:
    assert detect_language(text) == language


def test_three_han_characters_of_ten_letters_are_chinese() -> None:
    # 3 / 10 = 0.3, the boundary; 3 / 11 < 0.3.
    assert detect_language("大坝湖abcdefg") == "zh"
    assert detect_language("大坝湖abcdefgh") == "en"


def test_han_share_counts_letters_alone() -> None:
    # 大坝 of 大坝ab: 2 of 4 letters; digits and marks do not count.
    assert han_share("大坝, ab 1234!") == 0.5
    assert han_share("1234") == 0.0


@pytest.mark.parametrize("text", ["a", "坝", "é", "No.", "In 1987", "iPhone 14", "5 kg of rice", "400毫升"])
def test_words_are_in_a_language(text: str) -> None:
    assert is_in_a_language(text)


@pytest.mark.parametrize("text", ["42", "_", "400ml", "~5.5 h", "**400 ml**", "USB-C", "A5", "$5.99", "10:30 am"])
def test_amounts_and_codes_are_in_no_language(text: str) -> None:
    assert not is_in_a_language(text)


@pytest.mark.parametrize(("whole", "part"), load_cases("words", "a_copy_is_found_after_normalisation"))
def test_a_copy_is_found_after_normalisation(whole: str, part: str) -> None:
    assert Passage(whole).contains(part)


@pytest.mark.parametrize(("whole", "part"), load_cases("words", "part_of_a_word_another_word_or_nothing_is_no_copy"))
def test_part_of_a_word_another_word_or_nothing_is_no_copy(whole: str, part: str) -> None:
    assert not Passage(whole).contains(part)


def test_a_passage_is_asked_for_many_texts() -> None:
    passage = Passage("The dam of Keld, built in 1932, is 1.5 km long. 大坝建成了。")

    found = [text for text in ("built in 1932.", "keld", "5 km", "大坝建", "kel", "193", "") if passage.contains(text)]

    assert found == ["built in 1932.", "keld", "5 km", "大坝建"]


def test_a_copy_is_found_behind_longer_words_that_begin_like_it() -> None:
    assert Passage("keldar keldish 凯keld 1.5").contains("Keld")
    assert not Passage("keldar " * 1_000 + "1.5").contains("keld")


def test_the_stop_words_are_the_lists_that_the_scores_were_fitted_with() -> None:
    digests = {
        language: hashlib.sha256(" ".join(sorted(words)).encode()).hexdigest()[:12]
        for language, words in STOP_WORDS.items()
    }

    # Of the lists of scikit-learn 1.9.1 and stop-words 2025.11.4.
    assert {language: len(words) for language, words in STOP_WORDS.items()} == {"english": 318, "chinese": 119}
    assert digests == {"english": "e570e9b41eab", "chinese": "1f4bf380bddb"}


def test_a_sentence_of_megabytes_has_the_words_that_its_parts_have() -> None:
    text = "Dams don't move. 大坝 cityServed 1,200 " * 2_000

    words = split_words(text)

    assert words.every == split_words("Dams don't move. 大坝 cityServed 1,200").every * 2_000
    assert words.content == content_words("Dams don't move. 大坝 cityServed 1,200") * 2_000
    assert nfkc("ﬁn ½ " * 20_000) == "fin 1⁄2 " * 20_000
    assert detect_language(text) == "en"
    assert detect_language("大坝。" * 20_000) == "zh"


def test_no_letter_grows_more_than_sixfold() -> None:
    grown = {code: len(nfkc(chr(code))) for code in range(0x110000) if not 0xD800 <= code < 0xE000}

    assert max(grown.values()) == 6
    assert len(nfkc("\ufdfa" * 1_000)) == 4_000
