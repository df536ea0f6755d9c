"""Train what might succeed the final layer of tier embedding, and measure it on sets that it has not seen.

    python -m training LABELS.jsonl --cache FOLDER --out scores.json --only layer --only head

Prints what it does to standard error; FILE gets the macro AUROC, by group and set. `ablations` fits the linear layer
without old measures, without people's labels, and without each kind of edit. docs/decisions/0015 has what came out.
"""

import argparse
import json
import os
import random
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from plumbline.extras.calibration.figures import measure_agreement
from plumbline.extras.calibration.fitting import MeasuredAnswers, balanced_weights
from plumbline.extras.calibration.resampling import ScoredRows
from plumbline.judging.tiers.calibration import Calibration
from plumbline.judging.tiers.lexical_features import WORD_MEASURES
from training.edits import BREAKING, KEEPING
from training.head import MatchedTokensHead, UpperLayers
from training.layer import (
    STATISTICS,
    Examples,
    Fit,
    Fitted,
    FloatArray,
    features_of,
    fit_linear,
    fit_trees,
    logits,
    tier_without,
    token_statistics,
)
from training.matching import Pair
from training.material import WORDS, Row, read_rows, words_of
from training.pairs import TRAINABLE, EditedClaim, edit_claims, rows_of_edited, words_alike
from training.trainer import Answer, Edited, Plan, Trainer
from training.vectors import VectorStore

_GROUPS: Final = json.loads((Path(__file__).parents[1] / "benchmarks" / "agreement_groups.json").read_text())
_SETS: Final = [name for group in _GROUPS.values() for name in group]
_PARTS: Final = ("layer", "ablations", "head", "upper")
_FOLDS: Final = 2
_EVERYDAY: Final = Path(__file__).parents[1] / "tests" / "data" / "everyday.jsonl"
_FAITHFUL: Final = "faithful"
# Weights of answers sum to 1, so that the usual penalty would flatten every slope.
_UNPENALISED: Final = 1e6
# Of a claim in the features of the layer, before the statistics of its tokens: alignment, words, copy, copied, length.
_OLD_COLUMNS: Final = len(("alignment", *WORD_MEASURES)) + 3

Rows = NDArray[np.bool_]
Scores = Mapping[str, tuple[float, float, float]]
Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Material:
    """Labelled rows, claims edited from them, everyday rows that are measured alone, and the vectors of all."""

    store: VectorStore
    rows: Sequence[Row]
    edited: Sequence[EditedClaim]
    everyday: Sequence[Row]


