"""What the wording of the contexts covers of a sentence, each measure by hand."""

import math

import pytest

from plumbline.judging.tiers.lexical_features import (
    CHARACTER_MEASURES,
    WORD_MEASURES,
    Finding,
    measure_lexical_features,
)
from tests.doubles.fakes import case_of
from tests.making.cases import load_cases

# -ln(1.05 - share) of no pair, of one half, of all.
NO_PAIR, HALF, ALL = -math.log(1.05), -math.log(0.55), -math.log(0.05)
# Of an English sentence that has nothing in common with a context, and nothing that could be made up.
NOTHING = {**dict.fromkeys(WORD_MEASURES, 0.0), "near_pairs": NO_PAIR}
# Of a Chinese sentence that stands in a context.
CHINESE = load_cases("lexical_features", "chinese")


def _wording(answer: str, *contexts: str) -> Finding:
    (wording,) = measure_lexical_features(case_of(answer, *contexts)).values()
    return wording


def test_runs_of_four_characters_found_anywhere_and_in_the_best_sentence() -> None:
    wording = _wording("Keeper lamp.", "Keeper sleeps. Lamp burns.")

    # " keeper lamp " has ten runs. " keeper sleeps " holds five (" kee" to "per "), " lamp burns " three (" lam" to
    # "amp "): (8/10 + 5/10) / 2.
    assert wording.measures["character_coverage"] == pytest.approx(0.65)
    assert (wording.rows, wording.is_whole) == ((0,), False)


def test_every_measure_of_an_english_sentence() -> None:
    wording = _wording("Keeper Orwin lit 14 lamps.", "The keeper lit the lamps.")

    # " keeper orwin lit 14 lamps " has 24 runs; found are five of " keeper ", two of " lit ", four of " lamps ".
    # Neighbours are keeper and Orwin, Orwin and lit, lit and 14, 14 and lamps: none stands in the context.
    assert wording.measures == pytest.approx(
        {**NOTHING, "character_coverage": 11 / 24, "unknown_names": 1.0, "unknown_numbers": 1.0}
    )
    assert tuple(wording.measures) == WORD_MEASURES
    assert (wording.unknown_names, wording.unknown_numbers) == (("Orwin",), ("14",))


def test_a_sentence_that_stands_in_the_contexts_has_all_of_everything() -> None:
    wording = _wording("The keeper lit 14 lamps.", "It was dark. The keeper lit 14 lamps.", "The gate.")

    assert wording.measures == pytest.approx({**NOTHING, "character_coverage": 1.0, "near_pairs": ALL})
    assert (wording.rows, wording.is_whole, wording.unknown_numbers) == ((1,), True, ())


def test_a_sentence_without_anything_in_common_has_nothing() -> None:
    wording = _wording("Orwin fishes cod.", "The lamp burns.")

    assert wording.measures == pytest.approx(NOTHING)
    assert (wording.rows, wording.is_whole) == ((), False)


def test_the_last_pairs_weigh_more_than_the_first() -> None:
    assert _wording("Keeper lights rope.", "Keeper lights lamp.").measures["near_pairs"] == pytest.approx(HALF)


def test_relations_written_as_one_word_are_words() -> None:
    wording = _wording("Keld cityServed Harrow.", "Keld: city served, Harrow.")

    assert wording.measures["character_coverage"] == 1.0
    assert wording.measures["near_pairs"] == pytest.approx(ALL)
    assert wording.unknown_names == ()


def test_beyond_a_few_one_more_name_or_number_says_nothing_new() -> None:
    wording = _wording("It fed Keld, Orwin, Harrow, Dunmere and 14, 15, 16 mills.", "The dam fed mills.")

    assert (wording.measures["unknown_names"], wording.measures["unknown_numbers"]) == (3.0, 2.0)
    assert wording.unknown_names == ("Keld", "Orwin", "Harrow", "Dunmere")
    assert wording.unknown_numbers == ("14", "15", "16")


def test_runs_of_four_words_tell_copied_text() -> None:
    other = " ".join(f"word{number}" for number in range(200))
    copied = "the keeper lit the old lamp of the stone tower before the storm"
    changed = copied.replace("old", "new")

    # Of the ten runs of four words in thirteen, four hold the changed word.
    assert _wording(f"{changed}.", f"{copied}.", other).copied == 0.6
    assert _wording(f"{copied}.", f"{copied}.", other).copied == 1.0
    assert _wording("The keeper lit the old lamp.", f"{copied}.").copied == 1.0
    assert _wording("Orwin fishes in Dunmere today.", f"{copied}.").copied == 0.0


