"""The evidence check: quotes are found where they stand, and what is not there is not found."""

import pytest

from app.generation.verdicts import Claim, Evidence, Verdict
from app.judges.evidence import EvidenceCheck, settle
from tests.fakes import claim_of

BRIDGE = "The old bridge was closed to cars in 2008. It carries 40,000 people a day."
DAM = "大坝于1932年建成，高达120米。"


def _locate(quote: str, *contexts: str, cited: tuple[int, ...] = (0,)) -> Evidence:
    evidence = EvidenceCheck(contexts).locate(quote, cited)
    assert evidence is not None
    if evidence.verified:
        assert evidence.context is not None
        assert contexts[evidence.context][evidence.start : evidence.end] == evidence.quote
    return evidence


def test_an_exact_quote_is_found_at_its_offsets() -> None:
    evidence = _locate("closed to cars", BRIDGE)

    # "The old bridge was " has 19 characters, the quote 14.
    assert evidence == Evidence(0, "closed to cars", 19, 33, verified=True)


def test_white_space_around_a_quote_does_not_matter() -> None:
    assert _locate(" closed to cars\n", BRIDGE).start == 19


@pytest.mark.parametrize(
    ("quote", "context", "found"),
    [
        ("THE OLD BRIDGE", BRIDGE, "The old bridge"),
        ('he said "no" twice', "Then he said “no” twice.", "he said “no” twice"),
        ("the keeper's lamp", "Here is the keeper’s lamp.", "the keeper’s lamp"),
        ("lamp - and rope", "A lamp — and rope.", "lamp — and rope"),
        ("old bridge was", "The old\n\n   bridge\twas shut.", "old\n\n   bridge\twas"),
        ("old bridge", "The old\u3000bridge.", "old\u3000bridge"),
        ("1932年建成,高达120米", DAM, "1932年建成，高达120米"),
        ("ＡＢＣ 公司", "甲方为abc 公司。", "abc 公司"),
        ("abc 公司", "甲方为ＡＢＣ 公司。", "ＡＢＣ 公司"),
        ("「大坝」建成", "据称“大坝”建成。", "“大坝”建成"),
        ("find the fish", "We ﬁnd the ﬁsh.", "ﬁnd the ﬁsh"),
    ],
)
def test_a_quote_is_found_after_folding_and_given_as_the_context_has_it(quote: str, context: str, found: str) -> None:
    evidence = _locate(quote, context)

    assert evidence.verified
    assert evidence.quote == found


def test_a_quote_with_composed_letters_is_found_where_the_context_has_them_decomposed() -> None:
    assert _locate("caf\u00e9 noir", "Un cafe\u0301 noir.").verified


def test_a_quote_with_a_slip_of_the_pen_is_found() -> None:
    evidence = _locate("The old brigde was closed to cars in 2008", BRIDGE)

    assert evidence.verified
    assert "bridge was closed to cars in 2008" in evidence.quote


@pytest.mark.parametrize(
    ("quote", "context"),
    [
        ("The old bridge was closed to cars in 2009", BRIDGE),
        ("It carries 41,000 people a day", BRIDGE),
        ("大坝于1933年建成，高达120米", DAM),
        ("大坝于1932年建成，高达12米", DAM),
    ],
)
def test_a_quote_with_another_number_is_not_found(quote: str, context: str) -> None:
    assert not _locate(quote, context).verified


@pytest.mark.parametrize(
    ("quote", "context"),
    [
        ("5 million people", "The city has 15 million people."),
        ("carries 40", BRIDGE),
        ("高达12", DAM),
        ("2年建成", DAM),
        ("3 metres", "It is 2.3 metres high."),
    ],
)
def test_part_of_a_number_is_not_found(quote: str, context: str) -> None:
    assert not _locate(quote, context).verified


def test_a_quote_that_goes_on_beyond_its_context_is_not_found() -> None:
    evidence = _locate("The bridge was closed to all cars after a bomb attack.", "The bridge was closed to all cars.")

    assert not evidence.verified


@pytest.mark.parametrize("quote", ["a quite different sentence about lamps", "灯塔看守人每晚点亮灯火照亮港口"])
def test_a_quote_that_is_not_there_is_unverified(quote: str) -> None:
    assert _locate(quote, BRIDGE, DAM) == Evidence(0, quote, None, None, verified=False)