class Layers:
    """Final layers over the measures of all rows and edited claims."""

    def __init__(self, material: Material) -> None:
        store, edited = material.store, material.edited
        self._rows = material.rows
        self._answers, self._features = _measured(store, material.rows)
        self._everyday, self._everyday_features = _measured(store, material.everyday)
        self._kinds_of_everyday = np.array(_kinds_of(material.everyday))
        self._of_edits, self._edit_features = _measured(store, rows_of_edited(edited))
        self._kinds = np.array([made.edit for made in edited])
        # By the set that they were made of, none of whose edits may teach a fit that is measured on it.
        self._origins = np.array([made.row.dataset for made in edited])
        self.datasets = self._answers.datasets

    def left_out(
        self, fit: Fit, folds: Sequence[Rows], *, people: bool = True, edits: Rows | None = None, columns: Any = ...
    ) -> tuple[FloatArray, FloatArray]:
        """Return scores, and probabilities, by fits that saw no row, document or edit of the fold they are measured on.

        Args:
            edits: which edited claims take part, all that may; None: none.
            columns: of the features that are kept.
        """
        answers, of_edits = self._answers, self._of_edits
        scores, shares = np.zeros(len(answers)), np.zeros(len(answers))
        for held in folds:
            others = ~held & ~np.isin(answers.clusters, answers.clusters[held])
            calibration = tier_without(answers, others)
            examples = self._examples(answers, self._features[:, columns], calibration)
            seen = examples.pick(others if people else np.zeros(len(answers), dtype=bool))
            if edits is not None:
                apart = ~np.isin(of_edits.clusters, answers.clusters[held])
                apart &= ~np.isin(self._origins, np.unique(answers.datasets[held]))
                seen = seen.beside(
                    self._examples(of_edits, self._edit_features[:, columns], calibration).pick(apart & edits)
                )
            found = fit(seen)(examples.features, examples.tier)
            scores[held] = found[held]
            scale = LogisticRegression(C=_UNPENALISED).fit(
                found[others, None], answers.labels[others], sample_weight=balanced_weights(answers.pick(others))
            )
            shares[held] = scale.predict_proba(found[held, None])[:, 1]
        return scores, shares

    def each_alone(self) -> list[Rows]:
        return [self.datasets == name for name in _SETS if (self.datasets == name).any()]

    def in_folds(self) -> list[Rows]:
        fold = np.array([_fold(name) for name in self.datasets])
        return [fold == number for number in range(_FOLDS)]

    def run(self, settings: Mapping[str, Any], seed: int) -> dict[str, Figures]:
        linear = partial(fit_linear, ridge=settings["ridge"])
        trees = partial(fit_trees, rounds=settings["rounds"], rate=settings["rate"], seed=seed)
        every = np.ones(len(self._kinds), dtype=bool)
        plans: dict[str, tuple[Fit, Rows | None, Any]] = {
            "tier as it is": (_keep, None, ...),
            "linear, old measures": (linear, None, self._old()),
            "linear": (linear, None, ...),
            "linear, with edits": (linear, every, ...),
            "trees": (trees, None, ...),
            "trees, with edits": (trees, every, ...),
        }
        folds = self.each_alone()
        found: dict[str, Figures] = {}
        for name, (fit, edits, columns) in plans.items():
            figures = self._figures(name, *self.left_out(fit, folds, edits=edits, columns=columns))
            found[name] = {**figures, "everyday": self._judge_everyday(fit, edits, columns)}
        return found

    def ablate(self, settings: Mapping[str, Any]) -> dict[str, Figures]:
        """Measure the linear layer in two folds with something left out each."""
        linear = partial(fit_linear, ridge=settings["ridge"])
        every = np.ones(len(self._kinds), dtype=bool)
        old = self._old()
        new = np.setdiff1d(np.arange(self._features.shape[1]), old)
        plans: dict[str, dict[str, Any]] = {
            "tier as it is": {"fit": _keep},
            "all": {"edits": every},
            "people alone": {},
            "edits alone": {"people": False, "edits": every},
            "old measures alone": {"edits": every, "columns": old},
            "without old measures": {"edits": every, "columns": new},
        }
        plans |= {f"without {kind}": {"edits": self._kinds != kind} for kind in (*BREAKING, *KEEPING)}
        folds = self.in_folds()
        return {
            name: self._figures(name, *self.left_out(**{"fit": linear, "folds": folds, **plan}))
            for name, plan in plans.items()
        }

    def joined(self, scores: Scores, of_everyday: FloatArray) -> dict[str, Figures]:
        """Return figures of a network's three scores, and of all three joined with the tier, each set left out."""
        mine = np.array([row.id in scores for row in self._rows])
        values = np.array([scores.get(row.id, (0.0, 0.0, 0.0)) for row in self._rows])
        found = {
            name: self._figures(name, values[:, at], among=mine) for at, name in enumerate(("worst", "mean", "token"))
        }
        kept, self._features = self._features, values
        try:
            together = self.left_out(partial(fit_linear, ridge=0.001), [held & mine for held in self.each_alone()])
        finally:
            self._features = kept
        labels = self._answers.labels
        weights = balanced_weights(self._answers)
        alone = LogisticRegression(C=_UNPENALISED).fit(values[mine], labels[mine], sample_weight=weights[mine])
        everyday = self._by_kind(alone.predict_proba(of_everyday)[:, 1])
        return {
            **found,
            "joined": self._figures("joined with the tier", *together, among=mine),
            "everyday, all three": everyday,
        }

    def _judge_everyday(self, fit: Fit, edits: Rows | None, columns: Any) -> Figures:
        calibration = tier_without(self._answers, np.ones(len(self._answers), dtype=bool))
        examples = seen = self._examples(self._answers, self._features[:, columns], calibration)
        if edits is not None:
            more = self._examples(self._of_edits, self._edit_features[:, columns], calibration)
            seen = seen.beside(more.pick(edits))
        scored, asked = fit(seen), self._examples(self._everyday, self._everyday_features[:, columns], calibration)
        scores = scored(examples.features, examples.tier)[:, None]
        weights = balanced_weights(self._answers)
        scale = LogisticRegression(C=_UNPENALISED).fit(scores, self._answers.labels, sample_weight=weights)
        return self._by_kind(scale.predict_proba(scored(asked.features, asked.tier)[:, None])[:, 1])

    def _by_kind(self, shares: FloatArray) -> Figures:
        """Return, by kind of error, AUROC and balanced accuracy at one half against the faithful answers."""
        kinds, found = self._kinds_of_everyday, {}
        right = kinds == _FAITHFUL
        for kind in np.unique(kinds[~right]):
            some = right | (kinds == kind)
            passing = float((shares[right] >= 0.5).mean())
            caught = float((shares[kinds == kind] < 0.5).mean())
            auroc = float(roc_auc_score(right[some], shares[some]))
            found[str(kind)] = {"auroc": auroc, "balanced_accuracy": (passing + caught) / 2}
        told = {kind: {name: round(value, 3) for name, value in each.items()} for kind, each in found.items()}
        print(f"everyday: {told}", file=sys.stderr, flush=True)
        return found

    def _old(self) -> NDArray[np.int64]:
        width = _OLD_COLUMNS + len(STATISTICS)
        of_claims = [kind * width + column for kind in range(3) for column in range(_OLD_COLUMNS)]
        return np.array([*of_claims, 3 * width, 3 * width + 1])

    def _examples(self, answers: MeasuredAnswers, features: FloatArray, calibration: Calibration) -> Examples:
        return Examples(features, logits(answers, calibration), answers.labels, answers.datasets)

    def _figures(
        self, name: str, scores: FloatArray, shares: FloatArray | None = None, *, among: Rows | None = None
    ) -> Figures:
        by_set = {}
        for each in _SETS:
            rows = (self.datasets == each) & (among if among is not None else True)
            if len(np.unique(self._answers.labels[rows])) > 1:
                by_set[each] = float(roc_auc_score(self._answers.labels[rows], scores[rows]))
        groups = {group: [by_set[each] for each in names if each in by_set] for group, names in _GROUPS.items()}
        found: dict[str, Any] = {
            "macro": float(np.mean([*by_set.values()])),
            "groups": {group: float(np.mean(values)) for group, values in groups.items() if values},
            "sets": by_set,
        }
        if shares is not None:
            rows = np.isin(self.datasets, [*by_set]) & (among if among is not None else True)
            some = self._answers.pick(rows)
            datasets, clusters = ([str(each) for each in names] for names in (some.datasets, some.clusters))
            scored = ScoredRows(shares[rows], some.labels.astype(np.int64), datasets, clusters)
            found["ece"] = measure_agreement(scored, draws=1).pooled.ece.value
        told = {key: round(value, 4) for key, value in {"macro": found["macro"], **found["groups"]}.items()}
        print(f"{name}: {told}, ECE {found.get('ece')}", file=sys.stderr, flush=True)
        return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m training", description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("labels", type=Path)
    parser.add_argument("--cache", type=Path, required=True, help="folder for token vectors: 3 GB for 7,000 answers")
    parser.add_argument("--settings", type=Path, default=Path(__file__).parent / "settings.toml")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", action="append", choices=_PARTS, help="default: all")
    arguments = parser.parse_args(argv)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    started = time.perf_counter(), time.process_time()
    settings = tomllib.loads(arguments.settings.read_text(encoding="utf-8"))
    report: dict[str, Any] = {"settings": settings}
    rows = read_rows(arguments.labels, settings["answers"])
    everyday = read_rows(_EVERYDAY, len(_EVERYDAY.read_text(encoding="utf-8")))
    material = _read(rows, everyday, settings, arguments.cache)
    layers = Layers(material)
    for part in arguments.only or _PARTS:
        if part == "layer":
            report[part] = layers.run(settings[part], settings["seed"])
        elif part == "ablations":
            report[part] = layers.ablate(settings["layer"])
        else:
            report[part] = layers.joined(*_networks(part, material, settings))
        report["seconds"], report["processor_seconds"] = (
            time.perf_counter() - started[0],
            time.process_time() - started[1],
        )
        arguments.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


