"""Parsing of a judge's reply into claims: whole items are kept, broken ones are asked again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError

from plumbline.ground.deadline import within_deadline
from plumbline.ground.phrases import load_data
from plumbline.judging.judge.evidence.quotes import separate_quotes
from plumbline.judging.judge.evidence.search import EvidenceSearch
from plumbline.judging.judge.evidence.verdict_rules import (
    NO_CLAIM,
    UNANSWERED,
    UNCOVERED,
    apply_evidence,
    states_fact,
    with_flags,
    word_stems,
)
from plumbline.judging.judge.reply_items import (
    VERDICT_NAMES,
    Item,
    first_member,
    fold_word,
    is_unicode,
    read_id,
    read_quotes,
    reply_items,
)
from plumbline.judging.ports.numbering import OURS, Numbering
from plumbline.judging.quantities.comparison import facts_in, missing
from plumbline.judging.quantities.reader import read_amounts
from plumbline.judging.text.injection import inspect
from plumbline.judging.text.names import KnownNames
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import SUPPORT_BY_VERDICT, Claim, Evidence, Verdict, whole_sentence_claim
from plumbline.judging.text.words import split_words

_MAX_QUOTES: Final = 8
_MAX_QUOTE_CHARACTERS: Final = 4_000
_MAX_REASON_CHARACTERS: Final = 600
_MAX_CLAIM_CHARACTERS: Final = 4_000
_MAX_CLAIMS: Final = 50
# Names that models give to the members of a claim in place of ours; the first that is there counts.
_CLAIM_NAMES: Final = ("claim", "text", "statement", "论断")
_VERDICT_BY_WORD: Final = {
    word: Verdict(verdict)
    for verdict, words in load_data("judging/judge/verdict_words")["verdicts"].items()
    for word in words.split()
}


def _verdict(value: object) -> object:
    return _VERDICT_BY_WORD.get(fold_word(value), value) if isinstance(value, str) else value


def _beginning(quote: str) -> str:
    """Return what is searched of a quote; a cut number would not be found."""
    return quote if len(quote) <= _MAX_QUOTE_CHARACTERS else quote[:_MAX_QUOTE_CHARACTERS].rstrip("0123456789.,")


_Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
_Quote = Annotated[str, AfterValidator(_beginning)]


class ClaimReply(BaseModel):
    """A judge's reply on one claim. `quotes` are unverified until they are found in a context."""

    claim: Annotated[_Text, Field(max_length=_MAX_CLAIM_CHARACTERS)] = ""
    quotes: Annotated[list[_Quote], Field(max_length=_MAX_QUOTES)] = Field(default_factory=list)
    reason: Annotated[_Text, BeforeValidator(lambda value: str(value or "")[:_MAX_REASON_CHARACTERS])] = ""
    verdict: Annotated[Verdict, BeforeValidator(_verdict)]


# This flag marks a reply with items that name nothing, or nothing that was asked about.
UNKNOWN_IDS: Final = "unknown_ids_dropped"
_NO_CLAIM: Final = ClaimReply(verdict=Verdict.NOT_A_CLAIM)


IdT = TypeVar("IdT", int, str)


@dataclass(frozen=True, slots=True)
class Reading(Generic[IdT]):
    """Claims of each sentence that was judged in full, by its number from 1, or of each claim, by our id; and flags."""

    claims: Mapping[IdT, tuple[ClaimReply, ...]]
    flags: tuple[str, ...] = ()

    def quotes(self) -> Iterator[str]:
        return (quote for claims in self.claims.values() for claim in claims for quote in claim.quotes)


def read_sentences(
    content: str, wanted: Sequence[int], numbering: Numbering = OURS, *, is_truncated: bool = False
) -> Reading[int]:
    """Parse a reply to `verify_claims`, about sentences whose numbers from 1 are `wanted`, in the request's order.

    An item is a claim of its sentence, or has a list of them, of which an empty one says that there is none. A sentence
    is kept when every claim of it is valid and no other item speaks of it differently. Of a cut reply whole items are
    kept, but not of a split sentence whose parts may be cut off. A fence, prose, another wrapper or none around the
    JSON does not matter. Items with other ids than those wanted are dropped, with the flag `unknown_ids_dropped`, and
    so are those without one: nothing else tells which request they answer.
    """
    items, flags = reply_items(content, "sentences", is_truncated=is_truncated)
    said: dict[int, list[tuple[ClaimReply, ...] | None]] = {}
    number, item = 0, Item()
    for number, item in _match_ids(items, wanted, numbering, content, flags):
        said.setdefault(number, []).append(_claims(item))
    if "truncated_reply" in flags and "claims" not in item and first_member(item, _CLAIM_NAMES):
        said[number].append(None)
    claims = {number: merged for number, answers in said.items() if (merged := _merge(answers)) is not None}
    return Reading(claims, tuple(dict.fromkeys(flags)))