@pytest.mark.parametrize("quote", ["", "  ", "\n", "\u3000"])
def test_an_empty_quote_is_no_evidence(quote: str) -> None:
    assert EvidenceCheck([BRIDGE]).locate(quote, [0]) is None


@pytest.mark.parametrize(
    ("quote", "context"), [("the", "Of the dam."), ("is", "It is."), ("was", BRIDGE), ("的", "大坝的"), ("...", "...")]
)
def test_a_quote_of_one_stopword_or_mark_proves_nothing(quote: str, context: str) -> None:
    assert not _locate(quote, context).verified


@pytest.mark.parametrize(("quote", "context"), [("2008", BRIDGE), ("大坝", DAM), ("5", "It has 5 lanes.")])
def test_a_number_or_a_word_of_two_han_characters_is_quote_enough(quote: str, context: str) -> None:
    assert _locate(quote, context).verified


def test_the_cited_context_is_searched_before_an_earlier_one() -> None:
    assert _locate("closed to cars", BRIDGE, BRIDGE, cited=(1,)).context == 1


def test_a_quote_from_another_context_than_the_cited_one_is_found_there() -> None:
    assert _locate("closed to cars", DAM, BRIDGE, cited=(0,)).context == 1


@pytest.mark.parametrize("cited", [(), (7,), (-1,), (10**30,)])
def test_a_citation_out_of_range_is_passed_over(cited: tuple[int, ...]) -> None:
    assert _locate("closed to cars", DAM, BRIDGE, cited=cited).context == 1
    assert _locate("a quite different sentence", DAM, cited=cited).context is None


def test_without_contexts_nothing_is_found() -> None:
    assert not _locate("closed to cars").verified


FOUND = Evidence(0, "quote", 0, 5, verified=True)
INVENTED = Evidence(0, "quote", None, None, verified=False)


def _claim(verdict: Verdict, support: float | None, *evidence: Evidence) -> Claim:
    return Claim("0.0", 0, "text", 0, 4, verdict, support, evidence=evidence, flags=("earlier",))


@pytest.mark.parametrize(("verdict", "support"), [(Verdict.SUPPORTED, 1.0), (Verdict.PARTIAL, 0.5)])
def test_support_without_a_quote_counts_as_not_mentioned(verdict: Verdict, support: float) -> None:
    settled = settle(_claim(verdict, support))

    assert (settled.verdict, settled.support) == (Verdict.NOT_MENTIONED, 0.0)
    assert settled.flags == ("earlier", "evidence_missing", f"judge_said_{verdict}")


@pytest.mark.parametrize(("verdict", "support"), [(Verdict.SUPPORTED, 1.0), (Verdict.PARTIAL, 0.5)])
def test_support_with_an_invented_quote_counts_as_not_mentioned(verdict: Verdict, support: float) -> None:
    settled = settle(_claim(verdict, support, INVENTED))

    assert (settled.verdict, settled.support) == (Verdict.NOT_MENTIONED, 0.0)
    assert settled.flags == ("earlier", "evidence_unverified", f"judge_said_{verdict}")
    assert settled.evidence == (INVENTED,)


@pytest.mark.parametrize("verdict", [Verdict.SUPPORTED, Verdict.PARTIAL, Verdict.CONTRADICTED])
def test_a_claim_with_a_found_quote_stands(verdict: Verdict) -> None:
    claim = _claim(verdict, 1.0, INVENTED, FOUND)

    assert settle(claim) == claim


@pytest.mark.parametrize(("evidence", "flag"), [((), "evidence_missing"), ((INVENTED,), "evidence_unverified")])
def test_a_contradiction_without_a_found_quote_stands_and_is_flagged(evidence: tuple[Evidence, ...], flag: str) -> None:
    settled = settle(_claim(Verdict.CONTRADICTED, 0.0, *evidence))

    assert settled.verdict is Verdict.CONTRADICTED
    assert settled.flags == ("earlier", flag)


@pytest.mark.parametrize(("verdict", "support"), [(Verdict.NOT_MENTIONED, 0.0), (Verdict.NOT_A_CLAIM, None)])
def test_what_claims_no_support_needs_no_quote(verdict: Verdict, support: float | None) -> None:
    claim = claim_of(verdict, support)

    assert settle(claim) == claim
