"""Index of a long text's character n-grams: a part's rarest n-gram is looked up instead of searching the text."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

_Keys = NDArray[np.uint64]

# Runs of eight characters tell a place in prose; shorter texts have runs of two.
_LONG, _SHORT = 8, 2
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd: Knuth, TAOCP 3, 6.4
# Of one text so many runs are looked up, spread over it; of places that the rarest has, so many are looked at.
_MAX_RUNS = 32
_MAX_PLACES = 1_024
# Runs that a place must have too before the texts are compared.
_MAX_COMPARED = 4


class NgramIndex:
    """Places of a text's n-grams; time and memory are linear in its length, a lookup is nearly constant."""

    def __init__(self, text: str) -> None:
        self._text = text

    def of(self, part: str) -> Iterator[int]:
        """Return the starts of `part` (two characters or more) at the first 1,024 places of its rarest run."""
        known = self._long if len(part) >= _LONG else self._short
        runs = _keys(part, known.size)
        offsets = np.unique(np.linspace(0, len(runs) - 1, num=min(len(runs), _MAX_RUNS)).astype(np.int64))
        first = np.searchsorted(known.ascending, runs[offsets], side="left")
        counts = np.searchsorted(known.ascending, runs[offsets], side="right") - first
        rarest = int(np.argmin(counts))
        at = int(first[rarest])
        starts = known.places[at : at + min(int(counts[rarest]), _MAX_PLACES)] - offsets[rarest]
        starts = starts[(starts >= 0) & (starts <= len(self._text) - len(part))]
        for offset in offsets[np.argsort(counts, kind="stable")[1 : 1 + _MAX_COMPARED]]:
            if not len(starts):
                break
            starts = starts[known.keys[starts + offset] == runs[offset]]
        return (start for start in starts.tolist() if self._text.startswith(part, start))

    @cached_property
    def _long(self) -> "_Runs":
        return _Runs(self._text, _LONG)

    @cached_property
    def _short(self) -> "_Runs":
        return _Runs(self._text, _SHORT)


class _Runs:
    def __init__(self, text: str, size: int) -> None:
        self.size = size
        self.keys = _keys(text, size)
        # Stable: the places of one run ascend.
        self.places = np.argsort(self.keys, kind="stable")
        self.ascending = self.keys[self.places]


def _keys(text: str, size: int) -> _Keys:
    """Return a hash for each run of `size` characters."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    keys = np.zeros(max(0, len(codes) - size + 1), dtype=np.uint64)
    for offset in range(size):
        keys = keys * _MIX + codes[offset : offset + len(keys)] + np.uint64(1)
    return keys
