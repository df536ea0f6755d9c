"""Any judgement that can be written comes back as it was, and no bytes whatsoever raise."""

import zlib

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from plumbline.ground.texts import CodedText
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.text.verdicts import Claim, Evidence, JudgeAccount, Judgement, Scores, Verdict
from plumbline.judging.tiers.verdict_cache import verdict_key
from plumbline.models.chat.verdict_store import judgement_from_record, judgement_to_record

_TEXT = st.text(max_size=20)
_WORDS = st.lists(_TEXT, max_size=3).map(tuple)
# JSON numbers of any size are integers here; counts and offsets are far below.
_COUNT = st.integers(0, 2**53)
_UNIT = st.floats(0, 1)
_EVIDENCE = st.builds(
    Evidence,
    context=st.none() | _COUNT,
    quote=_TEXT,
    start=st.none() | _COUNT,
    end=st.none() | _COUNT,
    verified=st.booleans(),
)
_CLAIMS = st.builds(
    Claim,
    id=_TEXT,
    sentence=_COUNT,
    text=_TEXT,
    start=_COUNT,
    end=_COUNT,
    verdict=st.sampled_from(Verdict),
    support=st.none() | _UNIT,
    reason=st.none() | _TEXT,
    evidence=st.lists(_EVIDENCE, max_size=2).map(tuple),
    flags=_WORDS,
)
_ACCOUNTS = st.builds(
    JudgeAccount,
    model=_TEXT,
    prompt=st.none() | _TEXT,
    prompt_digest=st.none() | _TEXT,
    calls=_COUNT,
    prompt_tokens=st.none() | _COUNT,
    completion_tokens=st.none() | _COUNT,
    cache=st.sampled_from(("hit", "miss", "bypass", None)),
)
_SCORES = st.builds(
    Scores,
    faithfulness=_UNIT,
    hallucination_rate=_UNIT,
    faithfulness_strict=st.none() | _UNIT,
    contradiction_rate=st.none() | _UNIT,
    unsupported_rate=st.none() | _UNIT,
    lowest_support=_UNIT,
    unsupported_claims=_COUNT,
)
_WARNINGS = st.builds(
    CodedText, st.just("judge_did_not_vote"), name=_TEXT, reason=_TEXT | st.builds(CodedText, st.just("model_refused"))
)
_JUDGEMENTS = st.builds(
    Judgement,
    claims=st.lists(_CLAIMS, max_size=3).map(tuple),
    account=_ACCOUNTS,
    has_verdict_kinds=st.booleans(),
    reliability=st.lists(st.tuples(_UNIT, _UNIT), max_size=3).map(tuple),
    flags=_WORDS,
    warnings=st.lists(_WARNINGS, max_size=3).map(tuple),
    votes=st.lists(_SCORES, max_size=3).map(tuple),
    windows=_COUNT,
    faithfulness=st.none() | _UNIT,
    highest=_UNIT,
)


@given(_JUDGEMENTS)
def test_a_judgement_comes_back_as_it_was(judgement: Judgement) -> None:
    record = judgement_to_record(judgement)

    assert record is not None
    assert judgement_from_record(record) == judgement


@given(_JUDGEMENTS, st.data())
def test_a_changed_byte_is_no_judgement_or_the_same(judgement: Judgement, data: st.DataObject) -> None:
    record = judgement_to_record(judgement)
    assert record is not None
    place = data.draw(st.integers(0, len(record) - 1))
    changed = bytearray(record)
    changed[place] ^= data.draw(st.integers(1, 255))

    assert judgement_from_record(bytes(changed)) in (None, judgement)


@given(st.binary(max_size=50) | st.binary(max_size=50).map(zlib.compress))
def test_no_bytes_raise(record: bytes) -> None:
    assert judgement_from_record(record) is None


@given(st.recursive(st.none() | st.booleans() | _TEXT, lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner)))
def test_json_of_another_shape_is_no_judgement(value: object) -> None:
    assert judgement_from_record(zlib.compress(msgspec.json.encode(value))) is None


_SAMPLES = st.builds(
    Sample, question=st.text("ab", max_size=3), contexts=st.lists(st.text("ab", max_size=3), max_size=3).map(tuple),
    answer=st.text("ab", max_size=3),
)  # fmt: skip


@given(_SAMPLES, _SAMPLES, st.tuples(_TEXT, _TEXT), st.tuples(_TEXT, _TEXT))
def test_keys_are_equal_when_the_inputs_are(
    one: Sample, two: Sample, whose: tuple[str, str], others: tuple[str, str]
) -> None:
    keys = [
        verdict_key(segment(sample), tenant=tenant, identity=identity)
        for sample, (tenant, identity) in ((one, whose), (two, others))
    ]

    assert (keys[0] == keys[1]) is ((one, whose) == (two, others))