def read_claims(
    content: str, wanted: Sequence[str], numbering: Numbering = OURS, *, is_truncated: bool = False
) -> Reading[str]:
    """Parse a reply to `check_claims`, about claims of our ids `wanted`; otherwise as `read_sentences`."""
    items, flags = reply_items(content, "claims", is_truncated=is_truncated)
    found: dict[str, ClaimReply | None] = {}
    for claim_id, item in _match_ids(items, wanted, numbering, content, flags):
        value = _claim(item)
        found[claim_id] = value if found.get(claim_id, value) == value else None
    claims = {claim_id: (value,) for claim_id, value in found.items() if value is not None}
    return Reading(claims, tuple(dict.fromkeys(flags)))


def _match_ids(
    items: Sequence[Item], wanted: Sequence[IdT], numbering: Numbering, content: str, flags: list[str]
) -> Iterator[tuple[IdT, Item]]:
    """Yield each item with the wanted id of ours that it means.

    Of a reply that leaves a wanted id out and has one that was not shown no item is read: all may be shifted by one.
    """
    ids = {read_id(item.get("id")) for item in items}
    ours_by_shown: dict[str, IdT] = numbering.ours_by_shown(wanted, ids, content)
    said = []
    for item in within_deadline(items):
        given = read_id(item.get("id"))
        # A claim of a sentence may be "1.2".
        whole = given.partition(".")[0] if "claims" not in item else given
        said.append(whole if given not in ours_by_shown and whole in ours_by_shown else given)
    named = set(said)
    if not named <= {"", *ours_by_shown} and not named >= ours_by_shown.keys():
        said = []
    if not all(each in ours_by_shown for each in said) or len(said) < len(items):
        flags.append(UNKNOWN_IDS)
    for item, shown in zip(items, said, strict=False):
        if shown in ours_by_shown:
            yield ours_by_shown[shown], item


def _merge(answers: Sequence[tuple[ClaimReply, ...] | None]) -> tuple[ClaimReply, ...] | None:
    """Return the claims of all items about one sentence; None where they disagree or one is broken."""
    if len(answers) == 1:
        return answers[0]
    replies: list[ClaimReply] = []
    for reply in (reply for answer in answers for reply in answer or ()):
        if len(replies) < _MAX_CLAIMS and reply not in replies:
            replies.append(reply)
    texts = [reply.claim for reply in replies if reply.claim]
    if None in answers or len(set(texts)) < len(texts) or (_NO_CLAIM in replies and len(replies) > 1):
        return None
    return tuple(replies)


def _claims(item: Item) -> tuple[ClaimReply, ...] | None:
    """Return the claims of an item, or the only one that it is itself."""
    given: object = item.get("claims", item)
    values = [given] if isinstance(given, dict) else given
    if not isinstance(values, list) or len(values) > _MAX_CLAIMS:
        return None
    claims = [_claim(value) for value in values]
    return None if None in claims else tuple(claim for claim in claims if claim is not None) or (_NO_CLAIM,)


def _claim(value: object) -> ClaimReply | None:
    if not isinstance(value, dict):
        return None
    said = {
        **value,
        "claim": first_member(value, _CLAIM_NAMES),
        "quotes": read_quotes(value),
        "verdict": first_member(value, VERDICT_NAMES),
    }
    try:
        claim = ClaimReply.model_validate(said)
    except ValidationError:
        return None
    return claim if is_unicode(claim.claim, claim.reason, *claim.quotes) else None


# "Yes.", "It does not.": such a sentence has the words of its claim elsewhere.
_SHORT_SENTENCE_WORDS: Final = 3
_MAX_LABEL_CHARACTERS: Final = 2
# Share of a sentence's words that its claims and the question must have.
_LEAST_COVERED: Final = 0.5


