"""Final layers over what tiers 2 and 3 measure, fitted on pairs of answers of one set, beside the tier as it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.tree import DecisionTreeRegressor

from plumbline.extras.calibration.fitting import MeasuredAnswers, balanced_weights, fit_weights, predict
from plumbline.judging.tiers.calibration import Calibration, load_calibrations
from plumbline.judging.tiers.tier import TierName
from training.vectors import VectorStore

FloatArray = NDArray[np.float64]

# Of a claim's tokens, from their best cosines with tokens of the windows; `found`: the same token stands there.
STATISTICS: Final = (
    "mean",
    "least",
    "quarter",
    "below_half",
    "found",
    "mean_not_found",
    "least_not_found",
    "best_window",
    "windows_in_claim",
    "sentences",
    "in_order",
    "middle_mean",
    "middle_least",
    "middle_below",
)
_FEWEST = 5
_DEEPEST, _SMALLEST_LEAF, _OF_FEATURES, _OF_ROWS = 3, 60, 0.3, 0.6
_FARTHEST = 4.0


class Fitted(Protocol):
    """From features, shape (n, features), and the tier's logits to scores, the higher the more support."""

    def __call__(self, features: FloatArray, tier: FloatArray) -> FloatArray: ...


@dataclass(frozen=True, slots=True)
class Examples:
    """Answers for a fit: features (n, features), logits of the tier, labels, and the set of each."""

    features: FloatArray
    tier: FloatArray
    labels: FloatArray
    datasets: NDArray[np.str_]

    def pick(self, rows: NDArray[np.bool_]) -> "Examples":
        return Examples(self.features[rows], self.tier[rows], self.labels[rows], self.datasets[rows])

    def beside(self, other: "Examples") -> "Examples":
        """Return these answers and others."""
        names = ("features", "tier", "labels", "datasets")
        return Examples(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))


Fit = Callable[[Examples], Fitted]


def token_statistics(store: VectorStore, parts: Sequence[str], windows: Sequence[str]) -> list[float]:
    """Return the numbers named by `STATISTICS`; `parts` make one claim."""
    own = np.concatenate([store.place(part) for part in parts])
    said, half = store.last[own].astype(np.float32), _unit(store.middle[own])
    best, best_half = (np.full(len(own), -1.0, dtype=np.float32) for _ in range(2))
    found, place, seen = np.zeros(len(own), dtype=bool), np.zeros(len(own), dtype=np.int64), 0
    means, backwards, whole = [], [], []
    for window in windows:
        there = store.place(window)
        vectors = store.last[there].astype(np.float32)
        cosines = said @ vectors.T
        here = cosines.max(1)
        place = np.where(here > best, cosines.argmax(1) + seen, place)
        best = np.maximum(best, here)
        best_half = np.maximum(best_half, (half @ _unit(store.middle[there]).T).max(1))
        found |= np.isin(store.ids[own], store.ids[there])
        means.append(here.mean())
        backwards.append(cosines.max(0).mean())
        whole.append(_unit(said.mean(0)[None]) @ _unit(vectors.mean(0)[None]).T)
        seen += len(there) + 1
    missing = best[~found] if not found.all() else np.ones(1)
    steps = np.diff(place) == 1 if len(own) > 1 else np.ones(1)
    numbers = (
        *(best.mean(), best.min(), np.quantile(best, 0.25), (best < 0.5).mean(), found.mean()),
        *(missing.mean(), missing.min(), max(means), max(backwards), np.max(whole), steps.mean()),
        *(best_half.mean(), best_half.min(), (best_half < 0.6).mean()),
    )
    return [float(number) for number in numbers]


def tier_without(answers: MeasuredAnswers, others: NDArray[np.bool_]) -> Calibration:
    """Return the calibration of tier embedding with its weights fitted on some answers alone."""
    entries = load_calibrations(None).entries
    in_force = next(each for each in entries if (each.tier, each.language) == (TierName.EMBEDDING, "en"))
    some, aggregation = answers.pick(others), in_force.aggregation
    row_weights = balanced_weights(some)
    weights, intercept = fit_weights(some, in_force.gate, row_weights=row_weights, aggregation=aggregation)
    return in_force.model_copy(update={"weights": weights, "intercept": intercept})


