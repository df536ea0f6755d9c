"""Which neighbouring content words of a sentence are near each other in the contexts: words may stay, relations go."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

# Words cut to this length meet their inflections; a stemmer agreed no better with people.
_STEM = 5
# Content words at most this far apart in one sentence of the contexts are near.
_NEAR = 3


class Cooccurrence:
    """The pairs that sentences of the contexts hold, among the words that are asked for; linear in their length."""

    def __init__(self, sentences: Iterable[Sequence[str]], asked: Iterable[Sequence[str]]) -> None:
        """Args:
        sentences: content words of the contexts' sentences.
        asked: content words of the sentences that will be asked for.
        """
        wanted = frozenset(word[:_STEM] for words in asked for word in words)
        self._pairs: set[tuple[str, str]] = set()
        self._known: set[str] = set()
        for words in sentences:
            self._add([(at, cut) for at, word in enumerate(words) if (cut := word[:_STEM]) in wanted])

    def share(self, words: Sequence[str]) -> float:
        """Share in [0, 1] of the neighbours in `words` that are near each other in the contexts, in either order.

        One word has no neighbour: whether the contexts have it. No word: 0.
        """
        cut = [word[:_STEM] for word in words]
        pairs = list(pairwise(cut))
        if not pairs:
            return float(self._known.issuperset(cut)) if cut else 0.0
        return sum(self._is_near(*pair) for pair in pairs) / len(pairs)

    def _is_near(self, one: str, other: str) -> bool:
        if one == other:
            return one in self._known
        return (one, other) in self._pairs or (other, one) in self._pairs

    def _add(self, found: Sequence[tuple[int, str]]) -> None:
        for index, (at, word) in enumerate(found):
            self._known.add(word)
            for later, other in found[index + 1 : index + 1 + _NEAR]:
                if later - at <= _NEAR:
                    self._pairs.add((word, other))
