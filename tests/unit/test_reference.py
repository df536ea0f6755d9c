"""Agreement with a reference answer: after SQuAD, and by n-grams."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.judging.judge.metrics import MetricResult, MetricStatus, find_metrics
from plumbline.judging.text.reference import MOST_CHARACTERS, bleu, chrf, exact_match, gleu, token_f1, token_set_f1
from plumbline.judging.text.sample import Sample
from tests.making.cases import load_cases


@pytest.mark.parametrize(
    ("answer", "reference"),
    load_cases("reference", "case_articles_punctuation_width_and_white_space_do_not_matter_to_an_exact_match"),
)
def test_case_articles_punctuation_width_and_white_space_do_not_matter_to_an_exact_match(
    answer: str, reference: str
) -> None:
    assert exact_match(answer, reference) == 1.0


@pytest.mark.parametrize(
    ("answer", "reference"), [("Eiffel Tower", "Tower Eiffel"), ("Paris", "Paris France"), ("大坝", "坝大"), ("", "x")]
)
def test_other_words_or_another_order_are_no_exact_match(answer: str, reference: str) -> None:
    assert exact_match(answer, reference) == 0.0


@pytest.mark.parametrize(("answer", "reference", "f1"), load_cases("reference", "token_f1_equals_the_hand_calculation"))
def test_token_f1_equals_the_hand_calculation(answer: str, reference: str, f1: float) -> None:
    assert token_f1(answer, reference) == pytest.approx(f1)


def test_a_repeated_word_counts_as_often_as_the_other_text_has_it() -> None:
    # dam dam dam / dam dam lake: common min(3, 2) = 2; precision 2/3, recall 2/3, F1 2/3. Sets would give 2 * .5 / 1.5.
    assert token_f1("dam dam dam", "dam dam lake") == pytest.approx(2 / 3)


def test_the_token_f1_of_sets_is_seed_1s() -> None:
    # "no no" twice: one common word of two, precision and recall 1/2. dam dam dam / dam dam lake: 1/3 and 1/3.
    assert token_set_f1(["no", "no"], ["no", "no"]) == pytest.approx(1 / 2)
    assert token_set_f1(["dam"] * 3, ["dam", "dam", "lake"]) == pytest.approx(1 / 3)
    assert token_set_f1(["a"], ["b"]) == 0.0


def test_chinese_is_compared_by_character() -> None:
    # 北京市 / 北京: common 2; precision 2/3, recall 2/2: 2 * (2/3) / (5/3) = 0.8.
    assert token_f1("北京市", "北京。") == pytest.approx(0.8)


def test_latin_words_beside_han_are_words() -> None:
    # gpt4 是 模 型 / gpt4 模 型: common 3; precision 3/4, recall 1: 2 * .75 / 1.75 = 6/7.
    assert token_f1("GPT-4是模型", "GPT4 模型") == pytest.approx(6 / 7)


def test_an_article_within_a_word_stays() -> None:
    assert exact_match("theatre", "atre") == 0.0


# --- n-grams

CAT = ["the", "cat", "is", "on", "the", "mat"]
SAT = ["the", "cat", "sat", "on", "the", "mat"]
WORDS = st.lists(st.sampled_from(["the", "cat", "dam", "大", "坝", "1932", "is", "of"]), min_size=1, max_size=12)


def test_bleu_equals_the_hand_calculation() -> None:
    # 5 of 6 words, 3 of 5 pairs, 1 of 4 triples ("on the mat"), none of 3 fours: 1/2 of 3. As long: no penalty.
    assert bleu(CAT, SAT) == pytest.approx((5 / 6 * 3 / 5 * 1 / 4 * 1 / 6) ** (1 / 4))


def test_bleu_halves_the_second_missing_order_again_and_lowers_what_is_short() -> None:
    # 4 of 4 words, 1 of 3 pairs (cat is), 0 of 2 triples: 1/2 of 2; 0 of 1: 1/4 of 1. 4 words for 6: exp(1 - 6/4).
    answer = ["mat", "cat", "is", "the"]

    assert bleu(answer, CAT) == pytest.approx((4 / 4 * 1 / 3 * 1 / 4 * 1 / 4) ** (1 / 4) * 2.718281828459045**-0.5)


def test_bleu_clips_a_repeated_word_as_the_papers_example() -> None:
    # Papineni et al. 2002, example 2: "the" seven times has 2 of 7; no pair of 6, no triple of 5, no four of 4.
    product = 2 / 7 * 1 / (2 * 6) * 1 / (4 * 5) * 1 / (8 * 4)

    assert bleu(["the"] * 7, CAT) == pytest.approx(product ** (1 / 4))


def test_chrf_equals_the_hand_calculation() -> None:
    # 北京市 of 北京, F2 = 5PR / (4P + R). Characters: P 2/3, R 1: 10/11. Pairs: P 1/2, R 1: 5/6. No triple in 北京.
    assert chrf(["北", "京", "市"], ["北", "京"]) == pytest.approx((10 / 11 + 5 / 6) / 2)
    # "ab c" is "abc". Characters: P 1, R 2/3: 5/7. Pairs: P 1, R 1/2: 5/9.
    assert chrf(["ab"], ["ab", "c"]) == pytest.approx((5 / 7 + 5 / 9) / 2)


def test_gleu_equals_the_hand_calculation() -> None:
    # 5 words, 3 pairs, 1 triple of 6 + 5 + 4 + 3 in each.
    assert gleu(CAT, SAT) == pytest.approx(9 / 18)
    # 2 of the 7 + 6 + 5 + 4 of the longer one.
    assert gleu(["the"] * 7, CAT) == pytest.approx(2 / 22)


@pytest.mark.parametrize("measure", [bleu, chrf, gleu])
def test_nothing_in_common_is_zero_and_a_text_equals_itself_however_short(
    measure: Callable[[list[str], list[str]], float],
) -> None:
    assert measure(["paris"], ["born"]) < 0.25
    assert measure(["paris"], ["长", "城"]) == pytest.approx(0)
    assert [measure(text, text) for text in (["a"], ["paris"], ["大", "坝"], CAT)] == pytest.approx([1] * 4)


@pytest.mark.parametrize("measure", [bleu, chrf, gleu, token_set_f1])
@given(answer=WORDS, reference=WORDS)
def test_a_comparison_lies_between_zero_and_one(
    measure: Callable[[list[str], list[str]], float], answer: list[str], reference: list[str]
) -> None:
    assert 0.0 <= measure(answer, reference) <= 1.0


def compared(name: str, answer: str, reference: str | None) -> MetricResult:
    (metric,) = find_metrics([name])
    return metric.compare_words(Sample("", ("A context.",), answer, reference))


@pytest.mark.parametrize("name", ["bleu", "chrf", "gleu", "token_set_f1"])
def test_case_marks_citations_width_and_variants_do_not_matter(name: str) -> None:
    assert compared(name, "The cat sat [1].", "the  CAT sat").value == pytest.approx(1)
    assert compared(name, "漢字１９３２年。", "汉字 1932 年").value == pytest.approx(1)


@pytest.mark.parametrize("name", ["bleu", "chrf", "gleu"])
@pytest.mark.parametrize(
    ("answer", "reference", "status", "reason"),
    [
        ("Paris.", None, MetricStatus.NOT_APPLICABLE, "no_reference"),
        ("Paris.", " … ", MetricStatus.NOT_APPLICABLE, "no_reference"),
        ("", "Paris", MetricStatus.NOT_APPLICABLE, "nothing_to_count"),
        ("!!! 。", "Paris", MetricStatus.NOT_APPLICABLE, "nothing_to_count"),
        ("a" * (MOST_CHARACTERS + 1), "a", MetricStatus.NOT_JUDGED, "too_long"),
        ("a", "字" * (MOST_CHARACTERS + 1), MetricStatus.NOT_JUDGED, "too_long"),
    ],
)
def test_a_text_without_words_or_too_long_has_no_value_and_a_reason(
    name: str, answer: str, reference: str | None, status: MetricStatus, reason: str
) -> None:
    assert compared(name, answer, reference) == MetricResult(name, None, status, reason)
