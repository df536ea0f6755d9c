"""Networks that mark what the windows beside a claim do not support: a head, and MiniLM's own upper layers."""

import copy
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn

from training.vectors import MIDDLE

CLAIM: Final = 0
# Of a token: its best cosine on the other side, whether the same token stands there, how far its match lies from that
# of the token before it, and whether it comes right after.
TOKEN_FEATURES: Final = 4
# Of a claim: mean, least and share below one half of the best cosines of its tokens, share of tokens that are found.
POOLED_FEATURES: Final = 4
_SEGMENTS: Final = 8
_POSITIONS: Final = 96
_OUTSIDE: Final = -30.0


@dataclass(frozen=True, slots=True)
class Batch:
    """Claims, each followed by tokens of its windows; shapes (claims, tokens, ...).

    `segments`: 0 in the claim, else the number of the window; `matches`: of the likest token on the other side.
    """

    vectors: Any
    matches: Any
    tokens: Any
    matched_tokens: Any
    features: Any
    segments: Any
    positions: Any
    mask: Any
    pooled: Any
    words: Any


class MatchedTokensHead(nn.Module):  # type: ignore[misc]
    """Reads each token beside its likest token on the other side, by vectors and by rows of the table of words."""

    def __init__(self, table: "torch.Tensor", *, width: int, layers: int, words: int, dropout: float = 0.15) -> None:
        super().__init__()
        source = table.shape[1]
        self.register_buffer("table", table, persistent=False)
        self.of_pair = nn.Linear(4 * source, width)
        self.of_features = nn.Linear(TOKEN_FEATURES, width)
        self.of_segment = nn.Embedding(_SEGMENTS, width)
        self.of_position = nn.Embedding(_POSITIONS, width)
        self.norm = nn.LayerNorm(width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.marks = _Marks(width, words, dropout)

    def forward(self, batch: Batch) -> tuple[Any, Any]:
        """Return logits that it is unsupported: of claims, and of tokens, -30 outside of the claim."""
        # Unit vectors have small numbers; those of the table are near 1 already.
        both = [8 * batch.vectors, 8 * batch.matches, self.table[batch.tokens], self.table[batch.matched_tokens]]
        state = self.of_pair(torch.cat(both, -1)) + self.of_features(batch.features)
        state = self.norm(state + self.of_segment(batch.segments) + self.of_position(batch.positions))
        logits: tuple[Any, Any] = self.marks(self.layers(state, src_key_padding_mask=~batch.mask), batch)
        return logits


class UpperLayers(nn.Module):  # type: ignore[misc]
    """A cross-encoder whose lower layers read claim and windows apart, and are kept; its upper ones are trained."""

    def __init__(self, network: Any, *, words: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(copy.deepcopy(layer) for layer in network.encoder.layer[MIDDLE:])
        width = network.config.hidden_size
        self.of_segment = nn.Embedding(_SEGMENTS, width)
        nn.init.normal_(self.of_segment.weight, std=0.02)
        self.marks = _Marks(width, words, 0.1)

    def forward(self, batch: Batch) -> tuple[Any, Any]:
        state = batch.vectors + self.of_segment(batch.segments)
        hidden = torch.zeros(batch.mask.shape).masked_fill(~batch.mask, torch.finfo(torch.float32).min)
        for layer in self.layers:
            found = layer(state, hidden[:, None, None, :])
            state = found[0] if isinstance(found, tuple) else found
        logits: tuple[Any, Any] = self.marks(state, batch)
        return logits


class _Marks(nn.Module):  # type: ignore[misc]
    """From states of tokens, and measures of the words, to logits of tokens and of the claim."""

    def __init__(self, width: int, words: int, dropout: float) -> None:
        super().__init__()
        self.token = nn.Linear(width, 1)
        pooled = 2 * width + 1 + POOLED_FEATURES + words
        self.claim = nn.Sequential(
            nn.LayerNorm(pooled), nn.Linear(pooled, 64), nn.GELU(), nn.Dropout(dropout), nn.Linear(64, 1)
        )

    def forward(self, state: Any, batch: Batch) -> tuple[Any, Any]:
        own = ((batch.segments == CLAIM) & batch.mask).unsqueeze(-1)
        each = self.token(state).masked_fill(~own, _OUTSIDE).squeeze(-1)
        mean = (state * own).sum(1) / own.sum(1)
        highest = state.masked_fill(~own, -1e4).max(1).values
        worst = (each.max(1, keepdim=True).values / 5).tanh()
        return self.claim(torch.cat([mean, highest, worst, batch.pooled, batch.words], -1)).squeeze(-1), each
