"""Pass, fail or unsure: what tiers without a judge decide of an answer, by bounds for each shape of it."""

from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import PassRule, TierDecision

# Below this factor the gate says that a text is about something else.
UNRELATED_BELOW: Final = 0.5
# Share of the contexts' characters that makes them JSON or tables.
_MOST: Final = 0.5
# An answer of one sentence with at most so many content words is short.
_SHORT_WORDS: Final = 6


class Shape(StrEnum):
    """Shapes of samples: an answer to JSON or to tables, a short answer, and any other."""

    PROSE = "prose"
    JSON = "json"
    TABLE = "table"
    SHORT = "short"


class ShapeBounds(BaseModel):
    """Bounds of one shape, each with the share of such decisions that were right on data left out.

    `copied_from`: an answer passes if that share of the runs of words of each sentence stands in a context, and
    nothing counts against it. `fails_below`: an answer with a hard reason fails below that faithfulness. None: no
    bound was right in four of five decisions, and none is made.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    copied_from: float | None = Field(default=None, ge=0, le=1)
    copied_right: float | None = Field(default=None, ge=0, le=1)
    fails_below: float | None = Field(default=None, ge=0, le=1)
    fails_right: float | None = Field(default=None, ge=0, le=1)

    def decide(self, faithfulness: float, *, copied: float, is_faulty: bool, is_open: bool) -> TierDecision:
        """Return the decision on an answer.

        Args:
            copied: the least share of copied runs of a sentence, in [0, 1].
            is_faulty: it has a hard reason.
            is_open: something forbids to pass it as a copy.
        """
        if is_faulty and self.fails_below is not None and faithfulness <= self.fails_below:
            return TierDecision(False, PassRule.HARD_REASON, right=self.fails_right)
        if not (is_faulty or is_open) and self.copied_from is not None and copied >= self.copied_from:
            return TierDecision(True, PassRule.COPIED, right=self.copied_right)
        return TierDecision(None, PassRule.UNSURE)


NO_BOUNDS: Final = ShapeBounds()


def find_shape(sample: SegmentedSample) -> Shape:
    """Return the shape of a sample."""
    lengths = {Shape.JSON: 0, Shape.TABLE: 0, Shape.PROSE: 0}
    for context, sentence in sample.index.places:
        is_table = sentence.kind == "table_row"
        shape = Shape.TABLE if is_table else Shape.JSON if sample.index.readings.get(context) else Shape.PROSE
        lengths[shape] += len(sentence.text)
    total = sum(lengths.values())
    for shape in (Shape.JSON, Shape.TABLE):
        if total and lengths[shape] >= _MOST * total:
            return shape
    is_short = (
        len(sample.assertions) == 1 and len(sample.index.split_words(sample.assertions[0]).content) <= _SHORT_WORDS
    )
    return Shape.SHORT if is_short else Shape.PROSE
