"""Probes: lists of verdicts that a judge gives besides those on sentences, each with its form and its reading.

The instructions of each stand under its name in `prompts/ask_metrics`. A list that is missing, broken or without its
evidence is asked for once more, alone; the verdicts on sentences never depend on it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Claim, Evidence, MetricVerdict, is_duplicate, mark_duplicates
from plumbline.judging.text.words import detect_language, has_content
from plumbline.judging.tiers.evidence.search import EvidenceSearch
from plumbline.judging.tiers.evidence.verdict_rules import word_stems
from plumbline.judging.tiers.reply_items import Item, reply_items

# Flag of a verdict whose evidence our search did not find; it counts as the probe's `unproven`.
UNVERIFIED: Final = "evidence_unverified"
# A probe with one id: the judge itself splits what it is about.
WHOLE: Final = ("",)
_MAX_TEXT_CHARACTERS: Final = 1_000
_MAX_ITEMS: Final = 500
_MAX_ID_CHARACTERS: Final = 40
_NUMBER: Final = re.compile(r"\d{1,6}(?:\.\d{1,6})?")
_JOINTS: Final = re.compile(r"[\W_]+")
# Of a part's words, in the question: a part with fewer was not asked.
_LEAST_ASKED: Final = 0.5


@dataclass(frozen=True, slots=True)
class Material:
    """One sample as probes see it; `claims` are those of the first pass."""

    case: SegmentedSample
    contexts: EvidenceSearch
    claims: Sequence[Claim] = ()

    def sentences(self, value: object) -> tuple[int, ...]:
        """Return the positions of the answer's sentences that a judge named by the numbers of checkable ones."""
        numbers = (_NUMBER.search(str(each)) for each in (value if isinstance(value, list) else [value]))
        named = dict.fromkeys(int(found[0].split(".")[0]) - 1 for found in numbers if found)
        checkable = self.case.checkable
        return tuple(checkable[number] for number in named if 0 <= number < len(checkable))


@dataclass(frozen=True, slots=True)
class Probe:
    """One list of verdicts.

    Args:
        name: key of the list in the reply, and of its instructions.
        about: member that names the id of what an item is about; empty where the judge itself splits the one thing.
        text: member with the words that tell two items about one id apart; empty where an id has one item.
        verdict: member with the verdict; no other list has one of this name.
        words: each verdict with the words for it, folded, besides its own.
        members: schema of the other members; none may be called as a list of the reply is.
        ids: of what must be judged in a sample.
        shows: members of the data that it needs.
        prove: returns a verdict with its evidence, flagged `evidence_unverified` where it lacks some; None for an item
            about nothing that was asked.
        unproven: the verdict that counts where evidence stays missing.
        part: name of its instructions where several probes share them; `stated` follows them, one line of JSON.
    """

    name: str
    about: str
    text: str
    verdict: str
    words: Mapping[str, str]
    members: Mapping[str, Any]
    ids: Callable[[Material], tuple[str, ...]]
    shows: tuple[str, ...]
    prove: Callable[[MetricVerdict, Item, Material], MetricVerdict | None]
    unproven: str
    needs_reference: bool = False
    part: str = ""
    stated: str = ""

    def instructions(self, parts: Mapping[str, str]) -> str:
        """Return what a judge is told of it, from the parts of a prompt."""
        text = parts[self.part or self.name]
        return f"{text.rstrip()}\n  {self.stated}\n" if self.stated else text

    @property
    def schema(self) -> dict[str, Any]:
        """Return the schema of an item, the verdict last."""
        text = {"type": "string"}
        members = {
            **({self.about: text if self.about == "claim_id" else {"type": "integer"}} if self.about else {}),
            **({self.text: text} if self.text else {}),
            **self.members,
            self.verdict: {"type": "string", "enum": list(self.words)},
        }
        return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


def read_probe(
    probe: Probe, content: str, wanted: Sequence[str], material: Material, *, is_truncated: bool, is_alone: bool
) -> dict[str, tuple[MetricVerdict, ...]]:
    """Return the verdicts on each wanted id that the reply has whole ones on.

    An id with a broken item, or with two items that disagree on one text, is left out. `is_alone`: the reply has
    nothing but such lists, so that an item may also call its members `id` and `verdict`.
    """
    names = (probe.verdict, "verdict") if is_alone else (probe.verdict,)
    items, _ = reply_items(content, probe.name, is_truncated=is_truncated, verdict_names=names)
    verdicts = {_fold(word): verdict for verdict, words in probe.words.items() for word in (verdict, *words.split())}
    said: dict[str, dict[str, MetricVerdict | None]] = {}
    for item in items[:_MAX_ITEMS]:
        item_id = _meant_id(item.get(probe.about, item.get("id")), wanted) if probe.about else WHOLE[0]
        if item_id is None or not any(name in item for name in names):
            continue
        word = next(item[name] for name in names if name in item)
        text = item.get(probe.text) if probe.text else ""
        verdict = verdicts.get(_fold(word)) if isinstance(word, str) else None
        found = said.setdefault(item_id, {})
        if verdict is None or not isinstance(text, str) or not _is_unicode(text):
            found["\0"] = None
            continue
        plain = MetricVerdict(probe.name, item_id, verdict, text[:_MAX_TEXT_CHARACTERS])
        proven = probe.prove(plain, item, material)
        if proven is None:
            continue
        key = _fold(text)
        earlier = found.get(key, proven)
        found[key] = proven if earlier is not None and earlier.verdict == verdict else None
    return {
        item_id: tuple(each for each in by_text.values() if each is not None)
        for item_id, by_text in said.items()
        if by_text and None not in by_text.values()
    }


