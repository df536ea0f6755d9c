"""Claims made of a judge's reply: its verdicts and words, limited by the evidence found."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import SUPPORT_BY_VERDICT, Claim, Verdict, whole_sentence_claim
from plumbline.judging.text.words import content_words
from plumbline.judging.tiers.evidence.search import EvidenceSearch
from plumbline.judging.tiers.evidence.verdict_rules import apply_evidence
from plumbline.judging.tiers.reply_reading import ClaimReading, ClaimReply, SentenceReading

UNANSWERED: Final = "unanswered"


def drafted_claims(
    reading: SentenceReading, batch: Mapping[int, int], sample: SegmentedSample, search: EvidenceSearch
) -> list[Claim]:
    """Build the claims of a batch of sentences; a sentence without a readable answer is one unanswered claim.

    Args:
        batch: the number that a sentence goes by, by its position in the answer.
    """
    claims: list[Claim] = []
    for position, number in batch.items():
        replies = reading.claims.get(number)
        if replies is None:
            claims.append(_unanswered(position, sample))
            continue
        sentence = sample.sentences[position]
        for order, said in enumerate(replies):
            text, flags = _own_words(said.claim, sentence.text)
            made = replace(
                whole_sentence_claim(position, sentence, verdict=said.verdict), id=f"{position}.{order}", text=text
            )
            settled = _settled(made, said, search)
            claims.append(replace(settled, flags=(*settled.flags, *flags)) if flags else settled)
    return claims


def checked_claims(reading: ClaimReading, claims: Sequence[Claim], search: EvidenceSearch) -> dict[str, Claim]:
    """Return the claims that the reply has a verdict on, by id, with that verdict."""
    return {
        claim.id: _settled(replace(claim, flags=(), evidence=()), reading.claims[claim.id], search)
        for claim in claims
        if claim.id in reading.claims
    }


def _settled(claim: Claim, said: ClaimReply, search: EvidenceSearch) -> Claim:
    cited = [number - 1 for number in said.context_ids]
    located = [search.locate(quote, cited) for quote in said.quotes]
    evidence = tuple(dict.fromkeys(each for each in located if each is not None))
    moved = bool(cited) and any(each.verified and each.context not in cited for each in evidence)
    return apply_evidence(
        replace(
            claim,
            verdict=said.verdict,
            support=SUPPORT_BY_VERDICT.get(said.verdict),
            reason=said.reason or None,
            evidence=evidence,
            flags=("context_id_repaired",) if moved else (),
        ),
        search,
        is_derived=said.derived,
    )


def _own_words(claim: str, sentence: str) -> tuple[str, tuple[str, ...]]:
    """Return the claim, or its sentence if they share no content word: the answer did not say that claim."""
    if claim == sentence:
        return claim, ()
    wanted = frozenset(content_words(sentence))
    if claim and (not wanted or wanted & frozenset(content_words(claim))):
        return claim, ()
    return sentence, ("claim_replaced",) if claim else ()


def _unanswered(position: int, sample: SegmentedSample) -> Claim:
    return whole_sentence_claim(
        position, sample.sentences[position], verdict=Verdict.NOT_MENTIONED, support=0.0, flags=(UNANSWERED,)
    )