def logits(answers: MeasuredAnswers, calibration: Calibration) -> FloatArray:
    scores = np.clip(predict(answers, calibration), 0.005, 0.995)
    return np.asarray(np.log(scores / (1 - scores)))


def features_of(answers: MeasuredAnswers, statistics: FloatArray) -> FloatArray:
    """Return features of answers from those of their claims: mean by length, least, most; and how many there are."""
    claims = np.column_stack(
        [answers.measures, answers.is_copy, answers.copied, np.log1p(answers.lengths), statistics]
    ).astype(np.float64)
    starts = np.searchsorted(answers.owners, np.arange(len(answers)))
    total = np.add.reduceat(answers.lengths, starts)
    mean = np.add.reduceat(claims * answers.lengths[:, None], starts) / total[:, None]
    edges = [reduce.reduceat(claims, starts) for reduce in (np.minimum, np.maximum)]
    counts = np.log(np.bincount(answers.owners, minlength=len(answers)))
    return np.column_stack([mean, *edges, counts, np.log1p(total)])


def fit_linear(examples: Examples, *, ridge: float) -> Fitted:
    """Fit a weight for each feature, and one for the tier's logit."""
    middle, scale = examples.features.mean(0), examples.features.std(0) + 1e-6

    def standard(features: FloatArray, tier: FloatArray) -> FloatArray:
        return np.column_stack([np.clip((features - middle) / scale, -_FARTHEST, _FARTHEST), tier])

    values, order = standard(examples.features, examples.tier), _Order(examples)

    def loss(weights: FloatArray) -> tuple[float, FloatArray]:
        value, gradient, _ = order.loss(values @ weights)
        return value + ridge * float(weights @ weights), values.T @ gradient + 2 * ridge * weights

    start = np.zeros(values.shape[1])
    weights = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 40}).x
    return lambda features, tier: np.asarray(standard(features, tier) @ weights)


def fit_trees(examples: Examples, *, rounds: int, rate: float, seed: int) -> Fitted:
    """Boost small trees upon the tier's logit."""
    order, draw = _Order(examples), np.random.default_rng(seed)
    score, trees = examples.tier.copy(), list[DecisionTreeRegressor]()
    for _ in range(rounds):
        _, gradient, curvature = order.loss(score)
        some = (draw.random(len(score)) < _OF_ROWS) & (curvature > 1e-12)
        tree = DecisionTreeRegressor(
            max_depth=_DEEPEST,
            min_samples_leaf=_SMALLEST_LEAF,
            max_features=_OF_FEATURES,
            random_state=int(draw.integers(2**31)),
        )
        steps = -gradient[some] / curvature[some]
        tree.fit(examples.features[some], steps, sample_weight=curvature[some])
        score += rate * tree.predict(examples.features)
        trees.append(tree)
    return lambda features, tier: tier + rate * sum(tree.predict(features) for tree in trees)


class _Order:
    """Log loss of the order of all pairs of a faithful and another answer of one set; each set counts the same."""

    def __init__(self, examples: Examples) -> None:
        self._pairs = []
        for name in np.unique(examples.datasets):
            of_set = examples.datasets == name
            both = [np.flatnonzero(of_set & (examples.labels == label)) for label in (1, 0)]
            if min(map(len, both)) >= _FEWEST:
                self._pairs.append(both)

    def loss(self, scores: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the loss, its gradient and its curvature by each score."""
        value, gradient, curvature = 0.0, np.zeros(len(scores)), np.zeros(len(scores))
        for faithful, other in self._pairs:
            ahead = np.clip(scores[faithful][:, None] - scores[other][None], -30, 30).astype(np.float32)
            wrong = 1 / (1 + np.exp(ahead))
            share = 1 / (ahead.size * len(self._pairs))
            value += share * float(np.log1p(np.exp(-ahead)).sum())
            bend = wrong * (1 - wrong)
            gradient[faithful] -= share * wrong.sum(1)
            gradient[other] += share * wrong.sum(0)
            curvature[faithful] += share * bend.sum(1)
            curvature[other] += share * bend.sum(0)
        return value, gradient, curvature


def _unit(vectors: NDArray[np.float16]) -> NDArray[np.float32]:
    wide = vectors.astype(np.float32)
    return np.asarray(wide / (np.linalg.norm(wide, axis=-1, keepdims=True) + 1e-6))
