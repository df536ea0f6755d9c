"""Which sentences of an answer there is something to check in, as far as code alone can tell."""

from collections.abc import Sequence

from plumbline.judging.text.abstention import abstains
from plumbline.judging.text.segmentation import Sentence
from plumbline.judging.text.words import content_words, han_share

# A heading of more content words than this asserts something ("# The bridge was closed to cars in 2008"), and would be
# a place to hide a false claim in. Of Chinese the words are character pairs.
_LABEL_WORDS = 4
_LABEL_HAN_PAIRS = 8


def checkable_positions(sentences: Sequence[Sentence]) -> tuple[int, ...]:
    """Positions of the sentences that assert something, ascending.

    Left out: markup, sentences that abstain, and headings that are mere labels; a label counts when the answer says
    nothing else, for "**Paris**" alone is an answer.
    """
    spoken = [position for position, sentence in enumerate(sentences) if sentence.kind != "markup"]
    unlabelled = [position for position in spoken if not _is_label(sentences[position])]
    return tuple(position for position in unlabelled or spoken if not abstains(sentences[position].text))


def _is_label(sentence: Sentence) -> bool:
    if sentence.kind != "heading":
        return False
    limit = _LABEL_HAN_PAIRS if han_share(sentence.text) else _LABEL_WORDS
    return len(content_words(sentence.text)) <= limit
