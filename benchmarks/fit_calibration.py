"""Fits the sigmoids of tiers embedding and lexical on labelled answers and writes a calibration file.

    python benchmarks/fit_calibration.py LABELS.jsonl --rows-per-label 40 --out app/judges/calibration.json

LABELS holds one JSON object a line: dataset, lang, question, contexts, answer, label (1 faithful, 0 not). Each
dataset weighs the same, and so does each label within it: 0.5 is the boundary on balanced data. Fitted is what the
service answers: the mean over sentences of their support, by log loss. The floor is the 95th percentile of the raw
similarity of sentences with the contexts of another dataset's answers.
"""

import argparse
import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score

from app.backends.sentence_encoder import TransformerEncoder
from app.errors import TierFailure
from app.generation.sample import Sample, SegmentedSample, segment
from app.generation.words import Language
from app.judges.calibration import VERBATIM_SUPPORT, Calibration, CalibrationTable
from app.judges.embedding import EmbeddingTier
from app.judges.lexical import MODEL as LEXICAL_MODEL
from app.judges.lexical import sentence_overlap
from app.judges.tier import TierName

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Row:
    dataset: str
    language: str
    label: int
    case: SegmentedSample


@dataclass(frozen=True, slots=True)
class Measured:
    """Raw similarities of one answer's sentences; NaN for a sentence that stands in a context verbatim."""

    dataset: str
    label: int
    raw: FloatArray


def read_rows(path: Path, skip: frozenset[str], rows_per_label: int | None) -> Iterable[Row]:
    taken: dict[tuple[str, int], int] = defaultdict(int)
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            fields = json.loads(line)
            key = (fields["dataset"], fields["label"])
            if fields["dataset"] in skip or (rows_per_label is not None and taken[key] >= rows_per_label):
                continue
            case = segment(Sample(fields["question"], tuple(fields["contexts"]), fields["answer"]))
            if case.checkable and case.has_context:
                taken[key] += 1
                yield Row(fields["dataset"], fields["lang"], fields["label"], case)


def measure_lexical(row: Row) -> Measured:
    raw = []
    for position in row.case.checkable:
        overlap, match = sentence_overlap(row.case.sentences[position].text, row.case.index)
        raw.append(np.nan if match and match.is_verbatim else overlap)
    return Measured(row.dataset, row.label, np.array(raw))


async def measure_embedding(row: Row, tier: EmbeddingTier) -> Measured | None:
    try:
        comparison = await tier.compare(row.case, seconds=600)
    except TierFailure:
        return None
    raw = [np.nan if match.is_verbatim else match.cosine for match in comparison.match_by_position.values()]
    return Measured(row.dataset, row.label, np.array(raw))


def predict(rows: Sequence[Measured], calibration: Calibration) -> FloatArray:
    """What the service would answer."""
    return np.array(
        [np.mean([VERBATIM_SUPPORT if np.isnan(x) else calibration.support(x) for x in row.raw]) for row in rows]
    )


def predict_ungated(rows: Sequence[Measured], midpoint: float, slope: float) -> FloatArray:
    means = []
    for row in rows:
        support = 1 / (1 + np.exp(-np.clip(slope * (row.raw - midpoint), -50, 50)))
        means.append(np.mean(np.where(np.isnan(row.raw), VERBATIM_SUPPORT, support)))
    return np.array(means)


