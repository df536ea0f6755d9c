"""Controls: a sentence that is surely false and one copied from a context, which a judge meets among the answer's.

Who reads them cannot tell them from the answer; a judge that supports the first or denies the second has shown itself.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from plumbline.ground.phrases import Phrases
from plumbline.judging.judge.context_windows import Window
from plumbline.judging.judge.questions import Mark
from plumbline.judging.judge.replies import ClaimReply
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Verdict
from plumbline.judging.text.words import han_share

# This flag marks a judgement whose judge got a control wrong.
FAILED: Final = "control_failed"
_LENGTHS: Final = range(24, 161)
_LENGTHS_ZH: Final = range(8, 61)
_FEWEST_WORDS: Final = 3
_YEARS: Final = range(1_000, 2_100)
_EARLY_YEARS: Final = range(1_612, 1_768)
_WORDS: Final = Phrases("judging/judge/controls")
_ARTICLES: Final = _WORDS.words("articles")
# Short ones cost few tokens; of as many as this one is drawn.
_DRAWN_FROM: Final = 6
# Each is looked for in all contexts.
_MOST_TRIED: Final = 40
_UNCLEAR, _SPOKEN, _BOUNDED, _NEGATED = (
    re.compile(_WORDS.pattern(name), re.IGNORECASE) for name in ("unclear", "spoken", "bounded", "negated")
)
_COPULA, _COPULA_ZH = (re.compile(_WORDS.pattern(name)) for name in ("copula", "copula_zh"))
_STATEMENT_END: Final = re.compile(r"[.。][\"'”’」]?\s*\Z")
_NUMBER: Final = re.compile(
    r"(?<![\d.,:/A-Za-z#\-–—])(\d{1,6})(?:\.\d{1,3})?(?![\d:/\-–—]|[.,]\d|s\b|th\b|st\b|nd\b|rd\b)"
)


@dataclass(frozen=True, slots=True)
class Control:
    """A sentence whose verdict is known."""

    text: str
    is_true: bool


def draw_controls(sample: SegmentedSample, window: Window, seed: str) -> tuple[Control, ...]:
    """Return a false and a true sentence, in an order drawn by the seed; fewer where the contexts hold none."""
    draw = Random(seed)  # noqa: S311 - the seed is a secret or random
    shown = frozenset(piece.number - 1 for piece in window)
    stated = sorted(_statements(sample, shown), key=lambda text: (len(text), text))[:_MOST_TRIED]
    renumbered = [(text, false) for text in stated if (false := _renumber(text, sample.source.contexts, draw))]
    changed = renumbered or [(text, false) for text in stated if (false := _negate(text))]
    changed = changed or [(text, _add_date(text, sample.source.contexts, draw)) for text in stated[:_DRAWN_FROM]]
    plain = [text for text in stated if not _UNCLEAR.match(text)]
    found: list[Control] = []
    if changed:
        original, false = draw.choice(changed[:_DRAWN_FROM])
        plain = [text for text in plain if text != original]
        found.append(Control(false, is_true=False))
    if plain:
        found.append(Control(draw.choice(plain[:_DRAWN_FROM]), is_true=True))
    draw.shuffle(found)
    return tuple(found)


def numbered_controls(sample: SegmentedSample, window: Window, mark: Mark) -> dict[int, Control]:
    """Return controls for a sample by the numbers that follow those of its sentences."""
    seed = mark("\n".join((sample.source.question, sample.source.answer, *sample.source.contexts)))
    return dict(enumerate(draw_controls(sample, window, seed), start=len(sample.checkable) + 1))


def is_right(control: Control, replies: Sequence[ClaimReply]) -> bool:
    """Return True if the judge accuses a false control, and denies no true one; it may find no claim in that."""
    verdicts = {reply.verdict for reply in replies}
    if control.is_true:
        return not verdicts <= {Verdict.CONTRADICTED, Verdict.NOT_MENTIONED}
    return bool(verdicts - {Verdict.SUPPORTED, Verdict.NOT_A_CLAIM})


def count_right(
    controls: Mapping[int, Control], claims: Mapping[int, Sequence[ClaimReply]], *, is_whole: bool
) -> tuple[int, int]:
    """Return the controls that the judge got right and wrong; one that a reply leaves out is wrong if it is whole."""
    right = sum(is_right(each, claims[number]) for number, each in controls.items() if number in claims)
    return right, (len(controls) if is_whole else sum(number in claims for number in controls)) - right


def _statements(sample: SegmentedSample, shown: frozenset[int]) -> set[str]:
    return {
        sentence.text
        for (context, sentence), words in zip(sample.index.places, sample.index.words, strict=True)
        if context in shown
        and sentence.kind == "prose"
        and len(words.content) >= _FEWEST_WORDS
        and len(sentence.text) in (_LENGTHS_ZH if han_share(sentence.text) else _LENGTHS)
        and _STATEMENT_END.search(sentence.text)
        and not _SPOKEN.search(sentence.text)
    }


def _renumber(text: str, contexts: Sequence[str], draw: Random) -> str | None:
    """Return the sentence with another number, which no context has; None if that could be true as well."""
    numbers = list(_NUMBER.finditer(text))
    if not numbers or _BOUNDED.search(text):
        return None
    found = draw.choice(numbers)
    value = int(found[1])
    other = str(value + draw.randrange(7, 19) if value in _YEARS else 3 * value + draw.randrange(5, 40))
    return None if any(other in each for each in contexts) else f"{text[: found.start()]}{other}{text[found.end() :]}"


def _add_date(text: str, contexts: Sequence[str], draw: Random) -> str:
    """Return the sentence with a year before it that no context has."""
    *years, year = draw.sample(_EARLY_YEARS, _DRAWN_FROM)
    year = next((each for each in years if not any(str(each) in context for context in contexts)), year)
    if han_share(text):
        return f"{year}年，{text}"
    first, *rest = text.split(" ", 1)
    return " ".join([f"In {year},", first.lower() if first in _ARTICLES else first, *rest])


def _negate(text: str) -> str | None:
    """Return a plain statement with a negation; None for any other sentence."""
    if _NEGATED.search(text) or "," in text or "，" in text:
        return None
    if han_share(text):
        copula = _COPULA_ZH.search(text)
        return f"{text[: copula.start()]}不{text[copula.start() :]}" if copula else None
    copula = _COPULA.search(text)
    return f"{text[: copula.end()]} not{text[copula.end() :]}" if copula else None