def better_reading(
    probe: Probe, old: tuple[MetricVerdict, ...] | None, new: tuple[MetricVerdict, ...]
) -> tuple[MetricVerdict, ...]:
    """Return the newer verdicts on an id, or the older ones if more of those are proven: another window has less."""

    def proven(verdicts: tuple[MetricVerdict, ...]) -> float:
        return sum(not each.flags and each.verdict != probe.unproven for each in verdicts) / max(1, len(verdicts))

    return old if old is not None and proven(old) > proven(new) else new


def lower_unproven(probe: Probe, verdicts: Iterable[MetricVerdict]) -> tuple[MetricVerdict, ...]:
    """Return the verdicts, those without the evidence that they need as what the probe takes them for."""
    return tuple(replace(each, verdict=probe.unproven) if UNVERIFIED in each.flags else each for each in verdicts)


def _meant_id(given: object, wanted: Sequence[str]) -> str | None:
    """Return the wanted id that 2, "2" or "Context 2" means."""
    if isinstance(given, bool) or not isinstance(given, str | int):
        return None
    numbers = _NUMBER.findall(str(given)[:_MAX_ID_CHARACTERS])
    return numbers[0] if len(numbers) == 1 and numbers[0] in wanted else None


def _fold(word: str) -> str:
    return _JOINTS.sub("", word.casefold())


def _is_unicode(text: str) -> bool:
    """Return False for half a surrogate pair, which JSON can hold and our answers cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _quotes(item: Item) -> list[str]:
    value = item.get("quote", item.get("quotes"))
    values = value if isinstance(value, list) else [value]
    texts = [each.get("text", each.get("quote")) if isinstance(each, dict) else each for each in values]
    return [text for text in texts[:8] if isinstance(text, str) and text.strip() and _is_unicode(text)]


def found_quotes(item: Item, search: EvidenceSearch) -> tuple[Evidence, ...]:
    """Return where the quotes of an item stand."""
    return _found(_quotes(item), search)


def _found(quotes: Iterable[str], search: EvidenceSearch, context: int | None = None) -> tuple[Evidence, ...]:
    """Return where the quotes stand: in any text, or in that of the index alone."""
    located = (search.locate(quote[:_MAX_TEXT_CHARACTERS], [] if context is None else [context]) for quote in quotes)
    return tuple(each for each in located if each is not None and each.verified and context in (None, each.context))


# --- question_parts


def _prove_part(verdict: MetricVerdict, item: Item, material: Material) -> MetricVerdict | None:
    question, words = material.case.source.question, word_stems(verdict.text)
    is_copied = _fold(verdict.text) in _fold(question)
    if not is_copied and len(words & word_stems(question)) < _LEAST_ASKED * len(words):
        return None
    sentences = material.sentences(item.get("answered_by"))
    is_answered = verdict.verdict in ("fully", "partly")
    flags = (UNVERIFIED,) if is_answered and not sentences else ()
    return replace(verdict, sentences=sentences if is_answered else (), flags=flags)


QUESTION_PARTS: Final = Probe(
    name="question_parts",
    about="",
    text="part",
    verdict="answered",
    words={
        "fully": "full complete completely yes answered 完全 完整 是 已回答 完全回答",
        "partly": "partially partial incomplete some 部分 部分回答 不完整",
        "evaded": "evasive evades avoided declined deflected 回避 答非所问 拒答 敷衍",
        "no": "not none notanswered unanswered missing silent 否 未回答 没有回答 无",
    },
    members={"answered_by": {"type": "array", "items": {"type": "integer"}}},
    ids=lambda material: WHOLE,
    shows=("question", "answer"),
    prove=_prove_part,
    unproven="no",
)


# --- passages


def _prove_passage(verdict: MetricVerdict, item: Item, material: Material) -> MetricVerdict:
    if verdict.verdict == "irrelevant":
        return verdict
    evidence = _found(_quotes(item), material.contexts, int(verdict.id) - 1)
    return replace(verdict, evidence=evidence, flags=() if evidence else (UNVERIFIED,))


PASSAGES: Final = Probe(
    name="passages",
    about="context",
    text="",
    verdict="relevance",
    words={
        "relevant": "yes useful needed helpful 相关 有关 有用 是 需要",
        "irrelevant": "no notrelevant unrelated useless notneeded 不相关 无关 无用 否 不需要",
    },
    members={"quote": {"type": "string"}},
    ids=lambda material: tuple(
        str(number) for number, text in enumerate(material.case.source.contexts, start=1) if has_content(text)
    ),
    shows=("contexts", "question"),
    prove=_prove_passage,
    unproven="irrelevant",
)


# --- against a reference


def reference_sentences(reference: str | None) -> dict[str, str]:
    """Return the sentences of a reference by their numbers from 1."""
    spoken = (sentence.text for sentence in split_sentences(reference or "") if sentence.kind != "markup")
    return {str(number): text for number, text in enumerate(spoken, start=1)}


def compared_claims(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims of the answer that are compared with the reference: each once, what is no claim left out."""
    return [claim for claim in mark_duplicates(claims) if claim.is_checkable and not is_duplicate(claim)]


