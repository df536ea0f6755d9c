"""Probes: lists of verdicts that a judge gives besides those on sentences, each with its form and its reading.

The instructions of each stand under its name in `prompts/ask_metrics`. A list that is missing, broken or without its
evidence is asked for once more, alone; the verdicts on sentences never depend on it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from plumbline.ground.errors import FailureReason
from plumbline.ground.phrases import load_data
from plumbline.judging.judge.context_windows import Window
from plumbline.judging.judge.evidence.search import EvidenceSearch
from plumbline.judging.judge.evidence.verdict_rules import word_stems
from plumbline.judging.judge.reply_items import Item, fold_word, is_unicode, read_id, read_quotes, reply_items
from plumbline.judging.ports.exchange import ChatReply
from plumbline.judging.ports.numbering import OURS, Numbering
from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Claim, Evidence, MetricAnswers, MetricVerdict, is_duplicate, mark_duplicates
from plumbline.judging.text.words import detect_language, has_content

# Flag of a verdict whose evidence our search did not find; it counts as the probe's `unproven`.
UNVERIFIED: Final = "evidence_unverified"
_WHOLE: Final = ("",)
_MAX_TEXT_CHARACTERS: Final = 1_000
_MAX_ITEMS: Final = 500
_MAX_QUOTES: Final = 8
# Members with ids of the answer's sentences.
_NAMING: Final = ("answered_by", "stated_by")
# Of a part's words, in the question: a part with fewer was not asked.
_LEAST_ASKED: Final = 0.5


def object_schema(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these members, all required, in this order."""
    return {"type": "object", "properties": dict(members), "required": list(members), "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class Material:
    """One sample as probes see it; `claims` are those of the first pass, `numbering` that of the request."""

    case: SegmentedSample
    contexts: EvidenceSearch
    claims: Sequence[Claim] = ()
    numbering: Numbering = OURS

    def sentences(self, value: object) -> tuple[int, ...] | None:
        """Return the positions of the answer's sentences that a judge named by the ids of checkable ones.

        None if it named only others: it may have counted them itself, from 0 or from 1.
        """
        ids = filter(None, map(read_id, value if isinstance(value, list) else [value]))
        named = dict.fromkeys(self.numbering.number(int(each.split(".")[0])) - 1 for each in ids)
        checkable = self.case.checkable
        found = tuple(checkable[number] for number in named if 0 <= number < len(checkable))
        return found if found or not named else None


@dataclass(frozen=True, slots=True)
class Probe:
    """One list of verdicts.

    Args:
        name: key of the list in the reply, and of its instructions.
        verdict: member with the verdict; no other list has one of this name.
        words: each verdict with the words for it, folded, besides its own.
        members: schema of the other members; none may be called as a list of the reply is.
        shows: members of the data that it needs.
        unproven: the verdict that counts where evidence stays missing.
        prove: returns a verdict with its evidence, flagged `evidence_unverified` where it lacks some; None for an item
            about nothing that was asked.
        about: member that names the id of what an item is about; empty where the judge itself splits the one thing.
        text: member with the words that tell two items about one id apart; empty where an id has one item.
        ids: of what must be judged in a sample.
        part: name of its instructions where several probes share them; `stated` follows them, one line of JSON.
    """

    name: str
    verdict: str
    words: Mapping[str, str]
    members: Mapping[str, Any]
    shows: Sequence[str]
    prove: Callable[[MetricVerdict, Item, Material], MetricVerdict | None]
    unproven: str
    about: str = ""
    text: str = ""
    ids: Callable[[Material], tuple[str, ...]] = lambda material: _WHOLE
    part: str = ""
    stated: str = ""

    @property
    def needs_reference(self) -> bool:
        return "reference" in self.shows

    def instructions(self, parts: Mapping[str, str]) -> str:
        text = parts[self.part or self.name]
        return f"{text.rstrip()}\n  {self.stated}\n" if self.stated else text

    @property
    def schema(self) -> dict[str, Any]:
        text = {"type": "string"}
        about = {self.about: text if self.about == "claim_id" else {"type": "integer"}} if self.about else {}
        verdict = {self.verdict: {"type": "string", "enum": list(self.words)}}
        return object_schema({**about, **({self.text: text} if self.text else {}), **self.members, **verdict})


# Each with the ids that it is asked about.
AskedProbes = Sequence[tuple[Probe, Sequence[str]]]


def read_probe(
    probe: Probe, content: str, wanted: Sequence[str], material: Material, *, is_truncated: bool, is_alone: bool
) -> dict[str, tuple[MetricVerdict, ...]]:
    """Return the verdicts on each wanted id of ours that the reply has whole ones on.

    An id with a broken item, or with two items that disagree on one text, is left out. `is_alone`: the reply has
    nothing but such lists, so that an item may also call its members `id` and `verdict`.
    """
    names = (probe.verdict, "verdict") if is_alone else (probe.verdict,)
    items, _ = reply_items(content, probe.name, is_truncated=is_truncated, verdict_names=names)
    verdicts = {fold_word(word): each for each, words in probe.words.items() for word in (each, *words.split())}
    said_ids = [read_id(item.get(probe.about, item.get("id"))) for item in items[:_MAX_ITEMS]]
    ids = [each if probe.about in ("", "claim_id") else int(each) for each in wanted]
    ours = material.numbering.ours_by_shown(ids, set(said_ids), content)
    said: dict[str, dict[str, MetricVerdict | None]] = {}
    for item, said_id in zip(items, said_ids, strict=False):
        if (probe.about and said_id not in ours) or not any(name in item for name in names):
            continue
        item_id = str(ours[said_id]) if probe.about else _WHOLE[0]
        word = next(item[name] for name in names if name in item)
        text = item.get(probe.text) if probe.text else ""
        verdict = verdicts.get(fold_word(word)) if isinstance(word, str) else None
        found = said.setdefault(item_id, {})
        names_others = any(material.sentences(item.get(name)) is None for name in _NAMING if name in item)
        if verdict is None or names_others or not isinstance(text, str) or not is_unicode(text):
            found["\0"] = None
            continue
        plain = MetricVerdict(probe.name, item_id, verdict, text[:_MAX_TEXT_CHARACTERS])
        proven = probe.prove(plain, item, material)
        if proven is None:
            continue
        key = fold_word(text)
        earlier = found.get(key, proven)
        found[key] = proven if earlier is not None and earlier.verdict == verdict else None
    return {
        item_id: tuple(each for each in by_text.values() if each is not None)
        for item_id, by_text in said.items()
        if by_text and None not in by_text.values()
    }


def _proven_share(probe: Probe, verdicts: Sequence[MetricVerdict]) -> float:
    return sum(not each.flags and each.verdict != probe.unproven for each in verdicts) / max(1, len(verdicts))


def prove_by_contexts(
    verdict: MetricVerdict, item: Item, search: EvidenceSearch, *, context: int | None = None
) -> MetricVerdict:
    """Return the verdict with those of the item's quotes that stand in a context, or in the one of that index."""
    quotes = [each for each in read_quotes(item)[:_MAX_QUOTES] if isinstance(each, str) and is_unicode(each)]
    located = (search.locate(quote[:_MAX_TEXT_CHARACTERS], context=context) for quote in quotes)
    found = tuple(each for each in located if each and each.verified)
    return replace(verdict, evidence=found, flags=() if found else (UNVERIFIED,))


def prove_by_text(verdict: MetricVerdict, item: Item, text: str) -> MetricVerdict:
    """Return the verdict with those of the item's quotes that stand in a text, which is no context."""
    proven = prove_by_contexts(verdict, item, EvidenceSearch((text,)))
    evidence = tuple(Evidence(None, each.quote, None, None, verified=True) for each in proven.evidence)
    return replace(proven, evidence=evidence)


def _prove_part(verdict: MetricVerdict, item: Item, material: Material) -> MetricVerdict | None:
    question, words = material.case.source.question, word_stems(verdict.text)
    is_copied = fold_word(verdict.text) in fold_word(question)
    if not is_copied and len(words & word_stems(question)) < _LEAST_ASKED * len(words):
        return None
    sentences = material.sentences(item.get("answered_by")) or ()
    is_answered = verdict.verdict in ("fully", "partly")
    flags = (UNVERIFIED,) if is_answered and not sentences else ()
    return replace(verdict, sentences=sentences if is_answered else (), flags=flags)


def _prove_passage(verdict: MetricVerdict, item: Item, material: Material) -> MetricVerdict:
    if verdict.verdict == "irrelevant":
        return verdict
    return prove_by_contexts(verdict, item, material.contexts, context=int(verdict.id) - 1)


def reference_sentences(reference: str | None) -> dict[str, str]:
    """Return the sentences of a reference by their numbers from 1."""
    spoken = (sentence.text for sentence in split_sentences(reference or "") if sentence.kind != "markup")
    return {str(number): text for number, text in enumerate(spoken, start=1)}


def _reference_ids(material: Material) -> tuple[str, ...]:
    return tuple(reference_sentences(material.case.source.reference))


def select_compared_claims(claims: Sequence[Claim]) -> list[Claim]:
    return [claim for claim in mark_duplicates(claims) if claim.is_checkable and not is_duplicate(claim)]


def _prove_stated(verdict: MetricVerdict, item: Item, material: Material) -> MetricVerdict:
    if verdict.verdict == "missing":
        return verdict
    named = material.sentences(item.get("stated_by")) or ()
    fact, answer = verdict.text, material.case.sentences
    is_comparable = detect_language(fact) == material.case.language
    sentences = tuple(at for at in named if not is_comparable or word_stems(fact) & word_stems(answer[at].text))
    return replace(verdict, sentences=sentences, flags=() if sentences else (UNVERIFIED,))


def _prove_in_contexts(verdict: MetricVerdict, item: Item, material: Material) -> MetricVerdict:
    return verdict if verdict.verdict == "missing" else prove_by_contexts(verdict, item, material.contexts)


def _prove_by_reference(verdict: MetricVerdict, item: Item, material: Material) -> MetricVerdict:
    claim = next(claim for claim in material.claims if claim.id == verdict.id)
    verdict = replace(verdict, text=claim.text, sentences=(claim.sentence,))
    if verdict.verdict == "not_mentioned":
        return verdict
    return prove_by_text(verdict, item, material.case.source.reference or "")


_FORMS: Final = load_data("judging/judge/probes")
QUESTION_PARTS: Final = Probe("question_parts", prove=_prove_part, **_FORMS["question_parts"])
PASSAGES: Final = Probe(
    "passages",
    prove=_prove_passage,
    ids=lambda material: tuple(
        str(number) for number, text in enumerate(material.case.source.contexts, start=1) if has_content(text)
    ),
    **_FORMS["passages"],
)
REFERENCE_IN_ANSWER: Final = Probe(
    "reference_in_answer", prove=_prove_stated, ids=_reference_ids, **_FORMS["reference_in_answer"]
)
REFERENCE_IN_CONTEXTS: Final = Probe(
    "reference_in_contexts", prove=_prove_in_contexts, ids=_reference_ids, **_FORMS["reference_in_contexts"]
)
CLAIMS_BY_REFERENCE: Final = Probe(
    "claims_by_reference",
    prove=_prove_by_reference,
    ids=lambda material: tuple(claim.id for claim in select_compared_claims(material.claims)),
    **_FORMS["claims_by_reference"],
)

# A list that a reply left out is asked for so often.
_MOST_ASKS: Final = 2


@dataclass(slots=True)
class ProbeProgress:
    """Verdicts of probes, filled reply by reply; each probe is asked twice at most."""

    probes: tuple[Probe, ...]
    case: SegmentedSample
    search: EvidenceSearch
    _found: dict[str, dict[str, tuple[MetricVerdict, ...]]] = field(default_factory=dict)
    _asks: Counter[str] = field(default_factory=Counter)

    def take(self, claims: Sequence[Claim] | None) -> list[tuple[Probe, list[str]]]:
        """Return the probes with the ids that lack a proven verdict; without claims those of the first reply."""
        material = Material(self.case, self.search, claims or ())
        taken = []
        for probe in self.probes:
            if self._asks[probe.name] >= _MOST_ASKS or (claims is None and probe.needs_reference):
                continue
            found = self._found.get(probe.name, {})
            unproven = {each for each, said in found.items() if any(UNVERIFIED in verdict.flags for verdict in said)}
            if ids := [each for each in probe.ids(material) if each not in found or each in unproven]:
                taken.append((probe, ids))
        self._asks.update(probe.name for probe, _ in taken)
        return taken

    def read(
        self, reply: ChatReply, numbering: Numbering, asked: AskedProbes, claims: Sequence[Claim], *, is_alone: bool
    ) -> None:
        """Keep the verdicts of a reply to a request with this numbering; `is_alone` as for `read_probe`."""
        material = Material(self.case, self.search, claims, numbering)
        for probe, ids in asked:
            found = self._found.setdefault(probe.name, {})
            read = read_probe(probe, reply.content, ids, material, is_truncated=reply.is_truncated, is_alone=is_alone)
            for each, verdicts in read.items():
                # Another window may prove less than the last one did.
                if _proven_share(probe, verdicts) >= _proven_share(probe, found.get(each, ())):
                    found[each] = verdicts

    def answers(self, claims: Sequence[Claim], failures: Mapping[str, str]) -> MetricAnswers:
        """Return the verdicts of the probes that have all of them; for the others the failure of their last call."""
        material = Material(self.case, self.search, claims)
        verdicts: dict[str, tuple[MetricVerdict, ...]] = {}
        reasons: dict[str, str] = {}
        for probe in self.probes:
            found = self._found.get(probe.name, {})
            if all(each in found for each in probe.ids(material)):
                verdicts[probe.name] = tuple(
                    replace(each, verdict=probe.unproven) if UNVERIFIED in each.flags else each
                    for said in found.values()
                    for each in said
                )
            else:
                reasons[probe.name] = failures.get(probe.name, FailureReason.INVALID_REPLY)
        return MetricAnswers(verdicts, reasons)


def split_by_window(asked: AskedProbes, windows: Sequence[Window]) -> list[tuple[AskedProbes, Window]]:
    """Return what is asked in each window: of passages those in it, without need of contexts all in the first."""
    seen: set[str] = set()
    parts: list[tuple[AskedProbes, Window]] = []
    for position, window in enumerate(windows):
        here = {str(piece.number) for piece in window} - seen
        seen |= here
        chosen = [
            (probe, [each for each in ids if probe.about != "context" or each in here])
            for probe, ids in asked
            if position == 0 or "contexts" in probe.shows
        ]
        if part := [each for each in chosen if each[1]]:
            parts.append((part, window))
    return parts
