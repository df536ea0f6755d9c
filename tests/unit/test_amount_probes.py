"""Pairs of sentences about one context, of which the reader of amounts and identifiers refuses the false one alone."""

import pytest

from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.tiers.lexical import collect_lexical_findings
from plumbline.judging.tiers.lexical_features import Finding
from tests.making.cases import load_cases

PROBES = [probe for name in ("before", "after") for probe in load_cases("amount_probes", name)]


def _finding(context: str, answer: str) -> Finding:
    (found,) = collect_lexical_findings(segment(Sample("", (context,), answer))).values()
    return found


def _refused(found: Finding) -> tuple[str, ...]:
    return (*found.unknown_numbers, *(["negation"] if found.measures.get("negation") else []))


@pytest.mark.parametrize(("kind", "context", "true", "false"), PROBES)
def test_what_the_context_says_is_known_and_its_false_twin_is_not(
    kind: str, context: str, true: str, false: str
) -> None:
    assert _refused(_finding(context, true)) == ()
    assert _refused(_finding(context, false))
    assert not _finding(context, false).is_copy


@pytest.mark.parametrize(
    ("kind", "context", "true", "false"), [probe for probe in PROBES if probe[0] in ("link", "code")]
)
def test_an_identifier_that_no_context_has_is_a_hard_reason(kind: str, context: str, true: str, false: str) -> None:
    assert _finding(context, true).hard_reasons == ()
    assert _finding(context, false).hard_reasons


def test_half_of_the_pairs_are_chinese() -> None:
    assert len(PROBES) == 100
    assert sum(any("\u4e00" <= letter <= "\u9fff" for letter in true) for _, _, true, _ in PROBES) == 50
