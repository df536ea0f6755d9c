"""A sample prepared for judges, and for an estimate of what they will be asked: windows, controls, probes, batches."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeVar

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.texts import CodedText
from plumbline.judging.judge.context_windows import Window, context_windows
from plumbline.judging.judge.controls import Control, draw_controls
from plumbline.judging.judge.evidence.search import EvidenceSearch
from plumbline.judging.judge.metrics import Metric, probes_for
from plumbline.judging.judge.probes import Probe
from plumbline.judging.judge.questions import Questions
from plumbline.judging.ports.exchange import estimate_tokens
from plumbline.judging.text import offload
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Claim, Verdict, whole_sentence_claim

K = TypeVar("K")
V = TypeVar("V")

# Kind, name and braces of two questions; a context's id among the choices.
_TOKENS_A_QUESTION: Final = 96
_TOKENS_A_CHOICE: Final = 8


@dataclass(frozen=True, slots=True)
class PreparedSample:
    """A sample prepared for judges: windows cut, contexts searchable, `controls` drawn. `is_small`: see `offload`."""

    questions: Questions
    windows: tuple[Window, ...]
    search: EvidenceSearch
    is_small: bool
    controls: Mapping[int, Control] = field(default_factory=dict)
    probes: tuple[Probe, ...] = ()

    @property
    def segmented(self) -> SegmentedSample:
        return self.questions.sample

    def split_into_replies(self, size: int) -> list[dict[int, int]]:
        """Return the checkable sentences in runs of so many: numbers from 1 by position."""
        return list(split_into_runs({at: number for number, at in enumerate(self.segmented.checkable, start=1)}, size))

    def controls_beside(self, batch: Mapping[int, int]) -> Mapping[int, Control]:
        """Return the controls that are asked with a batch: all with the first one."""
        return self.controls if 1 in batch.values() else {}

    def sentence_claims(self, batch: Iterable[int]) -> list[Claim]:
        """Return the sentences at these positions as claims."""
        sentences = self.segmented.sentences
        return [whole_sentence_claim(at, sentences[at], verdict=Verdict.NOT_MENTIONED) for at in batch]


def split_into_runs(items: Mapping[K, V], size: int) -> Iterator[dict[K, V]]:
    left = iter(items.items())
    while run := dict(islice(left, size)):
        yield run


def prepare_sample(
    questions: Questions,
    *,
    context_tokens: int,
    metrics: Sequence[Metric] = (),
    decided: int = 0,
    is_chat: bool = True,
    has_controls: bool = False,
    denies: bool = False,
    suspects: Sequence[tuple[int, int, int]] = (),
) -> PreparedSample:
    """Prepare a sample for models that read so many tokens.

    Args:
        decided: most claims of a request to a decision model, if one is asked; it writes nothing, and reads each claim
            in its questions.
        is_chat: a chat model is asked.
        denies: as for `draw_controls`.
        suspects: as for `EvidenceSearch`.

    Raises TierFailure: `too_long`: no contexts fit.
    """
    sample = questions.sample
    probes = probes_for(metrics, sample.source)
    windows = _fit_windows(questions, probes if is_chat else (), context_tokens, decided, is_chat=is_chat)
    search = EvidenceSearch(
        sample.source.contexts,
        suspects=suspects,
        sentences=sample.context_sentences,
        index=sample.index,
        question=sample.source.question,
        without_marks=sample.without_marks,
    )
    controls = draw_controls(sample, windows[0], denies=denies) if has_controls else {}
    return PreparedSample(questions, windows, search, offload.is_small(sample.source), controls, probes)


def _fit_windows(
    questions: Questions, probes: Sequence[Probe], context_tokens: int, decided: int, *, is_chat: bool
) -> tuple[Window, ...]:
    sample, prompts = questions.sample, questions.prompts
    answer, rooms = estimate_tokens(sample.source.answer), list[tuple[int, int]]()
    if decided:
        frame = estimate_tokens(2 * prompts.decide.user + "".join(prompts.decide.parts.values()))
        a_claim = frame + _TOKENS_A_QUESTION + _TOKENS_A_CHOICE * len(sample.source.contexts)
        claims = min(decided, len(sample.checkable) + 2)
        rooms.append((estimate_tokens(prompts.decide.system) + claims * a_claim, 3 * answer))
    if is_chat:
        instructions = max(estimate_tokens(prompt.system + prompt.user) for prompt in (prompts.verify, prompts.check))
        instructions += sum(estimate_tokens(probe.instructions(prompts.metrics.parts)) for probe in probes)
        rooms.append((instructions + questions.max_output_tokens, 2 * answer))
    # The longest batch of sentences is not known yet: room for the whole answer, up to half of what there is.
    left = [(context_tokens - taken - estimate_tokens(sample.source.asked), read) for taken, read in rooms]
    tokens = min(room - min(read, room // 2) for room, read in left)
    if tokens <= 0:
        raise TierFailure(FailureReason.TOO_LONG, CodedText("no_room_for_contexts", tokens=context_tokens))
    return context_windows(sample.source.contexts, sample.context_sentences, tokens=tokens)
