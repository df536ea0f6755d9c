"""Train the head of tier embedding on labels and edits, and measure it on sets that it has not seen.

    python -m training LABELS.jsonl --out scores.json --settings training/settings.toml

Prints what it does to standard error; FILE gets the macro AUROC, by set, of the head alone and joined with the tier as
it is. The weights of each fold go beside it. docs/decisions/0015 has what came out.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch import nn

from benchmarks.agreement_scores import score_rows
from plumbline.extras.calibration.labels import read_labels
from plumbline.ground.settings import Settings
from plumbline.judging.tiers.tier import TierName
from training.head import HeadShape, UnsupportedHead
from training.material import Row, read_rows
from training.pairs import TRAINABLE, EditedClaim, edit_claims, words_alike, wrong_tokens
from training.vectors import VectorStore

_GROUPS = Path(__file__).parents[1] / "benchmarks" / "agreement_groups.json"
_SENTENCES_AT_ONCE = 48
_SENTENCES_OF_ROW = 8
_STEPS_TO_WARM_UP = 200
# Of the loss of a wrong token beside one that is right: most are right.
_WRONG_WEIGHT = 3.0

Pair = tuple[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Score:
    """What the head says of an answer: its worst sentence, the mean of them, and the worst token."""

    worst: float
    mean: float
    token: float


class Trainer:
    """Training and scoring of one head over texts that were read once."""

    def __init__(self, settings: Mapping[str, Any], store: VectorStore) -> None:
        self._settings = settings
        self._store = store
        self._vectors = torch.from_numpy(store.vectors)
        self._ids = torch.from_numpy(store.ids.astype(np.int64))

    def train(self, rows: Sequence[Row], edited: Sequence[EditedClaim], seed: int) -> UnsupportedHead:
        torch.manual_seed(seed)
        draw = random.Random(seed)
        settings = self._settings
        head = UnsupportedHead(HeadShape(width=settings["width"], layers=settings["layers"]), self._store.table)
        optimizer = torch.optim.AdamW(
            head.parameters(), lr=settings["learning_rate"], weight_decay=settings["weight_decay"]
        )
        steps = settings["epochs"] * len(self._chunks(rows, edited, draw))
        done, losses = 0, defaultdict[str, list[float]](list)
        for epoch in range(settings["epochs"]):
            head.train()
            for chunk in self._chunks(rows, edited, draw)[: steps - done]:
                for group in optimizer.param_groups:
                    warm = min(1.0, (done + 1) / _STEPS_TO_WARM_UP)
                    group["lr"] = settings["learning_rate"] * warm * (1 - 0.95 * done / steps)
                kind = "people" if isinstance(chunk[0], Row) else "edits"
                loss = self._loss_of_rows(head, chunk, draw) if kind == "people" else self._loss_of_edits(head, chunk)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(head.parameters(), 1.0)
                optimizer.step()
                losses[kind].append(loss.item())
                done += 1
            means = {kind: round(float(np.mean(found[-100:])), 3) for kind, found in losses.items()}
            print(f"epoch {epoch + 1}: step {done} of {steps}, loss {means}", file=sys.stderr, flush=True)
        return head

    def score(self, head: UnsupportedHead, rows: Sequence[Row]) -> dict[str, Score]:
        """Return the scores by the id of the row: logits, the higher the more support."""
        pairs = [(row.id, self._pair(row, text)) for row in rows for text in row.sentences]
        pairs.sort(key=lambda each: self._length(each[1]))
        found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        head.eval()
        with torch.inference_mode():
            for start in range(0, len(pairs), self._settings["claims_at_once"]):
                some = pairs[start : start + self._settings["claims_at_once"]]
                claim, each = head(*self._batch([pair for _, pair in some]))
                for (row, _), logit, token in zip(some, claim.tolist(), each.max(1).values.tolist(), strict=True):
                    found[row].append((-logit, -token))
        return {
            row: Score(min(s for s, _ in both), float(np.mean([s for s, _ in both])), min(t for _, t in both))
            for row, both in found.items()
        }

    def _chunks(self, rows: Sequence[Row], edited: Sequence[EditedClaim], draw: random.Random) -> list[list[Any]]:
        """Return batches of texts of about one length, in an order drawn."""
        size = self._settings["claims_at_once"]
        made = sorted(edited, key=lambda each: self._length(self._pair(each.row, each.text)) + draw.random() * 40)
        chunks: list[list[Any]] = [list(made[start : start + size]) for start in range(0, len(made), size)]
        chunk: list[Row] = []
        for row in sorted(
            rows, key=lambda row: (len(row.sentences) > 1, len(row.sentences[0]) + sum(map(len, row.passages.windows)))
        ):
            chunk.append(row)
            if sum(min(_SENTENCES_OF_ROW, len(each.sentences)) for each in chunk) >= _SENTENCES_AT_ONCE:
                chunks.append(list(chunk))
                chunk = []
        if chunk:
            chunks.append(list(chunk))
        draw.shuffle(chunks)
        return chunks

    def _loss_of_edits(self, head: UnsupportedHead, chunk: Sequence[EditedClaim]) -> Any:
        claim, each = head(*self._batch([self._pair(made.row, made.text) for made in chunk]))
        wanted = torch.tensor([float(made.is_broken) for made in chunk])
        loss = nn.functional.binary_cross_entropy_with_logits(claim, wanted)
        wrong, own = torch.zeros_like(each), torch.zeros_like(each)
        for index, made in enumerate(chunk):
            marks = wrong_tokens(made, self._store)[: self._settings["claim_tokens"]]
            wrong[index, : len(marks)] = torch.tensor(marks).float()
            own[index, : len(marks)] = 1
        by_token = nn.functional.binary_cross_entropy_with_logits(each, wrong, reduction="none")
        return loss + (by_token * own * (1 + (_WRONG_WEIGHT - 1) * wrong)).sum() / own.sum()

    def _loss_of_rows(self, head: UnsupportedHead, chunk: Sequence[Row], draw: random.Random) -> Any:
        """Return the loss of whole answers: the soft maximum over their sentences meets the label."""
        pairs, owners = [], []
        for index, row in enumerate(chunk):
            some = draw.sample(list(row.sentences), min(_SENTENCES_OF_ROW, len(row.sentences)))
            pairs += [self._pair(row, text) for text in some]
            owners += [index] * len(some)
        claim, _ = head(*self._batch(pairs))
        owner = torch.tensor(owners)
        powers = torch.exp(2 * claim.clamp(-10, 10))
        total = torch.zeros(len(chunk)).index_add(0, owner, powers)
        count = torch.zeros(len(chunk)).index_add(0, owner, torch.ones(len(owners)))
        unfaithful = torch.tensor([1.0 - row.label for row in chunk])
        return nn.functional.binary_cross_entropy_with_logits(0.5 * torch.log(total / count), unfaithful)

    def _pair(self, row: Row, text: str) -> Pair:
        return text, [row.passages.windows[index] for index in row.passages.near(text)]

    def _length(self, pair: Pair) -> int:
        most: int = self._settings["tokens"]
        return min(most, sum(len(self._store.tokens_of(text)) for text in (pair[0], *pair[1])))

    def _batch(self, pairs: Sequence[Pair]) -> tuple[Any, Any, Any, Any]:
        most = self._settings["tokens"]
        places: list[NDArray[np.int64]] = []
        segments: list[NDArray[np.int64]] = []
        for text, windows in pairs:
            found = [self._place(text)[: self._settings["claim_tokens"]], *map(self._place, windows)]
            places.append(np.concatenate(found)[:most])
            segments.append(np.repeat(np.arange(len(found)), [len(each) for each in found])[:most])
        width = max(map(len, places))
        at = torch.from_numpy(np.stack([np.pad(each, (0, width - len(each))) for each in places]))
        segment = torch.from_numpy(np.stack([np.pad(each, (0, width - len(each))) for each in segments]))
        mask = torch.arange(width)[None, :] < torch.tensor([len(each) for each in places])[:, None]
        return self._vectors[at].float(), self._ids[at], segment, mask

    def _place(self, text: str) -> NDArray[np.int64]:
        row = self._store.rows[text]
        return np.arange(self._store.bounds[row], self._store.bounds[row + 1])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m training", description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("labels", type=Path)
    parser.add_argument("--settings", type=Path, default=Path(__file__).parent / "settings.toml")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args(argv)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    started = time.perf_counter()
    settings = tomllib.loads(arguments.settings.read_text(encoding="utf-8"))
    rows = read_rows(arguments.labels)
    base = _tier_scores(arguments.labels)
    # The tier computes in its callers' threads; a batch of training is one thread's work without this.
    torch.set_num_threads(arguments.threads)
    store, edited = _read(rows, settings)
    trainer = Trainer(settings, store)
    scores: dict[str, Score] = {}
    for fold, (held, rest) in enumerate(_folds(rows, settings["folds"])):
        documents = {row.doc for row in rest}
        usable = [made for made in edited if made.row.doc in documents and made.edit not in settings["without"]]
        usable = random.Random(fold).sample(usable, min(settings["edited"], len(usable))) if settings["edits"] else []
        people = [row for row in rest if row.dataset in TRAINABLE] if settings["people"] else []
        print(f"fold {fold + 1}: {len(people)} rows, {len(usable)} edited claims", file=sys.stderr, flush=True)
        head = trainer.train(people, usable, settings["seed"] + fold)
        torch.save(head.state_dict(), arguments.out.with_suffix(f".fold{fold + 1}.pt"))
        scores |= trainer.score(head, held)
        report = {"settings": settings, **_figures(rows, scores, base), "seconds": time.perf_counter() - started}
        arguments.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


def _read(rows: Sequence[Row], settings: Mapping[str, Any]) -> tuple[VectorStore, list[EditedClaim]]:
    store = VectorStore([])
    vocabulary = json.loads(store.model.reader.definition)["model"]["vocab"]
    edited = edit_claims(rows, words_alike(store.table, vocabulary), settings["seed"])
    texts = [text for row in rows for text in (*row.sentences, *row.passages.windows)]
    texts += [text for made in edited for text in (made.original, made.text)]
    print(f"{len(rows)} rows, {len(edited)} edited claims, {len(set(texts))} texts", file=sys.stderr, flush=True)
    store.add(texts)
    return store, edited


def _folds(rows: Sequence[Row], count: int) -> Iterator[tuple[list[Row], list[Row]]]:
    """Yield the rows of some sets, and those of the others that share no document with them."""
    groups = json.loads(_GROUPS.read_text(encoding="utf-8")).values()
    named = [name for group in groups for name in group]
    order = named + sorted({row.dataset for row in rows} - set(named))
    for fold in range(count):
        held = [row for row in rows if order.index(row.dataset) % count == fold]
        documents = {row.doc for row in held}
        yield held, [row for row in rows if order.index(row.dataset) % count != fold and row.doc not in documents]


def _tier_scores(labels: Path) -> dict[str, float]:
    """Return the score of tier embedding as it is, by line; rows that it does not score are left out."""
    rows = [row for row in read_labels(labels).rows if row.lang == "en"]
    run = score_rows(rows, TierName.EMBEDDING, Settings(), concurrency=4, deadline_seconds=600)
    outcomes = asyncio.run(run)
    return {str(row.line): each.score for row, each in zip(rows, outcomes, strict=True) if each.score is not None}


def _figures(rows: Sequence[Row], scores: Mapping[str, Score], base: Mapping[str, float]) -> dict[str, object]:
    """Return AUROC by set and their mean: of the tier, of the head, and of both joined on all other sets."""
    named = {name for group in json.loads(_GROUPS.read_text(encoding="utf-8")).values() for name in group}
    table: dict[str, list[list[float]]] = defaultdict(list)
    for row in rows:
        if row.id in scores and row.id in base and row.dataset in named:
            share = min(max(base[row.id], 0.005), 0.995)
            score = scores[row.id]
            table[row.dataset].append([row.label, np.log(share / (1 - share)), score.worst, score.mean, score.token])
    sets = {name: np.array(found) for name, found in table.items() if len({each[0] for each in found}) > 1}
    found: dict[str, dict[str, float]] = {"tier": {}, "worst": {}, "mean": {}, "token": {}, "joined": {}}
    for name, values in sets.items():
        for column, kind in enumerate(("tier", "worst", "mean", "token"), start=1):
            found[kind][name] = float(roc_auc_score(values[:, 0], values[:, column]))
        others = [each for other, each in sets.items() if other != name]
        if others:
            every = np.concatenate(others)
            weights = np.concatenate([np.full(len(each), 300 / len(each)) for each in others])
            joined = LogisticRegression(max_iter=500).fit(every[:, 1:], every[:, 0], sample_weight=weights)
            found["joined"][name] = float(roc_auc_score(values[:, 0], joined.decision_function(values[:, 1:])))
    macro = {kind: float(np.mean(list(by_set.values()))) for kind, by_set in found.items() if by_set}
    print(f"macro AUROC of {len(sets)} sets: {macro}", file=sys.stderr, flush=True)
    return {"macro": macro, "sets": found}


if __name__ == "__main__":
    sys.exit(main())
