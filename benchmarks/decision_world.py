"""Labelled rows as a world that scripted judges know: which sentence is true, and of a false one what is wrong with it.

Sentences are known where a row has one that can be checked, is faithful, or has spans that people marked. False ones
are also planted: a faithful sentence with another number, name, month, weekday or negation, which no context has.
"""

import calendar
import hashlib
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import SegmentedSample, segment
from plumbline.judging.text.words import content_words
from plumbline.rows.report.tallies import wilson_share

_MONTHS, _DAYS = calendar.month_name[1:], list(calendar.day_name)
_DATE = re.compile(rf"\b({'|'.join((*_MONTHS, *_DAYS))})s?\b")
# No list number, citation mark, link or part of one.
_NUMBER = re.compile(r"(?<![\w.,\[(/=-])(?<!^)(\d{1,4})(?![\w\]/=-]|[.,]\d|[, \d]*\])")
_NAME = re.compile(r"(?<=[a-z,] )([A-Z][a-z]{3,})(?![\w’'])")
_VERB = re.compile(r"\b(is|was|are|were|has|had|can|will)\b(?! not\b)")
_NUMBER_WORDS = re.compile(
    r"\d|[一二三四五六七八九十百千万]+[年月日个人岁]|\b(one|two|three|four|five|six|seven|eight|nine|ten)\b"
)
# The number of a list's item, emphasis and the number of a passage say nothing of the contexts' matter.
_MARK = re.compile(r"[\W_]*(?:\d{1,2}[.)]\s)?[\W_]*")
_REFERENCE = re.compile(r"\bpassages? \d(?:[\d, &]|and)*", re.IGNORECASE)
_MOST_WORDS = 6
_HARMLESS = ("Benign", "Questionable")
KINDS = ("number", "date", "name", "negation", "other")


@dataclass(frozen=True, slots=True)
class WorldRow:
    """A row whose sentences are known: `truths` by position of those that can be checked, `kinds` of the false ones."""

    name: str
    sample: Sample
    label: int
    truths: Mapping[int, bool]
    kinds: Mapping[int, str]


class World:
    """Knowledge of scripted judges about the rows: truth and kind of error of each sentence, by its contexts."""

    def __init__(self, rows: Sequence[WorldRow]) -> None:
        self.rows = tuple(rows)
        self._known: dict[str, tuple[bool, str]] = {}
        for row in rows:
            case = segment(row.sample)
            for position, truth in row.truths.items():
                key = _key(case.sentences[position].text, row.sample.contexts)
                self._known[key] = (truth, row.kinds.get(position, "other"))

    def find(self, statement: str, contexts: Sequence[str]) -> tuple[bool, str] | None:
        """Return truth and kind; None for a sentence of no row, as of a control."""
        return self._known.get(_key(statement, contexts))


def _key(statement: str, contexts: Sequence[str]) -> str:
    first = "".join(next(iter(contexts), "").split())[:120]
    return hashlib.sha256(f"{''.join(statement.split())}\0{first}".encode()).hexdigest()


def read_rows(paths: Sequence[Path]) -> list[WorldRow]:
    """Read labelled rows; those of which no sentence can be known are left out."""
    rows = []
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            raw = json.loads(line)
            sample = Sample(raw.get("question", ""), tuple(raw["contexts"]), raw["answer"])
            case = segment(sample)
            if case.needs_judge and case.checkable and (truths := _truths(raw, case)):
                kinds = {at: _marked_kind(raw, case, at) for at, truth in truths.items() if not truth}
                rows.append(WorldRow(raw["id"], sample, int(raw["label"]), truths, kinds))
    return rows


def _truths(raw: Mapping[str, Any], case: SegmentedSample) -> dict[int, bool]:
    checkable = case.checkable
    if raw["label"]:
        return dict.fromkeys(checkable, True)
    spans = _spans(raw)
    if spans:
        truths = {at: not any(_meets(case, at, span) for span in spans) for at in checkable}
        return truths if not all(truths.values()) else {}
    return {checkable[0]: False} if len(checkable) == 1 else {}


def _spans(raw: Mapping[str, Any]) -> list[tuple[int, int]]:
    return [
        (start, end)
        for start, end, *kind in raw.get("spans") or ()
        if not str(kind[:1]).strip("[']").startswith(_HARMLESS)
    ]


def _meets(case: SegmentedSample, at: int, span: tuple[int, int]) -> bool:
    sentence = case.sentences[at]
    return span[0] < sentence.end and span[1] > sentence.start