def _networks(part: str, material: Material, settings: Mapping[str, Any]) -> tuple[Scores, FloatArray]:
    """Train a network for each fold; return the scores of its rows by their ids, and those of everyday rows."""
    store, rows, edited, everyday = material.store, material.rows, material.edited, material.everyday
    own = settings[part]
    plan = Plan(
        epochs=own["epochs"],
        claims_at_once=own["claims_at_once"],
        learning_rate=own["learning_rate"],
        steps=own.get("steps", float("inf")),
        middle=part == "upper",
    )
    trainer = Trainer(store)
    pairs = [Edited(_pairs(row)[0], made) for row, made in zip(rows_of_edited(edited), edited, strict=True)]
    scores: dict[str, tuple[float, float, float]] = {}
    of_everyday = []
    for fold in range(_FOLDS):
        held = [row for row in rows if _fold(row.dataset) == fold]
        documents = {row.doc for row in held}
        others = [row for row in rows if _fold(row.dataset) != fold and row.doc not in documents]
        seen = {row.doc for row in others}
        people = [_answer(row) for row in others if row.dataset in TRAINABLE]
        made = [each for each in pairs if each.claim.row.doc in seen and _fold(each.claim.row.dataset) != fold]
        print(f"{part}, fold {fold + 1}: {len(people)} answers, {len(made)} edited claims", file=sys.stderr, flush=True)
        if part == "upper":
            make: Callable[[], Any] = partial(UpperLayers, store.network, words=len(WORDS))
        else:
            sizes = {"width": own["width"], "layers": own["layers"], "words": len(WORDS)}
            make = partial(MatchedTokensHead, store.table, **sizes)
        network = trainer.train(make, people, made, plan, settings["seed"] + fold)
        scores |= trainer.score(network, [_answer(row) for row in held], plan)
        found = trainer.score(network, [_answer(row) for row in everyday], plan)
        of_everyday.append([found[row.id] for row in everyday])
    return scores, np.mean(of_everyday, axis=0)


