"""Names and numbers that the contexts do not have."""

import pytest

from plumbline.judging.text.words import split_words
from plumbline.judging.tiers.lexical_features import unknown_names, unknown_numbers


def _names(text: str, *known: str) -> tuple[str, ...]:
    return unknown_names(text, frozenset(known))


def _numbers(text: str, *known: str) -> tuple[str, ...]:
    return unknown_numbers(split_words(text), frozenset(known))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The keeper Orwin met Anna Keld.", ("Orwin", "Anna", "Keld")),
        ("Orwin met the keeper.", ()),  # the first word of a sentence has a capital anyway
        ("“Orwin met Keld.”", ("Keld",)),
        ("KELD is a dam.", ()),  # nor is a part of the first word a name
        ("The dam of Keld, near Keld.", ("Keld",)),
        ("The dams of Keld’s valley and O'Hara's mill.", ("Keld’s", "O'Hara")),
        ("He met Jean-Luc.", ("Jean", "Luc")),
        ("It is The plan B.", ()),  # a stopword, a single letter
        ("The river fed NASA2 and iPhone.", ("NASA2",)),
        ("The dam is old.", ()),
        ("大坝名为Keld。", ()),
        ("42", ()),
        ("", ()),
    ],
)
def test_names_are_capitalised_words_behind_the_first(text: str, names: tuple[str, ...]) -> None:
    assert _names(text) == names


@pytest.mark.parametrize("text", ["It fed Keld.", "It fed Keld's mill.", "It fed KELD."])
def test_a_name_is_known_as_the_word_that_it_is(text: str) -> None:
    assert _names(text, "keld") == ()


def test_a_name_of_several_words_is_known_with_all_of_them() -> None:
    assert _names("Call McOrwin.", "mc", "orwin") == ()
    assert _names("Call McOrwin.", "mc") == ("McOrwin",)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("It has 14 gates and 3.5 km of rope.", ("14", "3.5")),
        ("It has 14 gates, 14 in all.", ("14",)),
        ("It has three gates and Twenty lamps.", ("3", "20")),
        ("It has one gate.", ()),  # more often a pronoun
        ("It cost 1,000 crowns.", ("1000",)),
        ("The 2nd gate of B12.", ("2", "12")),
        ("大坝有42米高。", ("42",)),
        ("大坝有３个门。", ("3",)),
        ("The dam is old.", ()),
        ("", ()),
    ],
)
def test_numbers_are_in_digits_or_in_letters_from_two_to_twenty(text: str, numbers: tuple[str, ...]) -> None:
    assert _numbers(text) == numbers


@pytest.mark.parametrize(
    ("text", "known"),
    [("14 gates", "14"), ("14 gates", "fourteen"), ("fourteen gates", "14"), ("fourteen gates", "fourteen")],
)
def test_a_number_is_known_in_either_form(text: str, known: str) -> None:
    assert _numbers(text, known) == ()


def test_part_of_a_number_is_another_number() -> None:
    assert _numbers("14 gates", "140", "1", "4", "14.0") == ("14",)
