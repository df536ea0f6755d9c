"""The evidence check: every quote of a judge is searched in the contexts by us, and a claim without one found is
worth nothing, whatever the judge called it.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from rapidfuzz.fuzz import partial_ratio_alignment, ratio

from app.generation.verdicts import SUPPORT_BY_VERDICT, Claim, Evidence, Verdict
from app.generation.words import has_content

# Of 100: a quote with a slip of the pen is still that quote (DESIGN 4.1). Below this length one letter is too much.
_FUZZY_SCORE = 90.0
_FUZZY_MIN_CHARACTERS = 16
# Shorter than this a "quote" stands in any text: a word of Latin letters, two Han characters.
_MIN_CHARACTERS = 3
_MIN_HAN_CHARACTERS = 2
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_QUOTE_MARKS = str.maketrans(dict.fromkeys("“”„«»「」『』", '"') | dict.fromkeys("‘’‚`", "'") | {"—": "-", "–": "-"})


class SearchableContext:
    """A context and its folded form, with the way back: `origin[i]` is the offset that folded character i came from."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _folded(self) -> tuple[str, list[int]]:
        return _fold(self._text)

    def find(self, quote: str) -> tuple[int, int] | None:
        """Offsets of the quote in the context, None when it is not there.

        Exact first, then after folding (NFKD, case, quote marks, dashes, white space), then by alignment of at
        least 0.9 with every number of the quote in place. A quote that cuts a number ("5 million" in "15 million") is
        not there.
        """
        for start in _occurrences(quote, self._text):
            if self._cuts_no_number(start, start + len(quote)):
                return start, start + len(quote)
        wanted = _fold(quote)[0].strip()
        folded, origin = self._folded
        for start in _occurrences(wanted, folded):
            place = origin[start], origin[start + len(wanted) - 1] + 1
            if self._cuts_no_number(*place):
                return place
        return self._find_fuzzily(wanted)

    def _find_fuzzily(self, wanted: str) -> tuple[int, int] | None:
        folded, origin = self._folded
        if len(wanted) < _FUZZY_MIN_CHARACTERS:
            return None
        if len(wanted) > len(folded):
            # Alignment would look for the shorter in the longer: for the context in the quote.
            is_whole = ratio(wanted, folded, score_cutoff=_FUZZY_SCORE) > 0
            first, last = (0, len(folded)) if is_whole else (0, 0)
        else:
            alignment = partial_ratio_alignment(wanted, folded, score_cutoff=_FUZZY_SCORE)
            first, last = (alignment.dest_start, alignment.dest_end) if alignment else (0, 0)
        if last <= first or not set(_NUMBER.findall(wanted)) <= set(_NUMBER.findall(folded[first:last])):
            return None
        place = origin[first], origin[last - 1] + 1
        return place if self._cuts_no_number(*place) else None

    def _cuts_no_number(self, start: int, end: int) -> bool:
        return not (_is_inside_number(self._text, start) or _is_inside_number(self._text, end))


class EvidenceCheck:
    """Searches quotes in the contexts of one sample."""

    def __init__(self, contexts: Sequence[str]) -> None:
        self._contexts = [SearchableContext(text) for text in contexts]
        self._texts = contexts

    def locate(self, quote: str, cited: Sequence[int]) -> Evidence | None:
        """The quote where it stands: in the cited contexts first, then in any other; None for an empty quote.

        Args:
            quote: what the judge says it read.
            cited: indices of the contexts it named; those out of range are passed over.
        """
        if not quote.strip():
            return None
        named = [index for index in dict.fromkeys(cited) if 0 <= index < len(self._contexts)]
        if _says_something(quote):
            others = [index for index in range(len(self._contexts)) if index not in named]
            for index in [*named, *others]:
                place = self._contexts[index].find(quote.strip())
                if place:
                    start, end = place
                    return Evidence(index, self._texts[index][start:end], start, end, verified=True)
        return Evidence(named[0] if named else None, quote, None, None, verified=False)


def settle(claim: Claim) -> Claim:
    """The claim with the verdict that its evidence allows.

    `supported` and `partial` need a quote that we found: without one the claim counts as `not_mentioned` and carries
    the flag `evidence_missing` or `evidence_unverified`. The other verdicts stand; a contradiction without a found
    quote is flagged. (DESIGN 4.1 lets a claim with an invented quote keep its verdict; an invented quote is worth no
    more than none.)
    """
    if claim.verdict is Verdict.NOT_A_CLAIM or claim.verdict is Verdict.NOT_MENTIONED:
        return claim
    if any(evidence.verified for evidence in claim.evidence):
        return claim
    flag = "evidence_unverified" if claim.evidence else "evidence_missing"
    if claim.verdict is Verdict.CONTRADICTED:
        return replace(claim, flags=(*claim.flags, flag))
    return replace(
        claim,
        verdict=Verdict.NOT_MENTIONED,
        support=SUPPORT_BY_VERDICT[Verdict.NOT_MENTIONED],
        flags=(*claim.flags, flag, f"judge_said_{claim.verdict}"),
    )


def _says_something(quote: str) -> bool:
    letters = [character for character in quote if character.isalnum()]
    if not has_content(quote):
        return False
    han = sum("\u3400" <= character <= "\u9fff" for character in letters)
    return len(letters) >= _MIN_CHARACTERS or han >= _MIN_HAN_CHARACTERS or any(c.isdigit() for c in letters)


def _occurrences(wanted: str, text: str) -> Iterator[int]:
    start = text.find(wanted) if wanted else -1
    while start >= 0:
        yield start
        start = text.find(wanted, start + 1)


def _is_inside_number(text: str, place: int) -> bool:
    """Whether a number goes on over this place in the text, its decimals and thousands included."""
    before, after = text[max(0, place - 2) : place], text[place : place + 2]
    if not before or not after:
        return False
    if after[0] in ".,":
        return before[-1].isdigit() and after[1:].isdigit()
    if before[-1] in ".,":
        return before[:-1].isdigit() and after[0].isdigit()
    return before[-1].isdigit() and after[0].isdigit()


def _fold(text: str) -> tuple[str, list[int]]:
    """The text folded for comparison, and for each folded character the offset it came from.

    Decomposed (NFKD) character by character, so that composed and decomposed letters meet and each keeps its offset.
    """
    folded: list[str] = []
    origin: list[int] = []
    for offset, character in enumerate(text):
        for piece in unicodedata.normalize("NFKD", character.translate(_QUOTE_MARKS).casefold()):
            if piece.isspace():
                if folded and folded[-1] == " ":
                    continue
                piece = " "  # noqa: PLW2901 - every kind of white space is one blank
            folded.append(piece)
            origin.append(offset)
    return "".join(folded), origin