def test_each_checkable_sentence_is_measured() -> None:
    measured = measure_lexical_features(
        case_of("# Lamps\n\nThe lamp burns. I don't know. Orwin fishes.", "The lamp burns.")
    )

    assert [measured[at].measures["character_coverage"] for at in sorted(measured)] == [1.0, 0.0]
    assert len(measured) == 2


def test_an_answer_without_a_checkable_sentence_has_no_wording() -> None:
    assert measure_lexical_features(case_of("---", "The lamp burns.")) == {}


def test_without_contexts_nothing_is_covered() -> None:
    wording = _wording("The keeper met Orwin 14 times.")

    assert wording.measures == pytest.approx({**NOTHING, "unknown_names": 1.0, "unknown_numbers": 1.0})


@pytest.mark.parametrize("context", ["7", "The dam has 7 gates."])
def test_an_answer_of_one_character_is_found(context: str) -> None:
    assert _wording("7", context).measures["character_coverage"] == 1.0


# --- Chinese


def test_every_measure_of_a_chinese_sentence() -> None:
    wording = _wording("大坝于1987年建成。", "大坝建成。", "1988年完工。")

    # Without 于, the characters are 大, 年, 建, 成 and, counted twice, 坝 and 1987: five of eight in the first context.
    assert wording.measures == pytest.approx({**CHINESE, "characters": 5 / 8, "unknown_numbers": 1.0})
    assert tuple(wording.measures) == CHARACTER_MEASURES
    assert (wording.rows, wording.is_whole, wording.unknown_numbers) == ((0,), False, ("1987年",))


def test_a_chinese_copy_has_all_of_everything() -> None:
    wording = _wording("大坝于1987年建成。", "成建年1987于坝大。", "据说，大坝于1987年建成。")

    # The first context has the same characters; the second the same pairs, and comes first in `rows`.
    assert wording.measures == CHINESE
    assert (wording.rows, wording.is_whole) == ((1,), True)


def test_chinese_numerals_are_the_digits_that_they_stand_for() -> None:
    measures = _wording("保修期为3个月。", "保修期为三个月。").measures

    assert (measures["characters"], measures["unknown_numbers"]) == (1.0, 0.0)


def test_one_chinese_character_counts_by_itself() -> None:
    assert _wording("坝。", "大坝建成。").measures == CHINESE
    assert _wording("湖。", "大坝建成。").measures == {**CHINESE, "characters": 0.0}


@pytest.mark.parametrize(
    ("answer", "names"), load_cases("lexical_features", "a_run_of_uncommon_characters_that_nothing_mentions_is_a_name")
)
def test_a_run_of_uncommon_characters_that_nothing_mentions_is_a_name(answer: str, names: tuple[str, ...]) -> None:
    case = case_of(answer, "大桥由沈维钧设计，建时40℃。", question="潼芜渡口有大桥吗？")
    (wording,) = measure_lexical_features(case).values()

    assert (wording.unknown_names, wording.measures["unknown_names"]) == (names, float(len(names)))


def test_a_common_word_that_overstates_weighs_as_much_as_a_rare_one() -> None:
    # 全 and 都 count twice, as 坝 and 湖: four of eight are found. 可 counts once, 也 not at all: four of five.
    assert _wording("坝湖全都。", "坝湖。").measures["characters"] == 4 / 8
    assert _wording("坝湖可也。", "坝湖。").measures["characters"] == 4 / 5


def test_words_of_other_scripts_are_units_among_characters() -> None:
    wording = _wording("大坝由Keld公司建成。", "大坝由Orwin公司建成。")

    # Eight units, 坝 and Keld counted twice; Keld is not found.
    assert wording.measures == pytest.approx({**CHINESE, "characters": 8 / 10})


@pytest.mark.parametrize("text", ["大坝名为𠀀山。", "Its sign is 𐀀 now.", "大坝名为𠀁山。", "Its sign is 😀x now."])
def test_characters_beyond_the_basic_plane_are_found(text: str) -> None:
    assert _wording(text, text).is_whole


def test_a_rare_character_in_one_context_moves_no_other() -> None:
    assert _wording("大坝很大。", "𠀀山。", "大坝很大。", "山。").rows == (1,)


@pytest.mark.parametrize(
    ("answer", "context", "negation"),
    load_cases("lexical_features", "a_sentence_that_repeats_its_best_passage_but_for_a_negation"),
)
def test_a_sentence_that_repeats_its_best_passage_but_for_a_negation(
    answer: str, context: str, negation: float
) -> None:
    assert _wording(answer, context).measures["negation"] == negation


def test_no_negation_where_an_equal_passage_agrees() -> None:
    wording = _wording("The lamp does not burn.", "The lamp does burn. Often not.", "The lamp does not burn.")

    assert wording.measures["negation"] == 0.0
