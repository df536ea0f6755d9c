"""Training and scoring of a network over pairs that were read once."""

import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from training.matching import Matcher, Pair
from training.pairs import EditedClaim, wrong_tokens
from training.vectors import VectorStore

# Of the loss of a wrong token beside one that is right: most are right.
_WRONG_WEIGHT = 3.0
_SENTENCES_OF_ANSWER = 6
_WARM = 0.1
_WEIGHT_DECAY = 0.05


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of people's labels as pairs; `weight`: how much it counts in the loss."""

    id: str
    pairs: Sequence[Pair]
    label: int


@dataclass(frozen=True, slots=True)
class Edited:
    """A claim that was edited, as a pair."""

    pair: Pair
    claim: EditedClaim


@dataclass(frozen=True, slots=True)
class Plan:
    """Of one training: `epochs`, or `steps` at most; `middle`: of vectors of that layer."""

    epochs: int
    claims_at_once: int
    learning_rate: float
    middle: bool = False
    steps: float = float("inf")


class Trainer:
    """Trains networks that read pairs, and scores answers with them."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self.matcher = Matcher(store)

    def train(
        self, make: Callable[[], Any], answers: Sequence[Answer], edited: Sequence[Edited], plan: Plan, seed: int
    ) -> Any:
        torch.manual_seed(seed)
        draw, order = random.Random(seed), np.random.default_rng(seed)
        network = make()
        parameters = [each for each in network.parameters() if each.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=plan.learning_rate, weight_decay=_WEIGHT_DECAY)
        network.train()
        started, done, losses = time.process_time(), 0, defaultdict[str, list[float]](list)
        for epoch in range(plan.epochs):
            chunks = self._chunks(answers, edited, plan, draw, order)
            for number, chunk in enumerate(chunks):
                share = (epoch + number / len(chunks)) / plan.epochs
                share = max(share, done / plan.steps)
                if share >= 1:
                    break
                for group in optimizer.param_groups:
                    group["lr"] = plan.learning_rate * min(1.0, share / _WARM + 0.01) * (1 - 0.95 * share)
                kind = "people" if isinstance(chunk[0], Answer) else "edits"
                of_chunk = self._loss_of_answers if kind == "people" else self._loss_of_edits
                loss = of_chunk(network, chunk, plan, draw)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(parameters, 1.0)
                optimizer.step()
                losses[kind].append(loss.item())
                done += 1
                if done % 50 == 0:
                    self._say(f"epoch {epoch + 1}, step {number + 1} of {len(chunks)}", losses, started)
            self._say(f"epoch {epoch + 1} ends", losses, started)
        return network

    def score(self, network: Any, answers: Sequence[Answer], plan: Plan) -> dict[str, tuple[float, float, float]]:
        """Return by id, the higher the more support: the worst sentence, the mean of them, and the worst token."""
        pairs = [(answer.id, pair) for answer in answers for pair in answer.pairs]
        pairs.sort(key=lambda each: self.matcher.length(each[1]))
        found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        network.eval()
        with torch.inference_mode():
            for start in range(0, len(pairs), plan.claims_at_once):
                some = pairs[start : start + plan.claims_at_once]
                claim, each = network(self.matcher.batch([pair for _, pair in some], middle=plan.middle))
                for (name, _), logit, token in zip(some, claim.tolist(), each.max(1).values.tolist(), strict=True):
                    found[name].append((-logit, -token))
        return {
            name: (min(s for s, _ in both), float(np.mean([s for s, _ in both])), min(t for _, t in both))
            for name, both in found.items()
        }

    def _say(self, what: str, losses: Mapping[str, list[float]], started: float) -> None:
        means = {kind: round(float(np.mean(found[-50:])), 3) for kind, found in losses.items()}
        seconds = time.process_time() - started
        print(f"{what}: loss {means}, {seconds:.0f} s of processor time", file=sys.stderr, flush=True)

    def _chunks(
        self,
        answers: Sequence[Answer],
        edited: Sequence[Edited],
        plan: Plan,
        draw: random.Random,
        order: np.random.Generator,
    ) -> list[list[Any]]:
        """Return batches of pairs of about one length, in an order drawn."""
        size = plan.claims_at_once
        made = sorted(edited, key=lambda each: self.matcher.length(each.pair) + draw.random() * 20)
        chunks: list[list[Any]] = [made[start : start + size] for start in range(0, len(made), size)]
        chunk: list[Answer] = []
        for place in order.permutation(len(answers)):
            chunk.append(answers[int(place)])
            if sum(min(_SENTENCES_OF_ANSWER, len(each.pairs)) for each in chunk) >= size:
                chunks.append(chunk)
                chunk = []
        if chunk:
            chunks.append(chunk)
        draw.shuffle(chunks)
        return chunks

    def _loss_of_edits(self, network: Any, chunk: Sequence[Edited], plan: Plan, draw: random.Random) -> Any:
        claim, each = network(self.matcher.batch([made.pair for made in chunk], middle=plan.middle))
        wanted = torch.tensor([float(made.claim.is_broken) for made in chunk])
        # As many broken as kept, by weight.
        share = wanted.mean().clamp(0.1, 0.9)
        weights = torch.where(wanted > 0, 0.5 / share, 0.5 / (1 - share))
        loss = nn.functional.binary_cross_entropy_with_logits(claim, wanted, weights)
        wrong, own = torch.zeros_like(each), torch.zeros_like(each)
        for index, made in enumerate(chunk):
            count = int((each[index] > -29).sum())
            marks = wrong_tokens(made.claim, self._store)[:count]
            wrong[index, : len(marks)] = torch.tensor(marks).float()
            own[index, : len(marks)] = 1
        by_token = nn.functional.binary_cross_entropy_with_logits(each, wrong, reduction="none")
        return loss + (by_token * own * (1 + (_WRONG_WEIGHT - 1) * wrong)).sum() / own.sum()

    def _loss_of_answers(self, network: Any, chunk: Sequence[Answer], plan: Plan, draw: random.Random) -> Any:
        """Return the loss of whole answers: the soft maximum over their sentences meets the label."""
        pairs, owners = [], []
        for index, answer in enumerate(chunk):
            some = draw.sample(list(answer.pairs), min(_SENTENCES_OF_ANSWER, len(answer.pairs)))
            pairs += some
            owners += [index] * len(some)
        claim, _ = network(self.matcher.batch(pairs, middle=plan.middle))
        owner = torch.tensor(owners)
        powers = torch.exp(2 * claim.clamp(-10, 10))
        total = torch.zeros(len(chunk)).index_add(0, owner, powers)
        count = torch.zeros(len(chunk)).index_add(0, owner, torch.ones(len(owners)))
        unfaithful = torch.tensor([1.0 - answer.label for answer in chunk])
        return nn.functional.binary_cross_entropy_with_logits(0.5 * torch.log(total / count), unfaithful)
