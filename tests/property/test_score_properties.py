"""What holds for the scores of any judgement."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from plumbline.judging.text.reference import exact_match, token_f1
from plumbline.judging.text.scores import confidence, score
from plumbline.judging.text.verdicts import SUPPORT_BY_VERDICT, Claim, Judgement, Verdict
from tests.doubles.fakes import claim_of, judgement_of

_SHARES = st.floats(0, 1)
_WEIGHED_CLAIMS = st.sampled_from(Verdict).map(lambda verdict: claim_of(verdict, SUPPORT_BY_VERDICT.get(verdict)))
_MEASURED_CLAIMS = st.one_of(
    _SHARES.map(lambda support: claim_of(Verdict.SUPPORTED, support)), st.just(claim_of(Verdict.NOT_A_CLAIM, None))
)
_JUDGEMENTS = st.one_of(
    st.lists(_WEIGHED_CLAIMS, max_size=30).map(lambda claims: judgement_of(*claims)),
    st.lists(_MEASURED_CLAIMS, max_size=30).map(lambda claims: judgement_of(*claims, has_verdict_kinds=False)),
)
_TABLES = st.lists(st.tuples(_SHARES, _SHARES), max_size=10, unique_by=lambda point: point[0]).map(sorted)


def _faithfulness(judgement: Judgement) -> float:
    scores = score(judgement)
    assert scores is not None
    return scores.faithfulness


@given(_JUDGEMENTS)
def test_every_score_lies_between_zero_and_one_and_strict_is_never_above_the_other(judgement: Judgement) -> None:
    scores = score(judgement)

    if scores is not None:
        every = (
            scores.faithfulness,
            scores.hallucination_rate,
            scores.faithfulness_strict,
            scores.contradiction_rate,
            scores.unsupported_rate,
        )
        assert all(number is None or 0.0 <= number <= 1.0 for number in every)
        assert scores.faithfulness_strict is None or scores.faithfulness_strict <= scores.faithfulness


@given(_JUDGEMENTS)
def test_there_is_a_score_exactly_when_a_claim_can_be_checked(judgement: Judgement) -> None:
    assert (score(judgement) is not None) == any(claim.is_checkable for claim in judgement.claims)


@given(_JUDGEMENTS)
def test_seed_4_the_hallucination_rate_is_one_less_faithfulness(judgement: Judgement) -> None:
    scores = score(judgement)

    assert scores is None or scores.hallucination_rate == 1 - scores.faithfulness


@given(st.lists(_MEASURED_CLAIMS, max_size=20), st.integers(0, 20), _SHARES, _SHARES)
def test_faithfulness_never_drops_when_a_claim_gains_support(
    others: list[Claim], place: int, one: float, another: float
) -> None:
    before = claim_of(Verdict.SUPPORTED, min(one, another))
    after = replace(before, support=max(one, another))

    with_less = judgement_of(*others[:place], before, *others[place:], has_verdict_kinds=False)
    with_more = judgement_of(*others[:place], after, *others[place:], has_verdict_kinds=False)

    assert _faithfulness(with_more) >= _faithfulness(with_less)


@given(st.lists(_WEIGHED_CLAIMS, max_size=20), st.sampled_from(Verdict).filter(lambda v: v is not Verdict.NOT_A_CLAIM))
def test_faithfulness_never_drops_when_a_verdict_becomes_supported(others: list[Claim], verdict: Verdict) -> None:
    before, after = claim_of(verdict, SUPPORT_BY_VERDICT[verdict]), claim_of(Verdict.SUPPORTED, 1.0)

    assert _faithfulness(judgement_of(*others, after)) >= _faithfulness(judgement_of(*others, before))


@given(_SHARES, _TABLES, st.booleans())
def test_confidence_lies_between_zero_and_one(
    faithfulness: float, table: list[tuple[float, float]], passed: bool
) -> None:
    number = confidence(faithfulness, passed=passed, reliability=table)

    assert (number is None) == (not table)
    assert number is None or 0.0 <= number <= 1.0


@given(st.text(max_size=60), st.text(max_size=60))
def test_agreement_with_a_reference_is_symmetric_and_lies_between_zero_and_one(one: str, another: str) -> None:
    f1 = token_f1(one, another)

    assert 0.0 <= f1 <= 1.0
    assert f1 == token_f1(another, one)
    assert f1 == 1.0 or exact_match(one, another) == 0.0


@given(st.text(max_size=60))
def test_a_text_agrees_with_itself(text: str) -> None:
    assert token_f1(text, text) == 1.0
    assert exact_match(text, text) == 1.0