def mismatch(rows: Sequence[Row], pairs: int) -> list[Row]:
    """Answers with the contexts of another dataset's answer; deterministic."""
    found = []
    only_one = len({row.dataset for row in rows}) == 1
    for position in range(0, len(rows), max(1, len(rows) // pairs)):
        row, other = rows[position], rows[(position + len(rows) // 2) % len(rows)]
        if row.dataset != other.dataset or only_one:
            sample = Sample("", other.case.sample.contexts, row.case.sample.answer)
            found.append(Row(row.dataset, row.language, 0, segment(sample)))
    return found


def floor_of(unrelated: Sequence[Measured]) -> float:
    return float(np.nanquantile(np.concatenate([row.raw for row in unrelated]), 0.95)) if unrelated else 0.0


def fit(rows: Sequence[Measured]) -> tuple[float, float]:
    """Midpoint and slope. Without the gate: fitted together, the gate takes the slope's place."""
    labels, weights = np.array([row.label for row in rows]), weigh(rows)

    def log_loss(parameters: FloatArray) -> float:
        p = np.clip(predict_ungated(rows, parameters[0], float(np.exp(parameters[1]))), 1e-6, 1 - 1e-6)
        return float(-(weights * (labels * np.log(p) + (1 - labels) * np.log(1 - p))).sum())

    best = minimize(
        log_loss, np.array([0.6, np.log(8.0)]), method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-9}
    )
    return float(best.x[0]), float(np.exp(best.x[1]))


def weigh(rows: Sequence[Measured]) -> FloatArray:
    counts: dict[tuple[str, int], int] = defaultdict(int)
    for row in rows:
        counts[row.dataset, row.label] += 1
    weights = np.array([1 / counts[row.dataset, row.label] for row in rows])
    return np.asarray(weights / weights.sum())


def reliability(rows: Sequence[Measured], scores: FloatArray) -> list[list[float]]:
    """Observed share of faithful answers around each of eleven scores, made monotone."""
    labels, weights = np.array([row.label for row in rows]), weigh(rows)
    curve = IsotonicRegression(y_min=0.02, y_max=0.98, out_of_bounds="clip").fit(scores, labels, sample_weight=weights)
    edges = np.unique(np.quantile(scores, np.linspace(0, 1, 11)))
    centres = (edges[:-1] + edges[1:]) / 2
    return [[round(float(x), 4), round(float(y), 4)] for x, y in zip(centres, curve.predict(centres), strict=True)]


def macro_auroc(rows: Sequence[Measured], scores: FloatArray) -> float:
    by_dataset: dict[str, list[int]] = defaultdict(list)
    for position, row in enumerate(rows):
        by_dataset[row.dataset].append(position)
    values = [roc_auc_score([rows[i].label for i in where], scores[where]) for where in by_dataset.values()]
    return float(np.mean(values))


def entry(
    tier: str, model: str, language: Language, rows: Sequence[Measured], *, floor: float, arguments: argparse.Namespace
) -> dict[str, object]:
    midpoint, slope = (round(value, 4) for value in fit(rows))
    calibration = Calibration(
        tier=TierName(tier), model=model, language=language, midpoint=midpoint, slope=slope, floor=round(floor, 4)
    )
    scores = predict(rows, calibration)
    auroc = macro_auroc(rows, scores)
    print(
        f"{tier:10} {language} rows={len(rows)} floor={floor:.4f} midpoint={midpoint:.4f} slope={slope:.3f} "
        f"macro AUROC={auroc:.4f}"
    )
    return {
        **calibration.model_dump(mode="json", include={"tier", "model", "language", "midpoint", "slope", "floor"}),
        "reliability": reliability(rows, scores),
        "source": {
            "data": f"{arguments.name} of {len({row.dataset for row in rows})} public data sets with human labels",
            "rows": len(rows),
            "date": datetime.now(UTC).date().isoformat(),
            "command": f"python benchmarks/fit_calibration.py LABELS.jsonl --rows-per-label {arguments.rows_per_label}",
            "auroc": round(auroc, 4),
        },
    }


async def run(arguments: argparse.Namespace) -> list[dict[str, object]]:
    rows = list(read_rows(arguments.labels, frozenset(arguments.skip.split(",")), arguments.rows_per_label))
    entries = []
    languages: tuple[Language, ...] = ("en", "zh")
    for language in languages:
        chosen = [row for row in rows if row.language == language]
        if chosen:
            floor = floor_of([measure_lexical(row) for row in mismatch(chosen, 200)])
            lexical = [measure_lexical(row) for row in chosen]
            entries.append(entry("lexical", LEXICAL_MODEL, language, lexical, floor=floor, arguments=arguments))
    encoder = TransformerEncoder()
    tier = EmbeddingTier(encoder, CalibrationTable(()), ThreadPoolExecutor(1), max_windows=100_000)
    english = [await measure_embedding(row, tier) for row in rows if row.language == "en"]
    pairs = mismatch([row for row in rows if row.language == "en"], 100)
    unrelated = [measured for row in pairs if (measured := await measure_embedding(row, tier)) is not None]
    encoder.close()
    kept = [row for row in english if row is not None]
    print(f"embedding: {len(english) - len(kept)} of {len(english)} rows refused")
    entries.append(entry("embedding", encoder.model, "en", kept, floor=floor_of(unrelated), arguments=arguments))
    return entries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--name", default="development part", help="how the data is called in the file")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--skip", default="frank_xsum,rank19,rgb_en_fact", help="datasets left out")
    parser.add_argument("--rows-per-label", type=int, default=None)
    arguments = parser.parse_args()
    entries = asyncio.run(run(arguments))
    arguments.out.write_text(json.dumps({"version": 1, "entries": entries}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
