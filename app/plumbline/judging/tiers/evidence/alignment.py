"""Where a text holds a passage that differs from a quote by slips of the pen."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property

from rapidfuzz.fuzz import partial_ratio_alignment, ratio

from plumbline.judging.tiers.evidence.folding import View

# Of 100: a quote with a slip of the pen is still that quote (DESIGN 4.1). Below this length one letter is too much.
_FUZZY_SCORE = 90.0
_FUZZY_MIN_CHARACTERS = 16
# Words as anchors of the alignment: Latin and numbers whole, Han in pairs.
_ANCHOR = re.compile(r"[\u3400-\u9fff](?=([\u3400-\u9fff]))|[^\W_\u3400-\u9fff]{2,40}")
# Bounds on the work for one quote, so that hostile text cannot make it quadratic.
_MAX_ANCHORS = 48
_MAX_PLACES_READ = 4_000
_MAX_REGIONS = 4
_SLACK = 0.25
_WORD_CHARACTER = re.compile(r"[^\W_\u3400-\u9fff]")
_LONGEST_WORD = 40


@dataclass(frozen=True, slots=True)
class Aligned:
    """A stretch [start:end) of the view, widened to whole words, and its likeness to the quote in [90, 100]."""

    start: int
    end: int
    score: float


class Aligner:
    """Aligns quotes with one text. Only the regions where the quote's rarest words gather are compared."""

    def __init__(self, view: View) -> None:
        self._text = view.text

    def align(self, quote: str) -> list[Aligned]:
        """Stretches that are the quote but for a tenth of its characters, the best first; none for a short quote."""
        if len(quote) < _FUZZY_MIN_CHARACTERS:
            return []
        if len(quote) > len(self._text):
            # Alignment would look for the shorter in the longer: for the text in the quote.
            score = ratio(quote, self._text, score_cutoff=_FUZZY_SCORE)
            return [Aligned(0, len(self._text), score)] if score else []
        slack = int(len(quote) * _SLACK) + 1
        found = []
        for shift in self._shifts(quote, slack):
            first = max(0, shift - slack)
            region = self._text[first : shift + len(quote) + 2 * slack]
            if len(region) < len(quote):
                first = max(0, len(self._text) - len(quote))
                region = self._text[first:]
            alignment = partial_ratio_alignment(quote, region, score_cutoff=_FUZZY_SCORE)
            if alignment:
                found.append(
                    self._whole_words(first + alignment.dest_start, first + alignment.dest_end, alignment.score)
                )
        return sorted(found, key=lambda each: (-each.score, each.start))

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        places: defaultdict[str, list[int]] = defaultdict(list)
        for match in _ANCHOR.finditer(self._text):
            places[match.group() + (match[1] or "")].append(match.start())
        return places

    def _shifts(self, quote: str, slack: int) -> list[int]:
        """Where the quote would start in the text, by most of its words; coarse to `slack` characters."""
        anchors = [(match.group() + (match[1] or ""), match.start()) for match in _ANCHOR.finditer(quote)]
        known = [(word, at) for word, at in anchors if word in self._places]
        # The rarest words tell most; those that stand everywhere are passed over.
        known.sort(key=lambda anchor: len(self._places[anchor[0]]))
        votes: Counter[int] = Counter()
        read = 0
        for word, at in known[:_MAX_ANCHORS]:
            for place in self._places[word][:_MAX_PLACES_READ]:
                votes[(place - at) // slack] += len(word)
            read += len(self._places[word])
            if read > _MAX_PLACES_READ:
                break
        # The votes of one place may fall into two neighbouring bins.
        strength = {bin_: count + votes.get(bin_ + 1, 0) for bin_, count in votes.items()}
        best = sorted(strength, key=lambda bin_: (-strength[bin_], bin_))[:_MAX_REGIONS]
        return [max(0, bin_ * slack) for bin_ in best]

    def _whole_words(self, start: int, end: int, score: float) -> Aligned:
        for _ in range(_LONGEST_WORD):
            if not (0 < start < len(self._text) and _is_inside_word(self._text, start)):
                break
            start -= 1
        for _ in range(_LONGEST_WORD):
            if not (0 < end < len(self._text) and _is_inside_word(self._text, end)):
                break
            end += 1
        return Aligned(start, end, score)


def _is_inside_word(text: str, place: int) -> bool:
    return bool(_WORD_CHARACTER.match(text[place - 1]) and _WORD_CHARACTER.match(text[place]))