def _read(rows: Sequence[Row], everyday: Sequence[Row], settings: Mapping[str, Any], cache: Path) -> Material:
    store = VectorStore(cache)
    torch.set_num_threads(1)
    vocabulary = json.loads(store.model.reader.definition)["model"]["vocab"]
    edited = edit_claims(rows, words_alike(store.table, vocabulary), settings["seed"])
    edited = random.Random(settings["seed"]).sample(edited, min(settings["edited"], len(edited)))
    texts: list[str] = []
    for row in (*rows, *everyday):
        texts += row.compared
        for claim in row.claims:
            texts += [claim.text, *claim.parts, *row.passages.near(claim.text)]
    for made in edited:
        texts += [made.original, made.text, *made.row.passages.near(made.text)]
    print(f"{len(rows)} rows, {len(edited)} edited claims, {len(set(texts))} texts", file=sys.stderr, flush=True)
    store.add(texts)
    return Material(store, rows, edited, everyday)


def _measured(store: VectorStore, rows: Sequence[Row]) -> tuple[MeasuredAnswers, FloatArray]:
    """Return rows as tier embedding measures them, and their features."""
    claims = [claim for row in rows for claim in row.claims]
    statistics = np.array([token_statistics(store, claim.parts, row.compared) for row in rows for claim in row.claims])
    words = [[claim.finding.measures[name] for name in WORD_MEASURES] for claim in claims]
    answers = MeasuredAnswers(
        names=("alignment", *WORD_MEASURES),
        measures=np.column_stack([statistics[:, 0], words]),
        owners=np.repeat(np.arange(len(rows)), [len(row.claims) for row in rows]),
        lengths=np.array([claim.length for claim in claims], dtype=np.float64),
        is_copy=np.array([claim.finding.is_copy for claim in claims], dtype=bool),
        copied=np.array([claim.finding.copied for claim in claims], dtype=np.float64),
        labels=np.array([row.label for row in rows], dtype=np.float64),
        datasets=np.array([row.dataset for row in rows], dtype=np.str_),
        clusters=np.array([row.doc for row in rows], dtype=np.str_),
    )
    return answers, features_of(answers, statistics)


def _kinds_of(everyday: Sequence[Row]) -> list[str]:
    lines = _EVERYDAY.read_text(encoding="utf-8").splitlines()
    return [json.loads(lines[int(row.id) - 1])["kind"] for row in everyday]


def _answer(row: Row) -> Answer:
    return Answer(row.id, _pairs(row), row.label)


def _pairs(row: Row) -> list[Pair]:
    return [Pair(claim.text, row.passages.near(claim.text), words_of(claim)) for claim in row.claims]


def _fold(dataset: str) -> int:
    """Return the fold of a set, dealt group by group; those of no group are dealt by their names."""
    return (_SETS.index(dataset) if dataset in _SETS else len(_SETS) + len(dataset)) % _FOLDS


def _keep(examples: Examples) -> Fitted:
    return lambda features, tier: tier


if __name__ == "__main__":
    sys.exit(main())
