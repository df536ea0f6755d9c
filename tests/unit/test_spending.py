"""Estimates that are rather too high than too low, and prices."""

import pytest

from plumbline.ground.judge_settings import ModelPrice
from plumbline.judging.ports.exchange import estimate_tokens
from plumbline.models.chat.call_limits import Tariff
from plumbline.models.chat.completions import NO_TOKENS, TokenCounts


def _tokens(prompt: int, completion: int | None, cached: int | None = None) -> TokenCounts:
    return TokenCounts(
        prompt_tokens=prompt, completion_tokens=completion, prompt_tokens_details={"cached_tokens": cached}
    )


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 1), ("abc" * 100, 101), ("大桥于1931年通车", 6 + 1 + 1), ("é" * 10, 11), ("😀" * 10, 11)],
)
def test_three_latin_characters_or_one_of_another_script_are_a_token(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


def test_a_worst_case_has_no_cached_tokens_and_all_the_output() -> None:
    tariff = Tariff(ModelPrice(input=2, output=8, cached=0.5))

    assert tariff.worst_case(1_000_000, 500_000) == 6.0


@pytest.mark.parametrize(
    ("tokens", "cost"),
    [
        (_tokens(1_000_000, 100_000, 400_000), 0.6 * 2 + 0.4 * 0.5 + 0.1 * 8),
        (_tokens(1_000_000, None, None), 2.0),
        (_tokens(10, 0, 1_000), 10 * 0.5 / 1e6),
        (NO_TOKENS, 9.0),
    ],
)
def test_a_cost_is_what_was_counted_or_else_the_worst_case(tokens: TokenCounts, cost: float) -> None:
    tariff = Tariff(ModelPrice(input=2, output=8, cached=0.5))

    assert tariff.cost(tokens, worst=9.0) == pytest.approx(cost)


def test_cached_tokens_cost_as_much_as_others_unless_told() -> None:
    assert Tariff(ModelPrice(input=2, output=8)).cost(_tokens(1_000_000, 0, 500_000), worst=None) == 2.0


def test_without_a_price_no_cost_is_known() -> None:
    assert Tariff(None).worst_case(1, 1) is None
    assert Tariff(None).cost(_tokens(1, 1), worst=None) is None
