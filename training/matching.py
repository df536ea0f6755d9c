"""Claims beside the windows that say most of them, token by token, as arrays for the networks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from training.head import CLAIM, Batch
from training.vectors import Vectors, VectorStore

_CLAIM_TOKENS = 48
_WINDOW_TOKENS = 40
_WINDOWS = 2
# Of a token's match from the match of the token before it; further away is far.
_FAR = 8
_UNSUPPORTED = 0.5


@dataclass(frozen=True, slots=True)
class Pair:
    """A claim, the windows that may support it, and measures of its words."""

    text: str
    windows: Sequence[str]
    words: Sequence[float]


@dataclass(frozen=True, slots=True)
class _Matched:
    places: NDArray[np.int64]
    matches: NDArray[np.int64]
    segments: NDArray[np.int64]
    positions: NDArray[np.int64]
    features: NDArray[np.float32]
    pooled: NDArray[np.float32]


class Matcher:
    """Matches the tokens of pairs, each pair once."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._found: dict[tuple[str, tuple[str, ...]], _Matched] = {}

    def length(self, pair: Pair) -> int:
        return len(self._matched(pair).places)

    def batch(self, pairs: Sequence[Pair], *, middle: bool) -> Batch:
        """Return what a network reads: vectors of the last layer, or of the middle one and the best window alone."""
        found = [self._matched(pair) for pair in pairs]
        if middle:
            found = [_best_alone(each) for each in found]
        width = max(len(each.places) for each in found)
        places, matches, segments, positions = (
            _padded([getattr(each, name) for each in found], width)
            for name in ("places", "matches", "segments", "positions")
        )
        source = self._store.middle if middle else self._store.last
        vectors = partial(_rows, source)
        ids = partial(_rows, self._store.ids)
        mask = np.arange(width)[None] < np.array([len(each.places) for each in found])[:, None]
        return Batch(
            vectors=vectors(places).float(),
            matches=vectors(matches).float(),
            tokens=ids(places),
            matched_tokens=ids(matches),
            features=torch.from_numpy(_padded([each.features for each in found], width)),
            segments=torch.from_numpy(segments),
            positions=torch.from_numpy(positions),
            mask=torch.from_numpy(mask),
            pooled=torch.from_numpy(np.stack([each.pooled for each in found])),
            words=torch.tensor([list(pair.words) for pair in pairs], dtype=torch.float32),
        )

    def _matched(self, pair: Pair) -> _Matched:
        key = (pair.text, tuple(pair.windows))
        if key not in self._found:
            self._found[key] = _match(self._store, pair)
        return self._found[key]


def _match(store: VectorStore, pair: Pair) -> _Matched:
    own = store.place(pair.text)[:_CLAIM_TOKENS]
    said = store.last[own].astype(np.float32)
    near = []
    for window in pair.windows:
        place = store.place(window)
        cosines = said @ store.last[place].astype(np.float32).T
        middle = int(np.median(cosines.argmax(1)))
        start = max(0, min(middle - _WINDOW_TOKENS // 2, len(place) - _WINDOW_TOKENS))
        near.append((float(cosines.max(1).mean()), place[start : start + _WINDOW_TOKENS]))
    near.sort(key=lambda each: -each[0])
    outside = [place for _, place in near[:_WINDOWS]]
    there = np.concatenate(outside)
    cosines = said @ store.last[there].astype(np.float32).T
    best, best_there = cosines.max(1), cosines.max(0)
    to, fro = cosines.argmax(1), cosines.argmax(0)
    same = np.isin(store.ids[own], store.ids[there])
    same_there = np.isin(store.ids[there], store.ids[own])
    places, matches = np.concatenate([own, there]), np.concatenate([there[to], own[fro]])
    steps = np.concatenate([np.diff(to, prepend=to[0] - 1), np.diff(fro, prepend=fro[0] - 1)])
    features = np.stack(
        [
            np.concatenate([best, best_there]),
            np.concatenate([same, same_there]),
            np.clip(steps, -_FAR, _FAR) / _FAR,
            steps == 1,
        ],
        axis=1,
    )
    parts = [own, *outside]
    return _Matched(
        places=places,
        matches=matches,
        segments=np.repeat(np.arange(CLAIM, len(parts)), [len(part) for part in parts]),
        positions=np.concatenate([np.arange(len(part)) for part in parts]),
        features=features.astype(np.float32),
        pooled=np.array([best.mean(), best.min(), (best < _UNSUPPORTED).mean(), same.mean()], dtype=np.float32),
    )


def _best_alone(matched: _Matched) -> _Matched:
    near = matched.segments <= CLAIM + 1
    return replace(
        matched,
        **{name: getattr(matched, name)[near] for name in ("places", "matches", "segments", "positions", "features")},
    )


def _padded(parts: Sequence[NDArray[Any]], width: int) -> NDArray[Any]:
    made = np.zeros((len(parts), width, *parts[0].shape[1:]), dtype=parts[0].dtype)
    for row, part in enumerate(parts):
        made[row, : len(part)] = part
    return made


def _rows(source: "Vectors | NDArray[np.int32]", places: NDArray[np.int64]) -> Any:
    found = torch.from_numpy(np.asarray(source[places]))
    return found.long() if source.dtype == np.int32 else found
