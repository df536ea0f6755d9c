"""Agreement with a reference answer: seed 1's generation F1 and exact match."""

import re
from collections import Counter

from plumbline.judging.text.normal_form import nfkc

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = re.compile(r"[^\w\s]|_")
_TOKEN = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003134f]|[^\\s\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003134f]+"
)


def exact_match(answer: str, reference: str) -> float:
    """1.0 when both texts are equal after SQuAD normalisation, else 0.0."""
    return float(_tokens(answer) == _tokens(reference))


def token_f1(answer: str, reference: str) -> float:
    """Harmonic mean of token precision and recall, in [0, 1]; 1.0 when both are empty, 0.0 when one is.

    SQuAD's normalisation (case, punctuation, articles) and its multiset overlap (Rajpurkar et al., EMNLP 2016);
    Chinese is compared by character. Seed 1 takes sets, which counts a repeated word once: not copied.
    """
    ours, theirs = Counter(_tokens(answer)), Counter(_tokens(reference))
    if not ours or not theirs:
        return float(ours == theirs)
    common = (ours & theirs).total()
    return 2 * common / (ours.total() + theirs.total())


def _tokens(text: str) -> list[str]:
    folded = nfkc(text).casefold()
    return _TOKEN.findall(_ARTICLES.sub(" ", _PUNCTUATION.sub("", folded)))
