"""Coverage and width of `plumbline rate`, and how often a promised threshold is broken, on labelled sets.

    python -m benchmarks.rates DEV.jsonl [DEV_ZH.jsonl ...] [--tier embedding] [--draws 100]

For each set with 30 answers of both kinds: 2,000 answers are drawn with their scores at a base rate of faithful ones
(.5, .8, .9, .95); 50, 100 or 200 of them are labelled in each draw. Widths are
beside those of as many labels alone, drawn at random. Promises are tried at 200 labels. Seeded; some minutes after
scoring.
"""

import argparse
import asyncio
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks.agreement_scores import score_rows
from plumbline.extras.calibration.labels import read_labels
from plumbline.ground.errors import InvalidInput
from plumbline.ground.settings import load_settings
from plumbline.judging.tiers.tier import TierName
from plumbline.rows.report.rates import choose_threshold, estimate_rate

_ROWS, _FEWEST, _GOOD = 2_000, 30, 0.85
_SHARES, _LABELS, _RISKS = (0.5, 0.8, 0.9, 0.95), (50, 100, 200), (0.1, 0.05)

Sets = dict[str, tuple[np.ndarray, np.ndarray]]


def scores_by_set(paths: list[str], tier: TierName) -> Sets:
    """Return the scores of faithful and of unfaithful answers of each set."""
    rows = [row for path in paths for row in read_labels(Path(path), default_dataset=path).rows]
    outcomes = asyncio.run(score_rows(rows, tier, load_settings(), concurrency=4, deadline_seconds=600.0))
    found: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for row, outcome in zip(rows, outcomes, strict=True):
        if outcome.score is not None:
            found[row.dataset][0 if row.label else 1].append(outcome.score)
    return {
        name: (np.array(good), np.array(bad))
        for name, (good, bad) in found.items()
        if min(len(good), len(bad)) >= _FEWEST
    }


def auroc(good: np.ndarray, bad: np.ndarray) -> float:
    """Return the chance that a faithful answer scores above an unfaithful one, ties half."""
    return float(np.mean((good[:, None] > bad) + 0.5 * (good[:, None] == bad)))


def simulate(sets: Sets, *, draws: int) -> dict[str, object]:
    """Return coverage by base rate and number of labels, widths by how well the tier ranks, and promises."""
    rng = np.random.default_rng(0)
    held_by_cell: dict[tuple[float, int], dict[str, float]] = defaultdict(dict)
    ratios: dict[str, list[float]] = defaultdict(list)
    broken: dict[float, dict[str, list[float]]] = {risk: defaultdict(list) for risk in _RISKS}
    through: dict[float, list[tuple[float, float]]] = {risk: [] for risk in _RISKS}
    refused = 0
    for name, (good, bad) in sets.items():
        for share in _SHARES:
            for count in _LABELS:
                held, width, plain = [], 0.0, 0.0
                for _ in range(draws):
                    unfaithful = (np.arange(_ROWS) >= share * _ROWS).astype(int)
                    scores = np.where(unfaithful, rng.choice(bad, _ROWS), rng.choice(good, _ROWS))
                    drawn = rng.permutation(_ROWS)
                    chosen, rest = drawn[:count], drawn[count:]
                    try:
                        found = estimate_rate(unfaithful[chosen], scores[chosen], scores[rest])
                    except InvalidInput:
                        refused += 1
                        continue
                    held.append(found.corrected.low <= unfaithful.mean() <= found.corrected.high)
                    width += found.corrected.high - found.corrected.low
                    plain += found.labels_only.high - found.labels_only.low
                    for risk in _RISKS if count == max(_LABELS) else ():
                        promise = choose_threshold(
                            unfaithful[chosen], scores[chosen], scores, risk=risk, confidence=0.95
                        )
                        let = None if promise.threshold is None else unfaithful[scores >= promise.threshold]
                        broken[risk][name].append(let is not None and bool(let.mean() > risk))
                        through[risk].append((promise.let_through, _oracle(unfaithful, scores, risk)))
                held_by_cell[share, count][name] = float(np.mean(held))
                ratios[name].append(width / plain)
    good_sets = [name for name, (good, bad) in sets.items() if auroc(good, bad) > _GOOD]
    means = {name: float(np.mean(each)) for name, each in ratios.items()}
    return {
        "sets": len(sets),
        "coverage": {
            f"faithful {share}, {count} labels": {
                "mean": round(float(np.mean(list(cell.values()))), 4),
                "below .94": sum(each < 0.94 for each in cell.values()),
                "lowest": min((value, name) for name, value in cell.items()),
            }
            for (share, count), cell in held_by_cell.items()
        },
        "width": round(float(np.mean(list(means.values()))), 3),
        "width_where_auroc_above_.85": round(float(np.mean([means[name] for name in good_sets])), 3)
        if good_sets
        else None,
        "sets_of_auroc_above_.85": len(good_sets),
        "refused": refused,
        "promises": {
            str(risk): {
                "broken": round(float(np.mean([np.mean(each) for each in broken[risk].values()])), 4),
                "worst_set": max((float(np.mean(each)), name) for name, each in broken[risk].items()),
                "let_through": round(float(np.mean([found for found, _ in through[risk]])), 3),
                "oracle": round(float(np.mean([best for _, best in through[risk]])), 3),
            }
            for risk in _RISKS
            if broken[risk]
        },
    }


def _oracle(unfaithful: np.ndarray, scores: np.ndarray, risk: float) -> float:
    """Return the largest share that a threshold lets through within the risk, all labels known."""
    ranked = np.argsort(-scores, kind="stable")
    bad = np.cumsum(unfaithful[ranked]) / np.arange(1, len(ranked) + 1)
    is_end = np.append(np.diff(scores[ranked]) != 0, True)
    kept = np.flatnonzero((bad <= risk) & is_end)
    return float(kept[-1] + 1) / len(scores) if len(kept) else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--tier", choices=("lexical", "embedding"), default="lexical")
    parser.add_argument("--draws", type=int, default=100)
    options = parser.parse_args()
    sets = scores_by_set(options.sets, TierName(options.tier))
    print(json.dumps(simulate(sets, draws=options.draws), indent=1))


if __name__ == "__main__":
    main()