def _marked_kind(raw: Mapping[str, Any], case: SegmentedSample, at: int) -> str:
    """Return what people marked in the sentence in few words: a number (or date), a name, or other words."""
    sentence = case.sentences[at]
    first = sentence.start + _MARK.match(sentence.text).end()  # type: ignore[union-attr]
    # Longer spans are whole statements, of which a number or name is a part.
    spans = [(start, end) for start, end in _spans(raw) if len(raw["answer"][start:end].split()) <= _MOST_WORDS]
    spans = [(max(start, first), end) for start, end in spans if _meets(case, at, (start, end))]
    marked = [(start, _REFERENCE.sub("", raw["answer"][start:end])) for start, end in spans]
    for _, text in marked:
        if _DATE.search(text):
            return "date"
        if _NUMBER_WORDS.search(text):
            return "number"
    # The first word of a sentence has a capital anyway: "Outdoor seating is not available" has no name.
    named = (text if start <= first and not text.istitle() else f"x {text}" for start, text in marked)
    return "name" if any(map(_NAME.search, named)) else "other"


def plant(rows: Sequence[WorldRow], *, seed: int) -> Iterator[WorldRow]:
    """Yield faithful rows of one sentence with one thing changed in it, each kind in turn where it can be."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    names = sorted({name[1] for row in rows for name in _NAME.finditer(row.sample.answer)})
    plans = list(changed_answers.items())
    for at, row in enumerate(rows):
        if not row.label or len(row.truths) != 1:
            continue
        for kind, change in plans[at % len(plans) :] + plans[: at % len(plans)]:
            texts = "\n".join((row.sample.question, *row.sample.contexts))
            if changed := change(row.sample.answer, texts, names, draw):
                sample = replace(row.sample, answer=changed)
                (position,) = row.truths
                case = segment(sample)
                if case.needs_judge and tuple(case.checkable) == (position,):
                    yield WorldRow(f"{row.name}-{kind}", sample, 0, {position: False}, {position: kind})
                break


def _other_number(text: str, contexts: str, names: Sequence[str], draw: random.Random) -> str | None:
    for found in draw.sample(all_found := list(_NUMBER.finditer(text)), len(all_found)):
        value = int(found[1])
        others = [
            value + step for step in (3, 7, 11, 20, 100) if not re.search(rf"(?<!\d){value + step}(?!\d)", contexts)
        ]
        if re.search(rf"(?<!\d){value}(?!\d)", contexts) and others:
            return f"{text[: found.start()]}{draw.choice(others)}{text[found.end() :]}"
    return None


def _other_name(text: str, contexts: str, names: Sequence[str], draw: random.Random) -> str | None:
    for found in draw.sample(all_found := list(_NAME.finditer(text)), len(all_found)):
        others = [name for name in draw.sample(names, min(20, len(names))) if name not in contexts and name not in text]
        if found[1] in contexts and others:
            return f"{text[: found.start()]}{others[0]}{text[found.end() :]}"
    return None


def _other_date(text: str, contexts: str, names: Sequence[str], draw: random.Random) -> str | None:
    found = _DATE.search(text)
    others = [each for each in (_DAYS if found and found[1] in _DAYS else _MONTHS) if each not in contexts]
    if found is None or found[1] not in contexts or not others:
        return None
    return f"{text[: found.start()]}{draw.choice(others)}{text[found.end(1) :]}"


def _negated(text: str, contexts: str, names: Sequence[str], draw: random.Random) -> str | None:
    found = _VERB.search(text)
    return f"{text[: found.end()]} not{text[found.end() :]}" if found else None


changed_answers = {"number": _other_number, "name": _other_name, "date": _other_date, "negation": _negated}


def place(statement: str, contexts: Mapping[str, str]) -> str | None:
    """Return the id of the context with most words of a statement; None if none has any."""
    wanted = frozenset(content_words(statement))
    shares = {name: len(wanted & frozenset(content_words(text))) for name, text in contexts.items()}
    best = max(shares, key=lambda name: shares[name], default=None)
    return best if best is not None and shares[best] else None


def interval(part: int, whole: int) -> tuple[float, ...]:
    """Return a share with its 95 % interval; () of nothing."""
    found = wilson_share(part / whole, whole) if whole else None
    return (round(found.share, 4), round(found.low, 4), round(found.high, 4)) if found else ()
