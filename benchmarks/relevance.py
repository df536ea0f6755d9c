"""AUROC of the relevance that tiers without a judge estimate: an answer's own question against one of another row.

    python benchmarks/relevance.py DEV.jsonl

Of each set of questions and answers, a question (or an answer) is drawn from another row of the set, seeded. Dialogues
are counted apart: most of their turns ask nothing.
"""

import json
import random
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.tiers.metrics import Estimator

# Estimates with the row's own texts, with another's question, with another's answer.
Found = tuple[list[float], list[float], list[float]]
_FEWEST = 50
_TRIES = 8


def auroc(relevant: list[float], others: list[float]) -> float:
    """Return the share of pairs in the right order, ties one half."""
    pairs = [(mine > other) + (mine == other) / 2 for mine in relevant for other in others]
    return sum(pairs) / len(pairs)


def estimate(row: dict[str, Any], question: str, answer: str) -> float:
    """Return the estimated relevance of an answer to a question, beside the row's contexts."""
    case = segment(Sample(question, tuple(row["contexts"]), answer))
    return Estimator(case, lambda _: None).answer_relevance() or 0.0


def main(path: str) -> None:
    """Print the AUROC of each set, and of each language over all rows of one kind."""
    rows_by_set = defaultdict(list)
    for line in Path(path).read_text("utf-8").splitlines():
        row = json.loads(line)
        if row["question"].strip() and row["answer"].strip():
            kind = "dialogue" if row["task"] == "dialogue" else "questions"
            rows_by_set[row["lang"], kind, row["dataset"]].append(row)
    pooled: dict[tuple[str, str], Found] = defaultdict(lambda: ([], [], []))
    for (language, kind, name), rows in sorted(rows_by_set.items()):
        if len(rows) < _FEWEST:
            continue
        chance = random.Random(0)  # noqa: S311
        found: Found = ([], [], [])
        for row in rows:
            drawn = (chance.choice(rows) for _ in range(_TRIES))
            other = next((each for each in drawn if each["question"] != row["question"]), None)
            if other is None:
                continue
            found[0].append(estimate(row, row["question"], row["answer"]))
            found[1].append(estimate(row, other["question"], row["answer"]))
            found[2].append(estimate(row, row["question"], other["answer"]))
        for mine, theirs in zip(pooled[language, kind], found, strict=True):
            mine.extend(theirs)
        _print(f"{language} {kind} {name}", found)
    for (language, kind), found in pooled.items():
        _print(f"{language} {kind}, all", found)


def _print(name: str, found: Found) -> None:
    own, by_question, by_answer = found
    areas = auroc(own, by_question), auroc(own, by_answer)
    print(f"{name}: {len(own)} rows, other question {areas[0]:.3f}, other answer {areas[1]:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
