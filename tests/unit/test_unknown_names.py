"""Names that the contexts do not have."""

import pytest

from plumbline.judging.text.names import KnownNames
from plumbline.judging.text.words import split_words
from plumbline.judging.tiers.lexical_features import measure_lexical_features
from tests.doubles.fakes import case_of
from tests.making.cases import load_cases


def test_german_nouns_are_no_names() -> None:
    context = "Der Kessel fasst 1,7 Liter und schaltet sich nach dem Kochen ab."

    text = "Das Gerät hat ein Fassungsvermögen von 1,7 Litern."
    assert KnownNames(frozenset(split_words(context).every), [context]).find_unknown(text) == ()


def test_two_german_nouns_side_by_side_are_a_name_unless_one_is_known() -> None:
    context = "Seit 2015 leitet die Firma der Sohn von Jens Albers, und sie ist in der Stadt am Rhein."
    known = KnownNames(frozenset(split_words(context).every), [context])

    assert known.find_unknown("Heute leitet Markus Brandt den Betrieb.") == ("Markus", "Brandt")
    assert known.find_unknown("Heute leitet Jens Albers den Betrieb, bis Ende März.") == ()


def test_a_name_has_a_capital_of_any_script() -> None:
    assert _names("Мост построил Иван Соколов.", "мост", "построил") == ("Иван", "Соколов")
    assert _names("The bridge is by Élise Öberg.", "bridge") == ("Élise", "Öberg")


def _names(text: str, *known: str) -> tuple[str, ...]:
    return KnownNames(frozenset(known), []).find_unknown(text)


@pytest.mark.parametrize(("text", "names"), load_cases("unknown_names", "names_are_capitalised_words_behind_the_first"))
def test_names_are_capitalised_words_behind_the_first(text: str, names: tuple[str, ...]) -> None:
    assert _names(text) == names


@pytest.mark.parametrize("text", ["It fed Keld.", "It fed Keld's mill.", "It fed KELD."])
def test_a_name_is_known_as_the_word_that_it_is(text: str) -> None:
    assert _names(text, "keld") == ()


def test_a_name_of_several_words_is_known_with_all_of_them() -> None:
    assert _names("Call McOrwin.", "mc", "orwin") == ()
    assert _names("Call McOrwin.", "mc") == ("McOrwin",)


@pytest.mark.parametrize(("text", "context"), load_cases("unknown_names", "a_name_is_known_in_another_form"))
def test_a_name_is_known_in_another_form(text: str, context: str) -> None:
    assert KnownNames(frozenset(split_words(context).every), [context]).find_unknown(text) == ()


@pytest.mark.parametrize(("text", "context"), load_cases("unknown_names", "a_name_has_more_than_one_wording"))
def test_a_name_has_more_than_one_wording(text: str, context: str) -> None:
    known = KnownNames(frozenset(split_words(context).every), [context], answer=text)

    assert known.find_unknown(text) == ()


@pytest.mark.parametrize(("text", "context", "names"), load_cases("unknown_names", "another_name_is_not"))
def test_another_name_is_not(text: str, context: str, names: tuple[str, ...]) -> None:
    assert KnownNames(frozenset(split_words(context).every), [context]).find_unknown(text) == names


def test_a_name_of_the_question_is_not_made_up() -> None:
    case = case_of("It was Orwin and Keld.", "The keeper lit it.", question="Did Orwin light it?")

    (features,) = measure_lexical_features(case).values()

    assert features.unknown_names == ("Keld",)


@pytest.mark.parametrize("text", ["Use `load_rows(path)`.", "load_rows reads it.", "Pass --dry-run.", "Set maxRows."])
def test_an_identifier_is_a_name_wherever_it_stands(text: str) -> None:
    assert len(KnownNames(frozenset({"rows", "path"}), ["rows of a path"]).find_unknown(text)) == 1


@pytest.mark.parametrize("text", ["Use `load_rows(path)`.", "Pass --dry-run.", "Set maxRows and MAX_ROWS."])
def test_an_identifier_is_known_as_it_stands_or_by_its_words(text: str) -> None:
    context = "Call load_rows, --dry-run; the max of rows."

    assert KnownNames(frozenset(split_words(context).every), [context]).find_unknown(text) == ()


def test_a_unit_behind_a_number_is_no_name() -> None:
    assert _names("It bears 900 MPa at 50 Hz in Keld.") == ("Keld",)
