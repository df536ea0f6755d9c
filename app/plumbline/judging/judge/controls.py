"""Controls: one sentence that the contexts do not support and one copied from them, judged among the answer's own.

A judge that supports the first or denies the second is not believed. Both follow from the sample alone, so that the
same sample has the same controls in every process.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Final, TypeVar

from plumbline.ground.deadline import within_deadline
from plumbline.ground.phrases import Phrases
from plumbline.judging.judge.context_windows import Window
from plumbline.judging.judge.evidence.verdict_rules import UNANSWERED_QUESTION
from plumbline.judging.judge.replies import ClaimReply, Reading
from plumbline.judging.quantities.comparison import facts_in
from plumbline.judging.text.injection import instructing_sentences
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Claim, Verdict
from plumbline.judging.text.words import han_share, has_content

# Of English ones, and of Chinese ones.
_LENGTHS: Final = range(24, 161), range(8, 61)
_LENGTHS_LOOSE: Final = range(24, 301), range(8, 121)
_LONGEST_COPY: Final = 300
_FEWEST_WORDS: Final = 3
# Short ones cost few tokens; of as many as this one is drawn.
_DRAWN_FROM: Final = 6
_MOST_TRIED: Final = 40
# Of a sentence that may say the same with another number.
_SHARED_WORDS: Final = 2
_WORDS: Final = Phrases("judging/judge/controls")
_UNCLEAR, _SPOKEN, _OPEN, _REFERRING = (
    re.compile(_WORDS.pattern(name), re.IGNORECASE) for name in ("unclear", "spoken", "open", "referring")
)
_NAMED: Final = re.compile(_WORDS.pattern("named"))
_ARTICLE: Final = re.compile(r"\A(?:The|An?|In|On|At)\b")
_STATEMENT_END: Final = re.compile(r"[.。][\"'”’」]?\s*\Z")
_LATIN_WORD: Final = re.compile(r"[^\W\d_]{2,}")
# A bare number: no part of a word, a date, a score, a range, a footnote or an ordinal, and not in brackets.
_NUMBER: Final = re.compile(
    r"(?<![\d.,:/A-Za-z#\-–—~～第(（\[【^])(?P<whole>\d{1,6})(?P<decimals>\.\d{1,3})?"
    r"(?![\d:)）\]】A-Za-z]|[.,]\d|\s?[-–—/~～]|\s?(?:st|nd|rd|th)\b)"
)
# Of a number, what stands before it.
_BEFORE: Final = 32
_MOST_VALUES: Final = 400
_TRIES: Final = 12
# Two years of one life or one story.
_MOST_YEARS_APART: Final = 18
_DATES: Final = re.compile(rf"(?:{_WORDS.pattern('parts.month')}|[A-Z]\w+day)\b")
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,15}(?: [A-Z][a-z]{2,15}){0,2}(?![\w'’])|《[^》\n]{2,12}》")
# Of each kind of number what stands before it, what behind it, and values that are plausible in place of each other
# where so far apart. The first kind that matches counts.
_KINDS: Final = {
    name: (
        re.compile(rf"(?:{_WORDS.pattern(f'{name}.before')})\Z"),
        re.compile(_WORDS.pattern(f"{name}.after")),
        range(*_WORDS.read(f"{name}.values")),
        int(_WORDS.read(f"{name}.apart")),
    )
    for name in _WORDS.read("kinds").split()
}
_PARTIAL_REPLIES: Final = frozenset({"truncated_reply", UNANSWERED_QUESTION})
IdT = TypeVar("IdT", int, str)


@dataclass(frozen=True, slots=True)
class Control:
    """A sentence whose verdict is known."""

    text: str
    is_true: bool


def draw_controls(sample: SegmentedSample, window: Window, *, denies: bool = False) -> dict[int, Control]:
    """Return a sentence that the contexts do not support and one copied from those shown, in an order of their own.

    Their numbers follow those of the sample's sentences.
    The first is a statement of a context with another number, of which it is sure that no context has it; without
    such a statement, one about a place that no text names.

    `denies`: they are a statement and its denial, which some judges support alike; of the last contexts first, which
    a server that cuts its input does not read.
    """
    source = sample.source
    draw = Random("\n".join((source.question, source.answer, *source.contexts)))  # noqa: S311 - no secret
    shown = frozenset(piece.number - 1 for piece in window)
    statements = _statements(sample, shown) or (_statements(sample, shown, is_loose=True) if denies else set())
    stated = sorted(statements, key=lambda text: (len(text), text))[:_MOST_TRIED]
    plain = [text for text in stated if not _UNCLEAR.match(text)]
    changed = [(text, false) for text in plain if (false := _renumber(text, sample, draw))]
    original, false = draw.choice(changed[:_DRAWN_FROM]) if changed else ("", _neutral(sample, draw))
    copied = [text for text in plain if text != original] or plain or stated
    true = draw.choice(copied[:_DRAWN_FROM]) if copied else _any_passage(sample, shown)
    if denies and copied:
        true = _lone_statement(sample, statements) or true
        form = _WORDS.read("denial_zh" if han_share(true) else "denial_en")
        false = form.format(statement=_ARTICLE.sub(lambda article: article[0].lower(), true))
    controls = Control(false, is_true=False), Control(true, is_true=True)
    drawn = controls if draw.random() < 0.5 else controls[::-1]  # noqa: PLR2004
    return dict(enumerate(drawn, start=len(sample.checkable) + 1))


def control_claims(sample: SegmentedSample, controls: Iterable[Control]) -> list[Claim]:
    """Return controls as claims of sentences behind the last one, for requests about claims."""
    return [
        Claim(f"{position}.0", position, control.text, 0, 0, Verdict.NOT_MENTIONED, None)
        for position, control in enumerate(controls, start=len(sample.sentences))
    ]


def is_right(control: Control, replies: Sequence[ClaimReply]) -> bool:
    """Return True if the judge does not support a false control, or does not deny a true one."""
    verdicts = {reply.verdict for reply in replies}
    if control.is_true:
        return not verdicts <= {Verdict.CONTRADICTED, Verdict.NOT_MENTIONED}
    return bool(verdicts - {Verdict.SUPPORTED, Verdict.NOT_A_CLAIM})


def count_right(controls: Mapping[IdT, Control], reading: Reading[IdT], others: Iterable[IdT]) -> tuple[int, int]:
    """Return the controls that the judge got right and wrong.

    One that the reply leaves out is wrong if the reply is whole and has verdicts on all `others`; else it is unknown.
    """
    claims = reading.claims
    is_whole = _PARTIAL_REPLIES.isdisjoint(reading.flags) and all(each in claims for each in others)
    right = sum(is_right(each, claims[number]) for number, each in controls.items() if number in claims)
    return right, (len(controls) if is_whole else sum(number in claims for number in controls)) - right


def _statements(sample: SegmentedSample, shown: frozenset[int], *, is_loose: bool = False) -> set[str]:
    """Return sentences that state something; `is_loose`: long ones too, and a whole context without a full stop."""
    lengths, contexts = _LENGTHS_LOOSE if is_loose else _LENGTHS, sample.source.contexts
    return {
        sentence.text
        for (context, sentence), words in zip(sample.index.places, sample.index.words, strict=True)
        if context in shown
        and sentence.kind == "prose"
        and len(words.content) >= _FEWEST_WORDS
        and len(sentence.text) in lengths[han_share(sentence.text) > 0]
        and (_STATEMENT_END.search(sentence.text) or (is_loose and sentence.text == contexts[context].strip()))
        and not _SPOKEN.search(sentence.text)
        and (han_share(sentence.text) > 0 or _is_told(sentence.text))
        and not _instructs(sentence.text)
    }


def _is_told(text: str) -> bool:
    """Return False for a heading or a reference, which consists of names."""
    words: list[str] = _LATIN_WORD.findall(text)
    plain = sum(word.islower() for word in words)
    return plain >= _FEWEST_WORDS and 2 * plain >= len(words)


def _instructs(text: str) -> bool:
    return next(instructing_sentences(text.lower()), None) is not None


def _lone_statement(sample: SegmentedSample, statements: set[str]) -> str | None:
    """Return the shortest statement, of the last context that has one, on whose matter no other sentence speaks."""
    index = sample.index
    rows = [row for row in range(len(index.places) - 1, -1, -1) if index.places[row][1].text in statements]
    found: list[tuple[int, int, str]] = []
    for row in within_deadline(rows[:_MOST_TRIED]):
        (context, sentence), wanted = index.places[row], frozenset(index.words[row].content)
        is_open = _UNCLEAR.match(sentence.text) or _OPEN.search(sentence.text)
        alike = sum(2 * len(wanted.intersection(words.content)) >= len(wanted) for words in index.words)
        found += [(-context, len(sentence.text), sentence.text)] if alike == 1 and not is_open else []
    return min(found)[2] if found else None


def _renumber(text: str, sample: SegmentedSample, draw: Random) -> str | None:
    """Return the statement with another number, which it then states falsely; None if it could be true as well."""
    if _OPEN.search(text):
        return None
    for number in draw.sample(numbers := list(_NUMBER.finditer(text)), len(numbers)):
        before = text[: number.start()]
        if not before.strip() or _REFERRING.search(before) or _NAMED.search(before):
            continue
        for value in _other_values(text, number, draw):
            if _is_nowhere(value, text, sample):
                return f"{before}{value}{number['decimals'] or ''}{text[number.end() :]}"
    return None


def _other_values(text: str, number: re.Match[str], draw: Random) -> Iterator[int]:
    """Yield plausible values in place of a number; none for one of no known kind."""
    before, after, value = text[max(0, number.start() - _BEFORE) : number.start()], text[number.end() :], int(number[1])
    for name, (opening, closing, plausible, apart) in _KINDS.items():
        values = plausible
        if not (opening.search(before) or closing.match(after)) or (name == "year" and value not in values):
            continue
        if value not in values or (name == "count" and value in _KINDS["year"][2]):
            return
        if name == "count":
            # Whoever has five has three as well, so more; and as round as it was.
            step = 10 ** (len(number[1]) - len(number[1].rstrip("0")))
            values = range(value + max(step, value // 3 // step * step), value * 5 // 2 + 3 * step, step)
        if name == "year":
            # Other years of the sentence stay before it or after it.
            others = [int(each[1]) for each in _NUMBER.finditer(text) if int(each[1]) in values]
            low = max((each + 1 for each in others if each < value), default=0)
            high = min((each for each in others if each > value), default=values.stop)
            values = range(
                max(values.start, low, value - _MOST_YEARS_APART), min(values.stop, high, value + _MOST_YEARS_APART)
            )
        far = [each for each in values[:_MOST_VALUES] if abs(each - value) >= apart]
        yield from draw.sample(far, min(_TRIES, len(far)))
        return


def _is_nowhere(value: int, text: str, sample: SegmentedSample) -> bool:
    """Return True if no context has the number in digits, and no sentence on the same matter in other words."""
    digits = re.compile(rf"(?<!\d){value}(?!\d)")
    if any(digits.search(context) for context in sample.source.contexts):
        return False
    index, wanted = sample.index, frozenset(sample.index.split_words(text).content)
    near = (
        sentence.text
        for (_, sentence), words in zip(index.places, index.words, strict=True)
        if len(wanted.intersection(words.content)) >= _SHARED_WORDS
    )
    return float(value) not in facts_in("\n".join(islice(near, _MOST_TRIED))).values


def _neutral(sample: SegmentedSample, draw: Random) -> str:
    """Return a statement on a place that no text names."""
    source, language = sample.source, "zh" if sample.language == "zh" else "en"
    texts = "\n".join((source.question, source.answer, *source.contexts))
    places = _WORDS.read(f"neutral_{language}.places")
    place = draw.choice([each for each in places if each not in texts] or places)
    found = (name[0] for name in islice(_NAME.finditer("\n".join(source.contexts)), _MOST_TRIED))
    # A word that is written small, too, is no name.
    known = (name for name in found if name.lower() not in texts or name.startswith("《"))
    names = sorted({name for name in known if name.startswith("《") == (language == "zh") and not _DATES.match(name)})
    forms = _WORDS.read(f"neutral_{language}.{'named' if names else 'plain'}")
    return str(draw.choice(forms).format(place=place, name=draw.choice(names or [""])))


def _any_passage(sample: SegmentedSample, shown: frozenset[int]) -> str:
    """Return the shortest passage of some words, of contexts that hold no plain statement: a row, a line, a turn."""
    passages = [
        (len(words.content) < _FEWEST_WORDS, len(sentence.text), sentence.text)
        for (context, sentence), words in zip(sample.index.places, sample.index.words, strict=True)
        if context in shown and sentence.kind != "markup" and not _instructs(sentence.text)
    ]
    text = min(passages)[2] if passages else next(filter(has_content, sample.source.contexts))
    return text if len(text) <= _LONGEST_COPY else text[:_LONGEST_COPY].rpartition(" ")[0] or text[:_LONGEST_COPY]
