"""Citations of human-labelled answers with their marks moved to another passage: how many are told.

    python benchmarks/citations.py DEV.jsonl

Reads the rows of `hagrid` and `expertqa` that people found fully supported and that cite passages. Each
mark is moved to a passage of another row. Prints how many of the moved marks tier lexical tells, and its verdicts on
those that were left alone.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

from plumbline.ground.concurrency import InlineExecutor
from plumbline.judging.citations import judge_citations
from plumbline.judging.text.citation_marks import find_marks
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.tiers.calibration import load_calibrations
from plumbline.judging.tiers.lexical import LexicalTier

_SETS = ("hagrid", "expertqa")
_NUMBER = re.compile(r"\[(\d+)\]")
_SOUND = ("supported", "partial")


def main() -> None:
    calibrations = load_calibrations(None)
    tier = LexicalTier(calibrations, InlineExecutor())

    def verdicts(sample: Sample) -> list[tuple[str, int | None, str]]:
        case = segment(sample)
        if not case.needs_judge:
            return []
        found = judge_citations(case, tier.judge_now(case).claims, tier=tier.name, calibrations=calibrations)
        return [(each.mark.text, each.mark.context, each.verdict.value) for each in found.citations] if found else []

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
        wrong = len(sample.contexts) - 1
        for marks in find_marks(sample, split_sentences(sample.answer)).by_sentence.values():
            mark = marks[0]
            moved = sample.answer[: mark.start] + f"[{max(numbers, default=0) + 1}]" + sample.answer[mark.end :]
            found = [each for each in verdicts(Sample(sample.question, sample.contexts, moved)) if each[1] == wrong]
            if found:
                is_told = all(verdict not in _SOUND for _, _, verdict in found)
                counts[row["dataset"], "moved: told" if is_told else "moved: missed"] += 1
    for key, count in sorted(counts.items()):
        print(*key, count)


if __name__ == "__main__":
    main()
