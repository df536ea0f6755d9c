"""What holds for quotes searched in any context, and for offsets in any unit."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.evaluation_wire import to_wire
from app.generation.sample import Sample
from app.generation.segmentation import split_sentences
from app.generation.verdicts import Claim, Evidence, Verdict
from app.judges.evidence import EvidenceCheck, settle
from app.judges.windows import MAX_CHARACTERS, context_windows, pieces
from app.schemas.evaluation import EvaluationRequest
from app.scoring import Result, Status

_PIECES = (
    "word", "The dam", " ", "  ", "\n", "1932", "1,000", "大坝", "建成", "。", "“", '"', "’", "'", "—", "-", "ﬁ", "ß",
    "İ", "e\u0301", "Ａ", "１", "㎏", "…", "\u00a0", "\u3000", "😀", "\u200b", ".", ",",
)  # fmt: skip
_TEXTS = st.one_of(st.text(max_size=100), st.lists(st.sampled_from(_PIECES), max_size=30).map("".join))
_ENCODABLE = st.text(st.characters(codec="utf-8") | st.sampled_from("😀𠮷𝒳大é"), max_size=60)
_FAST_SECONDS = 5.0


def _assert_true_to_its_context(evidence: Evidence | None, contexts: list[str]) -> None:
    if evidence is None:
        return
    if evidence.verified:
        assert evidence.context is not None
        assert evidence.start is not None
        assert evidence.end is not None
        assert 0 <= evidence.start < evidence.end
        assert contexts[evidence.context][evidence.start : evidence.end] == evidence.quote
    else:
        assert (evidence.start, evidence.end) == (None, None)
        assert evidence.context is None or 0 <= evidence.context < len(contexts)


@given(_TEXTS, st.lists(_TEXTS, max_size=4), st.lists(st.integers(-2, 6), max_size=3))
@settings(max_examples=300)
def test_a_found_quote_is_what_lies_at_its_offsets(quote: str, contexts: list[str], cited: list[int]) -> None:
    evidence = EvidenceCheck(contexts).locate(quote, cited)

    _assert_true_to_its_context(evidence, contexts)


@given(_TEXTS, st.data())
@settings(max_examples=300)
def test_a_changed_copy_of_a_passage_is_what_lies_at_its_offsets(context: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(context)))
    end = data.draw(st.integers(start, len(context)))
    passage = context[start:end]
    quote = data.draw(st.sampled_from([passage, passage.upper(), passage.replace(" ", "  "), passage[:-1] + "x"]))

    evidence = EvidenceCheck([context]).locate(quote, [0])

    _assert_true_to_its_context(evidence, [context])


@given(st.text("abcdefgh 大坝湖泊", min_size=8, max_size=60).filter(lambda text: len(text.replace(" ", "")) >= 4))
def test_a_whole_context_is_found_in_itself(context: str) -> None:
    evidence = EvidenceCheck([context]).locate(context, [0])

    assert evidence is not None
    assert evidence.verified


@given(st.sampled_from(Verdict), st.lists(st.booleans(), max_size=3))
def test_support_never_stands_without_a_found_quote(verdict: Verdict, found: list[bool]) -> None:
    evidence = tuple(Evidence(0, "q", 0 if each else None, 1 if each else None, verified=each) for each in found)
    claim = Claim("0.0", 0, "text", 0, 4, verdict, None if verdict is Verdict.NOT_A_CLAIM else 0.5, evidence=evidence)

    settled = settle(claim)

    assert settled.verdict not in (Verdict.SUPPORTED, Verdict.PARTIAL) or any(found)
    assert settle(settled).verdict is settled.verdict


@given(st.text(max_size=3_000), st.data())
def test_pieces_cover_a_stretch_without_gap_or_overlap(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    stretch = text[start:] * 3

    cuts = pieces(stretch, 0, len(stretch))

    assert "".join(stretch[first:last] for first, last in cuts) == stretch
    assert all(last - first <= MAX_CHARACTERS for first, last in cuts)


@given(st.lists(_TEXTS, max_size=4))
def test_every_word_of_a_context_lies_in_a_window(contexts: list[str]) -> None:
    sentences = [split_sentences(context) for context in contexts]

    windows = context_windows(contexts, sentences)

    for window in windows:
        assert contexts[window.context][window.start : window.end] == window.text
    for index, context in enumerate(contexts):
        covered = {at for window in windows if window.context == index for at in range(window.start, window.end)}
        assert all(at in covered for at, character in enumerate(context) if character.isalnum())


@given(_ENCODABLE, _ENCODABLE, st.data())
def test_utf16_offsets_count_utf16_code_units(answer: str, context: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(context)))
    end = data.draw(st.integers(start, len(context)))
    request = EvaluationRequest(answer=answer, contexts=["😀", context], offset_unit="utf16")
    evidence = Evidence(1, context[start:end], start, end, verified=True)

    wire = to_wire(request, _result(answer, evidence))

    for sentence, item in zip(split_sentences(answer), wire.sentences, strict=True):
        assert (item.start, item.end) == (_units(answer[: sentence.start]), _units(answer[: sentence.end]))
    (found,) = wire.claims[0].evidence
    assert (found.start, found.end) == (_units(context[:start]), _units(context[:end]))


@given(_ENCODABLE)
def test_offsets_count_code_points_unless_asked_otherwise(answer: str) -> None:
    request = EvaluationRequest(answer=answer, contexts=[])

    wire = to_wire(request, _result(answer, Evidence(None, "q", None, None, verified=False)))

    assert all(answer[item.start : item.end] == item.text for item in wire.sentences)


def test_a_quote_is_searched_in_large_hostile_contexts_in_time() -> None:
    contexts = ["the old bridge was closed to carts " * 3_000] * 5
    check = EvidenceCheck(contexts)
    started = time.perf_counter()

    found = [check.locate("the old brigde was shut to cars in 2008 by the mayor " * 2, [0]) for _ in range(3)]

    assert time.perf_counter() - started < _FAST_SECONDS
    assert not any(evidence and evidence.verified for evidence in found)


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _result(answer: str, evidence: Evidence) -> Result:
    claim = Claim("0.0", 0, "text", 0, len(answer), Verdict.SUPPORTED, 1.0, evidence=(evidence,))
    sample = Sample("", (), answer)
    return Result(
        status=Status.NOT_JUDGED, tier=None, scores=None, passed=None, threshold=0.5, confidence=None,
        context_utilization=None, token_f1=None, exact_match=None, sentences=split_sentences(sample.answer),
        claims=(claim,), contexts_used=(), contexts_given=2, attempts=(), judge=None, flags=(), warnings=(),
    )  # fmt: skip
