"""Likeness of a claim to its evidence: a true passage that speaks of something else proves nothing."""

from collections.abc import Iterable
from typing import Final

from plumbline.judging.text.words import content_words, detect_language, han_share

# Words cut to this length meet their inflections.
_STEM: Final = 5
# Supported claims of faithful answers share less with the sentences they are quoted from in 7 to 9 % of the cases
# (docs/decisions/0011-belief.md).
_DOUBTED_BELOW: Final = 0.25
_DOUBTED_BELOW_ZH: Final = 0.15
# "Yes, that is true.", "I agree with you.": words of a conversation, which no passage has.
_REPLY_WORDS: Final = (
    "yes yeah yep yea no nope sure right true corre indee exact certa agree inter nice cool great good reall usual"
    " heard hear know think lot welco shame sorry love like point 是的 对的 没错 正确 同意 不是 可以 不能 不会 没有"
)
_REPLY_STEMS: Final = frozenset(_REPLY_WORDS.split())


def word_stems(text: str) -> frozenset[str]:
    """Return the content words of a text up to five characters; of Chinese, pairs of characters."""
    return frozenset(word[:_STEM] for word in content_words(text))


def shared_words(claim: str, passages: Iterable[str]) -> float | None:
    """Return the share in [0, 1] of a claim's content words that its passages have.

    None if they cannot be compared: the claim has no such words ("Yes, that is true."), only leads to what follows
    ("The key points are:"), or is in another script than its passages.
    """
    wanted, evidence = word_stems(claim) - _REPLY_STEMS, "\n".join(passages)
    if not wanted or claim.rstrip(" *_").endswith((":", "：")) or detect_language(claim) != detect_language(evidence):
        return None
    return len(wanted & word_stems(evidence)) / len(wanted)


def is_doubtful(claim: str, share: float) -> bool:
    return share < (_DOUBTED_BELOW_ZH if han_share(claim) else _DOUBTED_BELOW)
