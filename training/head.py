"""A small network over the token vectors of a claim and of its windows: late interaction, the model is frozen."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

CLAIM = 0
_SEGMENTS = 8
_COSINE_FEATURES = 3
_POOLED_FEATURES = 4
_OUTSIDE = -30.0


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Sizes: `width` of its vectors (of `source` as they come), `layers`, `heads`; `dropout` while it is trained."""

    width: int = 128
    layers: int = 2
    heads: int = 4
    dropout: float = 0.15
    source: int = 384


class UnsupportedHead(nn.Module):  # type: ignore[misc]
    """Logits that a claim, and each token of it, is not supported by the windows beside it.

    It sees each token as its vector, its row of the model's table of words, and, for tokens of the claim, its best
    cosine with a token of the windows and whether the same token stands there.
    """

    def __init__(self, shape: HeadShape, table: "torch.Tensor") -> None:
        super().__init__()
        width = shape.width
        self.register_buffer("table", table, persistent=False)
        self.of_vector = nn.Linear(shape.source, width)
        self.of_word = nn.Linear(shape.source, width)
        self.of_segment = nn.Embedding(_SEGMENTS, width)
        self.of_match = nn.Linear(_COSINE_FEATURES, width)
        self.norm = nn.LayerNorm(width)
        layer = nn.TransformerEncoderLayer(
            width, shape.heads, 2 * width, shape.dropout, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, shape.layers, enable_nested_tensor=False)
        self.token = nn.Linear(width, 1)
        pooled = 2 * width + _POOLED_FEATURES
        self.claim = nn.Sequential(
            nn.LayerNorm(pooled), nn.Linear(pooled, 64), nn.GELU(), nn.Dropout(shape.dropout), nn.Linear(64, 1)
        )

    def forward(self, vectors: Any, tokens: Any, segments: Any, mask: Any) -> tuple[Any, Any]:
        """Return logits of shape (claims,) and (claims, tokens), -30 outside the claim.

        Args:
            vectors: shape (claims, tokens, source), rows of length 1.
            tokens: ids, shape (claims, tokens).
            segments: 0 for the claim's tokens, else the number of the window; the claim comes first.
            mask: True where there is a token.
        """
        with torch.autocast("cpu", dtype=torch.bfloat16):
            claim, each = self._logits(vectors, tokens, segments, mask)
        return claim.float(), each.float()

    def _logits(self, vectors: Any, tokens: Any, segments: Any, mask: Any) -> tuple[Any, Any]:
        own, outside = (segments == CLAIM) & mask, (segments > CLAIM) & mask
        longest = int(own.sum(1).max())
        rest = torch.zeros(len(vectors), vectors.shape[1] - longest)
        cosines = torch.bmm(vectors[:, :longest], vectors.transpose(1, 2)).masked_fill(~outside[:, None, :], -1)
        best = torch.cat([cosines.max(-1).values.float(), rest], 1) * own
        equal = ((tokens[:, :longest, None] == tokens[:, None, :]) & outside[:, None, :]).any(-1).float()
        same = torch.cat([equal, rest], 1) * own
        # Unit vectors have small numbers; those of the table are near 1 already.
        seen = self.of_vector(vectors * 8) + self.of_word(self.table[tokens]) + self.of_segment(segments)
        state = self.norm(seen + self.of_match(torch.stack([best, same, own.float()], -1)))
        state = self.layers(state, src_key_padding_mask=~mask)
        each = self.token(state).squeeze(-1).masked_fill(~own, _OUTSIDE)
        of_claim = own.float().unsqueeze(-1)
        count = of_claim.sum(1).clamp(min=1)
        mean = (state * of_claim).sum(1) / count
        highest = state.masked_fill(~own.unsqueeze(-1), -1e4).max(1).values
        count = count[:, 0]
        said = [best.sum(1) / count, same.sum(1) / count, (each.max(1).values / 5).tanh(), count.log() / 4]
        return self.claim(torch.cat([mean, highest, torch.stack(said, -1)], -1)).squeeze(-1), each