def _prove_stated(verdict: MetricVerdict, item: Item, material: Material) -> MetricVerdict:
    if verdict.verdict == "missing":
        return verdict
    named = material.sentences(item.get("stated_by"))
    fact, answer = verdict.text, material.case.sentences
    is_comparable = detect_language(fact) == material.case.language
    sentences = tuple(at for at in named if not is_comparable or word_stems(fact) & word_stems(answer[at].text))
    return replace(verdict, sentences=sentences, flags=() if sentences else (UNVERIFIED,))


def _prove_in_contexts(verdict: MetricVerdict, item: Item, material: Material) -> MetricVerdict:
    if verdict.verdict == "missing":
        return verdict
    evidence = _found(_quotes(item), material.contexts)
    return replace(verdict, evidence=evidence, flags=() if evidence else (UNVERIFIED,))


def _prove_by_reference(verdict: MetricVerdict, item: Item, material: Material) -> MetricVerdict:
    claim = next(claim for claim in material.claims if claim.id == verdict.id)
    verdict = replace(verdict, text=claim.text, sentences=(claim.sentence,))
    if verdict.verdict == "not_mentioned":
        return verdict
    found = _found(_quotes(item), EvidenceSearch((material.case.source.reference or "",)))
    evidence = tuple(Evidence(None, each.quote, None, None, verified=True) for each in found)
    return replace(verdict, evidence=evidence, flags=() if evidence else (UNVERIFIED,))


REFERENCE_IN_ANSWER: Final = Probe(
    name="reference_in_answer",
    about="reference",
    text="fact",
    verdict="in_answer",
    words={
        "stated": "yes present supported entailed found 有 提到 已提到 是",
        "contradicted": "contradicts contradiction wrong conflicting 矛盾 相矛盾 错误",
        "missing": "no absent notmentioned notstated unmentioned 无 没有 未提到 未提及 缺失",
    },
    members={"stated_by": {"type": "array", "items": {"type": "integer"}}},
    ids=lambda material: tuple(reference_sentences(material.case.source.reference)),
    shows=("question", "answer", "reference"),
    prove=_prove_stated,
    unproven="missing",
    needs_reference=True,
)
REFERENCE_IN_CONTEXTS: Final = Probe(
    name="reference_in_contexts",
    about="reference",
    text="fact",
    verdict="in_contexts",
    words={
        "found": "yes present stated supported entailed 有 找到 提到 是",
        "missing": "no absent notfound notmentioned notstated 无 没有 未找到 未提到 缺失",
    },
    members={"quote": {"type": "string"}},
    ids=lambda material: tuple(reference_sentences(material.case.source.reference)),
    shows=("contexts", "question", "reference"),
    prove=_prove_in_contexts,
    unproven="missing",
    needs_reference=True,
)
CLAIMS_BY_REFERENCE: Final = Probe(
    name="claims_by_reference",
    about="claim_id",
    text="",
    verdict="by_reference",
    words={
        "stated": "yes supported entailed correct found 有 支持 正确 是",
        "contradicted": "contradicts contradiction wrong incorrect conflicting 矛盾 相矛盾 错误",
        "not_mentioned": "no missing unmentioned absent neutral notstated 无 未提到 未提及 没有提到",
    },
    members={"quote": {"type": "string"}},
    ids=lambda material: tuple(claim.id for claim in compared_claims(material.claims)),
    shows=("question", "reference", "claims"),
    prove=_prove_by_reference,
    unproven="not_mentioned",
    needs_reference=True,
)
PROBES: Final = (QUESTION_PARTS, PASSAGES, REFERENCE_IN_ANSWER, REFERENCE_IN_CONTEXTS, CLAIMS_BY_REFERENCE)
