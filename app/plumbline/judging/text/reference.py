"""Agreement of an answer with a reference: exact match and token F1 after SQuAD, BLEU, chrF and GLEU by nltk.

nltk is imported by the first call, which takes a second or two: call it off the event loop.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from plumbline.judging.text.words import nfkc

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = re.compile(r"[^\w\s]|_")
_SQUAD_TOKEN = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003134f]|[^\\s\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003134f]+"
)


def exact_match(answer: str, reference: str) -> float:
    """Return 1.0 if both texts are equal after SQuAD normalisation, else 0.0."""
    return float(_squad_tokens(answer) == _squad_tokens(reference))


def token_f1(answer: str, reference: str) -> float:
    """Return the harmonic mean of token precision and recall, in [0, 1]; 1.0 if both are empty, 0.0 if one is.

    SQuAD's normalisation (case, punctuation, articles) and its multiset overlap (Rajpurkar et al., EMNLP 2016);
    Chinese is compared by character. `token_set_f1` counts a word of both texts once.
    """
    ours, theirs = Counter(_squad_tokens(answer)), Counter(_squad_tokens(reference))
    if not ours or not theirs:
        return float(ours == theirs)
    common = (ours & theirs).total()
    return 2 * common / (ours.total() + theirs.total())


def token_set_f1(answer: Sequence[str], reference: Sequence[str]) -> float:
    """Return the token F1 of seed 1 for two non-empty lists of words, in [0, 1].

    Words of both, each once, over all words of the answer and of the reference: a repeated word lowers it, so that
    "no no" and "no no" have 0.5.
    """
    return 2 * len({*answer} & {*reference}) / (len(answer) + len(reference))


def _squad_tokens(text: str) -> list[str]:
    folded = nfkc(text).casefold()
    return _SQUAD_TOKEN.findall(_ARTICLES.sub(" ", _PUNCTUATION.sub("", folded)))


# chrF of two such texts takes half a second and 60 MB, of a megabyte each ten seconds. No answer is as long.
MOST_CHARACTERS: Final = 50_000
_LONGEST_GRAM: Final = 6
# sacreBLEU and WMT use it; Popović 2015 found 3 as good.
_RECALL_WEIGHT: Final = 2.0


def bleu(answer: Sequence[str], reference: Sequence[str]) -> float:
    """Return the sentence BLEU of two non-empty lists of words, in [0, 1]: Papineni et al., ACL 2002.

    Up to 4-grams, uniform weights, brevity penalty. A precision of 0 becomes 1 / (2^k * n-grams) for the k-th of them:
    method 3 of Chen & Cherry, WMT 2014, NIST's, the default of sacreBLEU. An answer of fewer than four words has only
    the orders that it can have. 0 without a word in common.
    """
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu  # noqa: PLC0415 - a second of import

    smoothing = SmoothingFunction().method3
    return min(1.0, float(sentence_bleu([reference], answer, smoothing_function=smoothing, auto_reweigh=True)))


def chrf(answer: Sequence[str], reference: Sequence[str]) -> float:
    """Return chrF2 of the characters of two non-empty lists of words, in [0, 1]: Popović, WMT 2015.

    The mean over n = 1..6 of the F-score of n-grams of characters, white space left out, recall weighing twice as much.
    Orders that one of the texts is too short for are left out, as sacreBLEU does.
    """
    from nltk.translate.chrf_score import sentence_chrf  # noqa: PLC0415 - a second of import

    ours, theirs = "".join(answer), "".join(reference)
    longest = min(_LONGEST_GRAM, len(ours), len(theirs))
    found = sentence_chrf(theirs, ours, max_len=longest, beta=_RECALL_WEIGHT, ignore_whitespace=False)
    return min(1.0, float(found))


def gleu(answer: Sequence[str], reference: Sequence[str]) -> float:
    """Return the GLEU of two non-empty lists of words, in [0, 1]: Wu et al. 2016, arXiv 1609.08144.

    The lower of precision and recall of all their n-grams of 1 to 4 words.
    """
    from nltk.translate.gleu_score import sentence_gleu  # noqa: PLC0415 - a second of import

    return float(sentence_gleu([reference], answer))
