"""Everyday lines around an answer on refunds: what leads, asks, comforts or closes is no claim; what states is one."""

import pytest

from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import segment
from tests.making.cases import load_cases

_NOTHING_EN = load_cases("everyday_lines", "nothing_en")
_NOTHING_ZH = load_cases("everyday_lines", "nothing_zh")
_ASSERTING_EN = load_cases("everyday_lines", "asserting_en")
_ASSERTING_ZH = load_cases("everyday_lines", "asserting_zh")


def _in_an_answer(line: str) -> Sample:
    if line[-2] >= "\u3000":
        return Sample(
            question="怎么退款？",
            contexts=("购买后30天内可以退款。请携带订单号联系客服。",),
            answer=f"{line}\n\n- 携带订单号联系客服。\n- 在购买后30天内办理。",
        )
    return Sample(
        question="How do I get a refund?",
        contexts=("Refunds are possible within 30 days of purchase. Contact support with your order number.",),
        answer=f"{line}\n\n- Contact support with your order number.\n- Do so within 30 days of purchase.",
    )


@pytest.mark.parametrize("line", _NOTHING_EN + _NOTHING_ZH)
def test_what_asserts_nothing_is_no_claim(line: str) -> None:
    assert 0 not in segment(_in_an_answer(line)).checkable


@pytest.mark.parametrize("line", _ASSERTING_EN + _ASSERTING_ZH)
def test_what_asserts_something_is_a_claim(line: str) -> None:
    assert 0 in segment(_in_an_answer(line)).checkable
