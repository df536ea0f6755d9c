"""What tier llm would ask about a sample, as far as that is known before anybody answers."""

from collections.abc import Iterator, Mapping
from itertools import islice

from plumbline.judging.ports.exchange import ChatRequest
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Verdict, whole_sentence_claim
from plumbline.judging.tiers.context_windows import Window
from plumbline.judging.tiers.judge_session import JudgePrompts, verdicts_in
from plumbline.judging.tiers.llm import fit_windows
from plumbline.judging.tiers.questions import claims_question, sentences_question


def needs_judge(sample: SegmentedSample) -> bool:
    """Whether code alone cannot decide the sample."""
    return not sample.is_empty and bool(sample.checkable) and sample.has_context


def expected_requests(
    sample: SegmentedSample,
    prompts: JudgePrompts,
    *,
    context_tokens: int,
    max_output_tokens: int,
    is_first: bool = True,
) -> Iterator[tuple[ChatRequest, int]]:
    """The requests of one vote on a sample, each with the number of verdicts that its reply has.

    The first pass is as it will be sent. Later windows and votes ask about claims, which nobody has made yet: here
    every sentence is one. No second looks, no escalation, no retries.

    Args:
        is_first: the vote that makes the claims; others are asked about them.

    Raises:
        TierFailure: `too_long`: nothing would be asked.
    """
    windows = fit_windows(sample, prompts, context_tokens=context_tokens, max_output_tokens=max_output_tokens)
    numbered = {position: number for number, position in enumerate(sample.checkable, start=1)}
    for batch in _parts(numbered, verdicts_in(max_output_tokens)):
        if is_first:
            yield (
                sentences_question(
                    prompts.verify, sample, window=windows[0], batch=batch, max_output_tokens=max_output_tokens
                ),
                len(batch),
            )
        for window in windows[1:] if is_first else windows:
            yield _check(sample, prompts, window, batch, max_output_tokens), len(batch)


def _check(
    sample: SegmentedSample, prompts: JudgePrompts, window: Window, batch: Mapping[int, int], max_output_tokens: int
) -> ChatRequest:
    claims = [whole_sentence_claim(each, sample.sentences[each], verdict=Verdict.NOT_MENTIONED) for each in batch]
    return claims_question(prompts.check, sample, window=window, claims=claims, max_output_tokens=max_output_tokens)


def _parts(numbered: Mapping[int, int], size: int) -> Iterator[dict[int, int]]:
    items = iter(numbered.items())
    while part := dict(islice(items, size)):
        yield part
