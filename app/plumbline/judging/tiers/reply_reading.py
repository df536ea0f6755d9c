"""Parsing of a judge's reply into claims: whole items are kept, broken ones are asked again."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, NoReturn, TypeVar

import json_repair
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import SUPPORT_BY_VERDICT, Claim, Verdict, whole_sentence_claim
from plumbline.judging.text.words import content_words
from plumbline.judging.tiers.evidence.search import EvidenceSearch
from plumbline.judging.tiers.evidence.verdict_rules import apply_evidence

T = TypeVar("T")

# Far above any honest reply to one batch of sentences.
_MAX_CHARACTERS: Final = 1_000_000
# Mending takes the square of an item's length: 0.1 s for this, minutes for the longest reply. A batch of sentences has
# some 16,000 characters; what is not mended is asked again.
_MAX_MENDED_ITEM_CHARACTERS: Final = 2_000
_MAX_MENDED_CHARACTERS: Final = 20_000
_MAX_LISTS: Final = 3
_MAX_QUOTES: Final = 8
_MAX_DIGITS: Final = 10
_MAX_QUOTE_CHARACTERS: Final = 4_000
_MAX_REASON_CHARACTERS: Final = 600
_MAX_CLAIM_CHARACTERS: Final = 4_000
_MAX_CLAIMS: Final = 50
# A string as a whole (it may have lost its end), or a bracket outside of strings.
# Possessive, and with an end for a torn escape: nothing in it is read twice.
_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_STEPS: Final = {"{": 1, "[": 1, "}": -1, "]": -1}


def _texts(value: object) -> object:
    if value is None:
        return []
    return [value] if isinstance(value, str) else value


def _numbers(value: object) -> object:
    given = value if isinstance(value, list) else [] if value is None else [value]
    return [int(str(each)) if str(each).isdecimal() and len(str(each)) < _MAX_DIGITS else 0 for each in given]


def _verdict(value: object) -> object:
    return re.sub(r"[\s-]+", "_", value.strip().lower()) if isinstance(value, str) else value


_Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
_Quote = Annotated[str, Field(max_length=_MAX_QUOTE_CHARACTERS)]


class ClaimReply(BaseModel):
    """A judge's reply on one claim. `quotes` are unverified until they are found in a context."""

    claim: Annotated[_Text, Field(max_length=_MAX_CLAIM_CHARACTERS)] = ""
    context_ids: Annotated[list[int], BeforeValidator(_numbers)] = Field(default_factory=list)
    quotes: Annotated[list[_Quote], BeforeValidator(_texts), Field(max_length=_MAX_QUOTES)] = Field(
        default_factory=list
    )
    derived: Annotated[bool, BeforeValidator(lambda value: value is True or str(value).lower() == "true")] = False
    reason: Annotated[_Text, BeforeValidator(lambda value: str(value or "")[:_MAX_REASON_CHARACTERS])] = ""
    verdict: Annotated[Verdict, BeforeValidator(_verdict)]


@dataclass(frozen=True, slots=True)
class SentenceReading:
    """Claims of each fully judged sentence, by its id in the request; and flags."""

    claims: Mapping[int, tuple[ClaimReply, ...]]
    flags: tuple[str, ...] = ()

    @property
    def quotes(self) -> Iterator[str]:
        return (quote for claims in self.claims.values() for claim in claims for quote in claim.quotes)


@dataclass(frozen=True, slots=True)
class ClaimReading:
    """Verdict on each claim that has one, by its id in the request; and flags."""

    claims: Mapping[str, ClaimReply]
    flags: tuple[str, ...] = ()

    @property
    def quotes(self) -> Iterator[str]:
        return (quote for claim in self.claims.values() for quote in claim.quotes)


def read_sentences(content: str, wanted: Collection[int], *, is_truncated: bool = False) -> SentenceReading:
    """Parse a reply to `verify_claims`.

    A sentence is kept when every claim of it is valid and no other item speaks of it differently. Of a cut reply
    whole items are kept. A fence or prose around the JSON does not matter. Other ids than those wanted are dropped,
    with the flag `unknown_ids_dropped`.
    """
    items, flags = _items(content, "sentences", is_truncated=is_truncated)
    claims = _by_id(items, frozenset(map(str, wanted)), lambda item: _claims(item.get("claims")), flags)
    return SentenceReading({int(number): each for number, each in claims.items()}, tuple(dict.fromkeys(flags)))


def read_claims(content: str, wanted: Collection[str], *, is_truncated: bool = False) -> ClaimReading:
    """Parse a reply to `check_claims`; otherwise as `read_sentences`."""
    items, flags = _items(content, "claims", is_truncated=is_truncated)
    return ClaimReading(_by_id(items, wanted, _claim, flags), tuple(dict.fromkeys(flags)))


