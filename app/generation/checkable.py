"""Which sentences of an answer there is something to check in, as far as code alone can tell."""

from collections.abc import Sequence

from app.generation.abstention import abstains
from app.generation.segmentation import Sentence


def checkable_positions(sentences: Sequence[Sentence]) -> tuple[int, ...]:
    """Positions of the sentences that assert something, ascending.

    Left out: markup, sentences that abstain, and headings; a heading counts when the answer says nothing else,
    for "**Paris**" alone is an answer.
    """
    spoken = [position for position, sentence in enumerate(sentences) if sentence.kind not in ("markup", "heading")]
    if not spoken:
        return tuple(position for position, sentence in enumerate(sentences) if sentence.kind == "heading")
    return tuple(position for position in spoken if not abstains(sentences[position].text))
