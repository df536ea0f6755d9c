"""Claims made twice count once, in every count."""

from dataclasses import replace

import pytest

from plumbline.judging.text.scores import contexts_used, count_verdicts, score
from plumbline.judging.text.verdicts import Claim, Evidence, JudgeAccount, Judgement, Verdict, mark_duplicates
from tests.making.cases import load_cases

SUPPORT = {Verdict.SUPPORTED: 1.0, Verdict.PARTIAL: 0.5, Verdict.CONTRADICTED: 0.0, Verdict.NOT_MENTIONED: 0.0}


def _claim(text: str, verdict: Verdict = Verdict.SUPPORTED, *, sentence: int = 0, context: int = 0) -> Claim:
    found = Evidence(context, "q", 0, 1, verified=True)
    return Claim(f"{sentence}.0", sentence, text, 0, 4, verdict, SUPPORT.get(verdict), "why", (found,))


def _judgement(*claims: Claim) -> Judgement:
    return Judgement(mark_duplicates(claims), JudgeAccount(model="fake"), has_verdict_kinds=True)


@pytest.mark.parametrize(("first", "second"), load_cases("duplicates", "a_claim_with_the_same_words_is_marked"))
def test_a_claim_with_the_same_words_is_marked(first: str, second: str) -> None:
    marked = mark_duplicates([_claim(first), _claim(second, sentence=1)])

    assert [claim.flags for claim in marked] == [(), ("duplicate",)]


@pytest.mark.parametrize(
    ("first", "second"),
    [("The dam is tall.", "The dam is not tall."), ("1,200", "1,300"), ("!", "?"), ("大坝高", "坝高")],
)
def test_other_claims_are_not(first: str, second: str) -> None:
    claims = (_claim(first), _claim(second))

    assert mark_duplicates(claims) == claims


def test_repeating_a_true_claim_makes_no_answer_more_faithful() -> None:
    lie = _claim("It is made of glass.", Verdict.NOT_MENTIONED)
    judgement = _judgement(lie, *[_claim("The dam is tall.", sentence=number) for number in range(1, 10)])

    scores = score(judgement)

    # Two claims that differ, one of them supported.
    assert scores is not None
    assert (scores.faithfulness, scores.faithfulness_strict, scores.unsupported_rate) == (0.5, 0.5, 0.5)
    assert sum(count_verdicts(judgement.claims).values()) == 2


@pytest.mark.parametrize(
    ("one", "other", "kept"),
    [
        (Verdict.SUPPORTED, Verdict.PARTIAL, Verdict.PARTIAL),
        (Verdict.PARTIAL, Verdict.NOT_MENTIONED, Verdict.NOT_MENTIONED),
        (Verdict.NOT_MENTIONED, Verdict.CONTRADICTED, Verdict.CONTRADICTED),
        (Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.CONTRADICTED),
    ],
)
def test_of_two_verdicts_the_first_claim_keeps_the_lower(one: Verdict, other: Verdict, kept: Verdict) -> None:
    for verdicts in ((one, other), (other, one)):
        claims = [_claim("The dam is tall.", verdict, context=number) for number, verdict in enumerate(verdicts)]

        first, second = mark_duplicates(claims)

        assert (first.verdict, first.support) == (kept, SUPPORT[kept])
        assert first.evidence == claims[verdicts.index(kept)].evidence
        assert first.flags == ("duplicates_disagree",)
        assert second == replace(claims[1], flags=("duplicate",))


def test_what_is_no_claim_is_neither_a_duplicate_nor_an_original() -> None:
    claims = (_claim("Hello!", Verdict.NOT_A_CLAIM), _claim("Hello!", Verdict.NOT_A_CLAIM), _claim("Hello!"))

    assert mark_duplicates(claims) == claims


def test_marking_twice_changes_nothing() -> None:
    once = mark_duplicates([_claim("a b"), _claim("a b", Verdict.PARTIAL), _claim("c d")])

    assert [claim.verdict for claim in mark_duplicates(once)] == [claim.verdict for claim in once]
    assert [claim.flags[-1:] for claim in once] == [("duplicates_disagree",), ("duplicate",), ()]


def test_the_evidence_of_a_duplicate_uses_no_context() -> None:
    marked = mark_duplicates([_claim("The dam is tall.", context=2), _claim("The dam is tall.", context=5)])

    assert contexts_used(marked) == (2,)
