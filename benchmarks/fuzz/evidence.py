"""Target evidence: quotes located in contexts, their numbers and negations compared, copies searched."""

import re
from collections.abc import Sequence

from rapidfuzz.fuzz import ratio

from benchmarks.fuzz.material import divided, raw, text_of
from plumbline.judging.judge.evidence.quotes import fold, plain, strip_markup
from plumbline.judging.judge.evidence.search import EvidenceSearch
from plumbline.judging.judge.evidence.verdict_rules import apply_evidence
from plumbline.judging.quantities.comparison import facts_in, missing
from plumbline.judging.quantities.reader import read_amounts
from plumbline.judging.text.identifiers import find_identifiers
from plumbline.judging.text.negation import differs
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.text.verdicts import Claim, Evidence, Verdict
from plumbline.judging.text.words import Passage, normalise
from plumbline.judging.tiers.lexical import collect_lexical_findings

_ELLIPSIS = re.compile(r"\.{3,}|…+|\. \. \.")
# Edges that are widened to whole words lower the likeness of 90 that is promised.
_MIN_LIKENESS = 80.0
# A check reads a text some twenty times.
_MAX_CHARACTERS = 4_000
_VERDICTS = tuple(Verdict)
SEEDS = tuple(
    bytes((len(quote), len(context), 3)) + raw(quote) + raw(context) + b"\xff"
    for quote, context in (
        ("The dam was built in 1932", "The **dam** was built in 1932, at a cost of $5 million."),
        ("the dam ... of 5 million dollars", "The dam was closed for a year at a cost of 5 million dollars."),
        ("大坝建成于一九三二年", "据说，大坝建成于一九三二年三月5日。"),
        ("It rose by 12% in May 2020, no more than 3", "It fell by 12 percent on 3 May 2020."),
    )
)


def check(data: bytes) -> None:
    """Raises AssertionError where a place is not what was quoted, or a plain quote is not found."""
    quote_bytes, context_bytes, control = divided(data, 3)
    contexts = [text_of(each, limit=_MAX_CHARACTERS) for each in (context_bytes, context_bytes[::-1])]
    cut = len(contexts[0]) // (1 + (control[0] if control else 0) % 7)
    quote = text_of(quote_bytes, limit=_MAX_CHARACTERS) if len(control) % 2 else contexts[0][cut // 2 : cut]
    excluded = _excluded(control, contexts)
    search = EvidenceSearch(contexts, suspects=excluded)
    given = (quote, quote.upper(), quote.replace(" ", "  "))[len(quote_bytes) % 3]
    found = search.locate(given)
    assert (found is None) == (not given.strip()), "None for a quote, or a place for none"
    if found is not None:
        _check_place(found, given, contexts)
        search.stands_in_instruction(found)
        verdict = _VERDICTS[len(control) % len(_VERDICTS)]
        claim = Claim("0.0", 0, given[:4_000], 0, 1, verdict, 0.5, evidence=(found,))
        apply_evidence(claim, search)
    if not excluded and search.stands_verbatim(quote) and _must_be_found(quote, contexts):
        found = search.locate(quote)
        assert found is not None, "None for a quote that stands there"
        assert found.verified, "not found though it stands there"
    _check_comparisons(quote, contexts[0])
    _check_copies(quote, contexts)


def _excluded(control: bytes, contexts: Sequence[str]) -> list[tuple[int, int, int]]:
    spans: list[tuple[int, int, int]] = []
    at = 0
    for gap, length in zip(control[1:9:2], control[2:9:2], strict=False):
        start, end = at + gap, at + gap + length
        if length and end <= len(contexts[0]):
            spans.append((0, start, end))
            at = end
    return spans


def _check_place(found: Evidence, quote: str, contexts: Sequence[str]) -> None:
    if not found.verified:
        assert (found.start, found.end, found.quote) == (None, None, quote), "a place for what was not found"
        assert found.context in (None, 0), "context"
        return
    assert found.context is not None, "no context"
    assert found.start is not None, "no start"
    assert found.end is not None, "no end"
    assert 0 <= found.start < found.end <= len(contexts[found.context]), "bounds"
    assert contexts[found.context][found.start : found.end] == found.quote, "slice"
    assert _is_alike(quote, found.quote), "not the quote"


def _is_alike(quote: str, passage: str) -> bool:
    """Whether a passage is a quote as the search declares it: folded, without markup, by parts, or nearly."""
    wanted, had = _letters(quote), _letters(passage)
    if any(one in other or ratio(one, other) >= _MIN_LIKENESS for one, other in zip(wanted, had, strict=True)):
        return True
    parts, at = [_letters(part)[1] for part in _ELLIPSIS.split(quote)[:8]], 0
    for part in parts:
        at = had[1].find(part, at)
        if at < 0:
            return False
        at += len(part)
    return len(parts) > 1


def _letters(text: str) -> tuple[str, str]:
    """The letters and digits, with markup and without."""
    forms = (fold(plain(text)).text, fold(strip_markup(plain(text))).text)
    return ("".join(filter(str.isalnum, forms[0])), "".join(filter(str.isalnum, forms[1])))


def _must_be_found(quote: str, contexts: Sequence[str]) -> bool:
    """A quote of words that begins and ends with a letter is found wherever it stands, even inside of a word."""
    wanted = quote.strip()
    is_telling = len(re.findall(r"\b(?:word|dam|built)\b", wanted)) > 0
    return is_telling and wanted[0].isalpha() and wanted[-1].isalpha()


def _check_comparisons(one: str, other: str) -> None:
    for text in (one, other):
        # What is left of a number that hangs on a code, as in `m0:0`, is read in claims alone.
        lost = missing(read_amounts(text), facts_in(text)) if not any(find_identifiers(text)) else None
        assert not lost, "a text lacks its own numbers"
        assert not differs(text, text), "a text negates itself"
    missing(read_amounts(one), facts_in(other))
    differs(one, other)


def _check_copies(part: str, contexts: Sequence[str]) -> None:
    for context in contexts:
        found = Passage(context).contains(part)
        assert not found or normalise(part) in normalise(context), "a copy of what does not stand there"
    if normalise(contexts[0]):
        assert Passage(contexts[0]).contains(contexts[0]), "a text is no copy of itself"
    for finding in collect_lexical_findings(segment(Sample("", tuple(contexts), part))).values():
        assert finding.evidence is None or finding.evidence.verified, "evidence"
