"""Work grows with what is sent, not with one part of it times another. Counted in characters, not timed."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.words import content_words, normalise
from plumbline.judging.tiers.lexical import collect_lexical_findings
from tests.doubles.fakes import case_of


def characters_normalised(work: Callable[[], object]) -> int:
    """How many characters `normalise` is given while the work runs."""
    total = 0

    def watch(frame: FrameType, event: str, _: object) -> None:
        nonlocal total
        if event == "call" and frame.f_code is normalise.__code__:
            total += len(frame.f_locals["text"])

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(before)
    return total


def copied(sentences: int) -> SegmentedSample:
    """An answer whose sentences all stand in the one, endless sentence of the context."""
    parts = [f"the dam number {number} was built of stone" for number in range(sentences)]
    return case_of(" ".join(f"{part.capitalize()}." for part in parts), " and ".join(parts))


def look_for_copies(case: SegmentedSample) -> None:
    assert all(finding.is_copy for finding in collect_lexical_findings(case).values())


def look_for_claims(case: SegmentedSample) -> None:
    matches = [case.index.best_match(each.text, content_words(each.text)) for each in case.sentences]
    assert all(match is not None and match.is_verbatim for match in matches)


@pytest.mark.parametrize("look", [look_for_copies, look_for_claims])
@pytest.mark.parametrize("sentences", [4, 64])
def test_a_context_is_normalised_once_however_many_sentences_are_looked_for_in_it(
    look: Callable[[SegmentedSample], None], sentences: int
) -> None:
    case = copied(sentences)
    sent = len(case.source.answer) + len(case.source.contexts[0])

    normalised = characters_normalised(lambda: look(case))

    assert 0 < normalised <= sent
