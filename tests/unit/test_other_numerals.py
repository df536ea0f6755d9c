"""Numerals in words of other languages than English and Chinese."""

import pytest

from plumbline.judging.quantities.other_numerals import find_possible, find_stated, names_other_numeral


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("der saal fasst zweihundert gäste", [200]),
        ("der kurs dauert einunddreissig tage", [31]),
        ("le forfait coûte vingt-cinq euros", [25]),
        ("le musée a quatre-vingt-dix-sept salles", [97]),
        ("le musée a deux cents salles et soixante-quinze places", [200, 75]),
        ("treinta y cinco", [35]),
        ("el teatro tiene doscientos veintidós asientos", [222]),
        ("el curso dura quince días", [15]),
        ("il corso dura ventotto giorni e sei ore", [28, 6]),
        ("o curso dura vinte e cinco dias", [25]),
        ("het duurt tweeëntwintig maanden of drieëndertig weken", [22, 33]),
        ("kursen är tjugofem dagar", [25]),
        ("okres próbny trwa trzy miesiące", [3]),
        ("срок длится двадцать пять дней", [25]),
        ("수습 기간은 여섯 달이고 열두 달도 된다", [6, 12]),
        ("십이 개월 동안 삼십 일", [12, 30]),
        ("مدة التجربة خمسة عشر يوما", [15]),
        ("مدة التجربة خمسة وعشرون يوما", [25]),
        ("dos tres cuatro", [3, 4]),
    ],
)
def test_a_claim_is_held_to_numerals_of_its_language(text: str, values: list[float]) -> None:
    assert [numeral.value for numeral in find_stated(text)] == values
    assert set(values) <= set(find_possible(text))
    assert names_other_numeral(text)


@pytest.mark.parametrize(
    "text",
    [
        "it was the elf of trois",
        "it costs 5 cents",
        "sei whales are due once",
        "tu sei il vincitore",
        "le vélo neuf est dans le garage",
        "tres millones",
        "drei viertel",
        "les vingt et un joueurs",
        "이 년은 길다",
        "구분과 구명",
    ],
)
def test_a_word_that_may_be_no_numeral_binds_no_claim(text: str) -> None:
    assert list(find_stated(text)) == []


def test_a_passage_may_mean_the_parts_of_a_numeral_too() -> None:
    assert set(find_possible("quatre-vingt-dix")) == {4, 10, 20, 90}
