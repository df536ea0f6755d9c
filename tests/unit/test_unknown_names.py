"""Names that the contexts do not have."""

import pytest

from plumbline.judging.tiers.lexical_features import unknown_names


def _names(text: str, *known: str) -> tuple[str, ...]:
    return unknown_names(text, frozenset(known))


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