def _by_id(
    items: Sequence[dict[str, Any]],
    wanted: Collection[str],
    read: Callable[[dict[str, Any]], T | None],
    flags: list[str],
) -> dict[str, T]:
    """Return by id what the items hold; nothing for an id that two items speak of differently."""
    found: dict[str, T | None] = {}
    for item in items:
        item_id = str(item.get("id"))
        if item_id in wanted:
            value = read(item)
            found[item_id] = value if found.get(item_id, value) == value else None
        else:
            flags.append("unknown_ids_dropped")
    return {item_id: value for item_id, value in found.items() if value is not None}


def _claims(values: object) -> tuple[ClaimReply, ...] | None:
    if not isinstance(values, list) or not 0 < len(values) <= _MAX_CLAIMS:
        return None
    claims = [_claim(value) for value in values]
    return tuple(claim for claim in claims if claim is not None) if all(claims) else None


def _claim(value: object) -> ClaimReply | None:
    if not isinstance(value, dict):
        return None
    given = [_texts(value.get(key)) for key in ("quotes", "quote")]
    quotes = [each for texts in given for each in (texts if isinstance(texts, list) else [texts]) if each != ""]
    try:
        claim = ClaimReply.model_validate({**value, "quotes": quotes})
        # JSON can hold half a surrogate pair, our answers cannot.
        "".join((claim.claim, claim.reason, *claim.quotes)).encode()
    except (ValidationError, UnicodeEncodeError):
        return None
    return claim


def _items(content: str, key: str, *, is_truncated: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the items of the list that the key names; of several lists the last that can be read."""
    if len(content) > _MAX_CHARACTERS:
        return [], ["reply_too_long"]
    starts = [found.end() - 1 for found in re.finditer(rf'["\']{key}["\']\s*:\s*\[', content)]
    flags = ["several_replies"] if len(starts) > 1 else []
    for start in reversed(starts[-_MAX_LISTS:]):
        items, is_cut, is_repaired = _read_list(content, start)
        if not isinstance(items, list):
            continue
        if is_cut or is_truncated:
            flags.append("truncated_reply")
        if is_repaired:
            flags.append("repaired_reply")
        return [item for item in items if isinstance(item, dict)], flags
    return [], [*flags, "truncated_reply" if is_truncated else "unreadable_reply"]


def _read_list(content: str, start: int) -> tuple[object, bool, bool]:
    """Return the list that starts at `start`, True if it was cut, and True if it was repaired; None if unreadable."""
    with suppress(ValueError, RecursionError):
        return _DECODER.raw_decode(content, start)[0], False, False
    depth, last_item_end = 0, start + 1
    for token in _TOKEN.finditer(content, start):
        depth += _STEPS.get(token[0], 0)
        if depth == 1 and token[0] == "}":
            last_item_end = token.end()
        if depth == 0:
            text, is_cut = content[start : token.end()], False
            break
    else:
        # Closed after its last whole item.
        text, is_cut = content[start:last_item_end] + "]", True
    with suppress(ValueError, RecursionError):
        return _DECODER.decode(text), is_cut, False
    return _mended(text) or None, is_cut, True


def _mended(text: str) -> list[object]:
    items: list[object] = []
    left = _MAX_MENDED_CHARACTERS
    for item in _item_texts(text):
        with suppress(ValueError, RecursionError):
            items.append(_DECODER.decode(item))
            continue
        if len(item) > min(left, _MAX_MENDED_ITEM_CHARACTERS):
            continue
        left -= len(item)
        with suppress(ValueError, RecursionError):
            items.append(json_repair.loads(item, skip_json_loads=True))
    return items


def _item_texts(text: str) -> Iterator[str]:
    depth = start = 0
    for token in _TOKEN.finditer(text):
        if depth == 1 and token[0] == "{":
            start = token.start()
        depth += _STEPS.get(token[0], 0)
        if depth == 1 and token[0] == "}":
            yield text[start : token.end()]


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any] | None:
    members = dict(pairs)
    return members if len(members) == len(pairs) else None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(strict=False, object_pairs_hook=_unique, parse_constant=_refuse)
UNANSWERED: Final = "unanswered"


def drafted_claims(
    reading: SentenceReading, batch: Mapping[int, int], sample: SegmentedSample, search: EvidenceSearch
) -> list[Claim]:
    """Build the claims of a batch of sentences (number by position); one without an answer is one unanswered claim."""
    claims: list[Claim] = []
    for position, number in batch.items():
        sentence = sample.sentences[position]
        replies = reading.claims.get(number)
        if replies is None:
            claims.append(
                whole_sentence_claim(
                    position, sentence, verdict=Verdict.NOT_MENTIONED, support=0.0, flags=(UNANSWERED,)
                )
            )
            continue
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