def build_claims(
    reading: Reading[int], batch: Mapping[int, int], sample: SegmentedSample, search: EvidenceSearch
) -> list[Claim]:
    """Build the claims of a batch of sentences (number by position).

    A sentence without an answer is one unanswered claim. One that states a fact, and has no claim for the judge, is
    flagged `no_claim_doubtful`; claims that leave out an amount, a name or most words of theirs, `claims_incomplete`.
    """
    claims: list[Claim] = []
    for position, number in within_deadline(batch.items()):
        sentence = sample.sentences[position]
        unanswered = whole_sentence_claim(
            position, sentence, verdict=Verdict.NOT_MENTIONED, support=0.0, flags=(UNANSWERED,)
        )
        made = [
            apply_evidence_to_reply(
                replace(
                    unanswered, id=f"{position}.{order}", text=sentence.text if _is_label(said.claim) else said.claim
                ),
                said,
                search,
            )
            for order, said in enumerate(reading.claims.get(number, ()))
        ]
        if not made:
            claims.append(unanswered)
        elif not any(claim.is_checkable for claim in made):
            claims.append(_doubt_no_claim(made[0], position, sample, search))
        elif _covers([claim.text for claim in made if claim.is_checkable], sentence.text, search):
            claims += made
        else:
            claims += (with_flags(claim, UNCOVERED) for claim in made)
    return claims


def _doubt_no_claim(claim: Claim, position: int, sample: SegmentedSample, search: EvidenceSearch) -> Claim:
    """Return what a judge calls no claim, flagged if its sentence states a fact: "Did you know that it leaks?" does."""
    text = sample.sentences[position].text
    asserted = sample.assertions[sample.checkable.index(position)]
    is_led = asserted != text and asserted.endswith(("?", "？"))
    if not (is_led or states_fact(asserted, search)) or inspect(Sample("", (), text)).flags:
        return claim
    return replace(claim, text=asserted.rstrip("?？吗 ") if is_led else asserted, flags=(NO_CLAIM,))


def _covers(claims: Sequence[str], sentence: str, search: EvidenceSearch) -> bool:
    """Return True if claims and question have the sentence's amounts, names, and half of its words."""
    if sentence in claims:
        return True
    sentence = search.without_marks(sentence)
    said = "\n".join((*claims, search.question))
    wanted = word_stems(sentence)
    if len(wanted) > _SHORT_SENTENCE_WORDS and len(wanted & word_stems(said)) < _LEAST_COVERED * len(wanted):
        return False
    if missing(read_amounts(sentence), facts_in(said)):
        return False
    return not KnownNames(frozenset(split_words(said).every), [said]).find_unknown(sentence)


def build_checked_claims(reading: Reading[str], claims: Sequence[Claim], search: EvidenceSearch) -> dict[str, Claim]:
    """Return the claims that the reply has a verdict on, by id, with that verdict."""
    return {
        claim.id: apply_evidence_to_reply(replace(claim, flags=(), evidence=()), reading.claims[claim.id][0], search)
        for claim in within_deadline(claims)
        if claim.id in reading.claims
    }


def apply_evidence_to_reply(claim: Claim, said: ClaimReply, search: EvidenceSearch) -> Claim:
    evidence = tuple(dict.fromkeys(each for quote in said.quotes for each in _locate(quote, search)))
    judged = apply_evidence(
        replace(
            claim,
            text=search.without_marks(claim.text),
            verdict=said.verdict,
            support=SUPPORT_BY_VERDICT.get(said.verdict),
            reason=said.reason or None,
            evidence=evidence,
            flags=(),
        ),
        search,
    )
    return replace(judged, text=claim.text)


def _locate(quote: str, search: EvidenceSearch) -> list[Evidence]:
    """Search for a quote as a whole, then, where it is several glued together or has a label, for its parts."""
    whole = search.locate(quote)
    if whole is None or whole.verified:
        return [] if whole is None else [whole]
    parts = [search.locate(part) for part in separate_quotes(quote)]
    found = [part for part in parts if part is not None]
    return found if any(part.verified for part in found) else [whole]


def _is_label(claim: str) -> bool:
    return not claim or (claim.isascii() and len(claim) <= _MAX_LABEL_CHARACTERS)
