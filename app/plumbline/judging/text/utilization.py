"""Context utilization: how much of the answer leans on the contexts."""

from collections.abc import Sequence

from plumbline.judging.text.overlap import ContextIndex
from plumbline.judging.text.segmentation import Sentence
from plumbline.judging.text.words import content_words

# Seed 4 asks whether a context sentence `contains` the answer's sentence; on raw strings one changed word breaks that.
# Half of the content words is our reading of "related": 1.0 would be containment, and a sentence that joins two of its
# source rarely has more than half of its words in either. Utilization asks what was used, not whether it is true.
RELATED_SHARE = 0.5


def context_utilization(sentences: Sequence[Sentence], index: ContextIndex) -> float | None:
    """Share of the answer's sentences that are related to a context sentence, in [0, 1]; None without sentences.

    Related: one context sentence holds at least `RELATED_SHARE` of the sentence's content words after normalisation
    (NFKC, case, punctuation, white space, stopwords; Chinese as character bigrams). Markup is not
    a sentence here. After seed 4, "Context Utilization".
    """
    spoken = [sentence for sentence in sentences if sentence.kind != "markup"]
    if not spoken:
        return None
    return sum(_is_related(sentence, index) for sentence in spoken) / len(spoken)


def _is_related(sentence: Sentence, index: ContextIndex) -> bool:
    return index.best_share(content_words(sentence.text)) >= RELATED_SHARE
