"""A kept row as it is shown: each sentence with its claims, and the gravest verdict among them."""

from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from plumbline.rows.report.kept_rows import KeptRow
from plumbline.rows.report.result_lines import Claim, Fault, Result, Verdict
from plumbline.rows.report.shown_text import one_line
from plumbline.schemas.report import ReportRowStatus, ReportTier

_LONGEST_LEAD: Final = 200
GRAVEST_FIRST: Final[tuple[Verdict, ...]] = ("contradicted", "not_mentioned", "partial", "supported", "not_a_claim")


class ShownSentence(NamedTuple):
    """A sentence, its gravest verdict (None where no tier could judge it), and its claims."""

    text: str
    verdict: Verdict | None
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class ShownRow:
    """One row of the page.

    `verdicts`: those that its claims have, gravest first; `rank`: its place in the list;
    `lead`: the first of the sentences with the gravest verdict, or what was wrong, shortened.
    """

    custom_id: str | None
    row: int
    line: int | None
    rank: int
    status: ReportRowStatus
    tier: ReportTier
    result: Result | None
    error: Fault | None
    sentences: tuple[ShownSentence, ...]
    loose_claims: tuple[Claim, ...]
    verdicts: tuple[tuple[Verdict, int], ...]
    lead: str
    is_cut: bool


def shown_row(kept: KeptRow, rank: int) -> ShownRow:
    """What the page shows of a row."""
    row, result = kept.row, kept.row.result
    sentences = () if result is None else tuple(_sentences(result))
    known = {sentence.index for sentence in result.sentences} if result else set()
    return ShownRow(
        custom_id=row.custom_id,
        row=row.row,
        line=row.line,
        rank=rank,
        status=row.status,
        tier="none" if result is None else result.tier or "none",
        result=result,
        error=row.error,
        sentences=sentences,
        loose_claims=() if result is None else tuple(each for each in result.claims if each.sentence not in known),
        verdicts=() if result is None else _verdicts(result),
        lead=one_line(_lead(sentences, row.error), most=_LONGEST_LEAD),
        is_cut=kept.is_cut,
    )


def _lead(sentences: tuple[ShownSentence, ...], error: Fault | None) -> str:
    if error is not None:
        return error.detail
    gravity = {verdict: place for place, verdict in enumerate(GRAVEST_FIRST)}
    known = [sentence for sentence in sentences if sentence.verdict is not None] or sentences
    gravest = min(known, key=lambda each: 0 if each.verdict is None else gravity[each.verdict], default=None)
    return "" if gravest is None else gravest.text


def _sentences(result: Result) -> list[ShownSentence]:
    claims_by_sentence: dict[int, list[Claim]] = {}
    for claim in result.claims:
        claims_by_sentence.setdefault(claim.sentence, []).append(claim)
    return [
        ShownSentence(sentence.text, None if result.status == "not_judged" else _gravest(claims), tuple(claims))
        for sentence in result.sentences
        for claims in [claims_by_sentence.get(sentence.index, [])]
    ]


def _gravest(claims: list[Claim]) -> Verdict:
    found = {claim.verdict for claim in claims}
    return next((verdict for verdict in GRAVEST_FIRST if verdict in found), "not_a_claim")


def _verdicts(result: Result) -> tuple[tuple[Verdict, int], ...]:
    counts = [(verdict, cast(int, getattr(result.counts, verdict))) for verdict in GRAVEST_FIRST]
    return tuple((verdict, count) for verdict, count in counts if count)
