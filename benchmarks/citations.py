"""Citations of human-labelled answers with their marks moved to another passage: how many are told.

    python benchmarks/citations.py DEV.jsonl

Reads the rows of `hagrid` and `expertqa` that people found fully supported and that cite passages. Each
mark is moved to a passage of another row, and to each passage that is cited elsewhere in its own row. Prints how many
of the moved marks tier lexical tells, and its verdicts on those that were left alone. Passages of one row are `unlike`
if they share less than a quarter of the words of the shorter one, `alike` from a half.
"""

import json
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from plumbline.ground.concurrency import InlineExecutor
from plumbline.judging.citations import judge_citations
from plumbline.judging.text.citation_marks import find_marks
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.tiers.calibration import load_calibrations
from plumbline.judging.tiers.evidence.verdict_rules import word_stems
from plumbline.judging.tiers.lexical import LexicalTier

_SETS = ("hagrid", "expertqa")
_NUMBER = re.compile(r"\[(\d+)\]")
_SOUND = ("supported", "partial")
_UNLIKE, _ALIKE = 0.25, 0.5


def likeness(one: str, other: str) -> str:
    """Return `unlike`, `between` or `alike` for two passages."""
    words, others = word_stems(one), word_stems(other)
    share = len(words & others) / max(1, min(len(words), len(others)))
    return "unlike" if share < _UNLIKE else "alike" if share >= _ALIKE else "between"


def main() -> None:
    calibrations = load_calibrations(None)
    tier = LexicalTier(calibrations, InlineExecutor())

    def verdicts(sample: Sample) -> list[tuple[int, int | None, str]]:
        case = segment(sample)
        if not case.needs_judge:
            return []
        found = judge_citations(case, tier.judge_now(case).claims, tier=tier.name, calibrations=calibrations)
        return [(each.mark.start, each.mark.context, each.verdict.value) for each in found.citations] if found else []

    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["dataset"] in _SETS and row["label"] == 1]
    counts: Counter[tuple[str, str]] = Counter()
    for row, stranger in zip(rows, rows[1:] + rows[:1], strict=True):
        # A passage on another subject, with a number of its own.
        numbers = [int(match[1]) for text in row["contexts"] if (match := _NUMBER.match(text))]
        added = _NUMBER.sub(f"[{max(numbers, default=0) + 1}]", stranger["contexts"][0])
        sample = Sample(row["question"], (*row["contexts"], added), row["answer"])
        for _, context, verdict in verdicts(sample):
            if context is not None:
                counts[row["dataset"], f"kept: {verdict}"] += 1
        marks_by_sentence = find_marks(sample, split_sentences(sample.answer)).by_sentence
        label_by_context = {mark.context: mark.label for marks in marks_by_sentence.values() for mark in marks}
        wrong = len(sample.contexts) - 1
        label_by_context[wrong] = str(max(numbers, default=0) + 1)
        for marks in marks_by_sentence.values():
            mark, here = marks[0], {each.context for each in marks}
            for context, label in label_by_context.items():
                if context is None or mark.context is None or context in here:
                    continue
                moved = f"{sample.answer[: mark.start]}[{label}]{sample.answer[mark.end :]}"
                judged = verdicts(replace(sample, answer=moved))
                found = [verdict for start, target, verdict in judged if (start, target) == (mark.start, context)]
                passages = sample.contexts[mark.context], sample.contexts[context]
                kind = "" if context == wrong else f" within, {likeness(*passages)}"
                if found:
                    is_told = found[0] not in _SOUND
                    counts[row["dataset"], f"moved{kind}: {'told' if is_told else 'missed'}"] += 1
    for key, count in sorted(counts.items()):
        print(*key, count)


if __name__ == "__main__":
    main()
