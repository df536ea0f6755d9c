"""What is kept of a judge's reply, and what is left to be asked again."""

import json
from typing import Any

import pytest

from plumbline.judging.judge.replies import read_claims, read_sentences
from plumbline.judging.ports.numbering import Numbering
from plumbline.judging.text.verdicts import Verdict
from tests.making.cases import load_cases

CLAIM: dict[str, Any] = {"claim": "a", "quotes": ["x"], "reason": "r", "verdict": "supported"}


def item(number: object, *claims: object) -> dict[str, Any]:
    return {"id": number, "claims": list(claims) or [CLAIM]}


def reply(*items: object) -> str:
    return json.dumps({"sentences": list(items)})


@pytest.mark.parametrize("content", load_cases("reply_reading", "wrapped"))
def test_whole_replies_are_read_however_they_are_wrapped(content: str) -> None:
    reading = read_sentences(content, [1, 2])

    assert sorted(reading.claims) == [1, 2]
    assert {claim.verdict for claims in reading.claims.values() for claim in claims} == {Verdict.SUPPORTED}
    assert reading.flags == ()


@pytest.mark.parametrize(("content", "flag"), load_cases("reply_reading", "odd"))
def test_what_was_odd_is_flagged(content: str, flag: str) -> None:
    reading = read_sentences(content, [1, 2])

    assert sorted(reading.claims) == [1, 2]
    assert reading.flags == (flag,)


@pytest.mark.parametrize("second", load_cases("reply_reading", "broken"))
def test_a_broken_item_costs_only_itself(second: str) -> None:
    assert list(read_sentences(reply(item(1), json.loads(second)), [1, 2]).claims) == [1]


def test_items_that_contradict_each_other_are_both_dropped() -> None:
    twice = reply(item(1), item(1, {**CLAIM, "verdict": "contradicted"}), item(2))

    assert list(read_sentences(twice, [1, 2]).claims) == [2]


def test_an_item_that_gives_a_key_twice_is_dropped() -> None:
    ambiguous = '{"id": 2, "claims": [{"claim": "a", "verdict": "not_mentioned", "verdict": "supported"}]}'

    assert list(read_sentences(f'{{"sentences": [{json.dumps(item(1))}, {ambiguous}]}}', [1, 2]).claims) == [1]


def test_of_a_cut_reply_all_but_the_last_item_are_salvaged() -> None:
    whole = reply(item(1), item(2), item(3))

    for end in range(whole.index('"id": 3'), len(whole) - 2):
        reading = read_sentences(whole[:end], [1, 2, 3], is_truncated=True)
        assert list(reading.claims) == [1, 2]
        assert reading.flags == ("truncated_reply",)


@pytest.mark.parametrize(
    ("content", "flag"),
    [
        ("", "unreadable_reply"),
        ("nothing", "unreadable_reply"),
        ("{}", "unreadable_reply"),
        ('{"sentences": {}}', "unreadable_reply"),
        ('{"sentences": ' + "[" * 50_000, "truncated_reply"),
        ('{"sentences": ["' + "\\" * 50_000, "truncated_reply"),
        ('{"sentences": ' + "[" * 50_000 + "]" * 50_000 + "}", "unreadable_reply"),
    ],
)
def test_a_reply_without_a_whole_item_gives_nothing(content: str, flag: str) -> None:
    reading = read_sentences(content, [1])

    assert reading.claims == {}
    assert reading.flags == (flag,)


def test_a_giant_reply_is_not_read() -> None:
    assert read_sentences(reply(item(1)) + " " * 1_000_001, [1]).flags == ("reply_too_long",)


def test_quotes_are_read_in_either_spelling() -> None:
    claim = {"verdict": "not mentioned", "quote": "one", "quotes": ["two"], "context_ids": ["2", "x", None]}

    ((read,),) = read_sentences(reply(item(1, claim)), [1]).claims.values()

    assert (read.quotes, read.verdict) == (["two", "one"], Verdict.NOT_MENTIONED)


def test_verdicts_on_claims_are_read_by_their_ids() -> None:
    content = json.dumps(
        {"claims": [{**CLAIM, "id": "0.0"}, {**CLAIM, "id": "0.1", "verdict": "maybe"}, {**CLAIM, "id": "7.7"}]}
    )

    reading = read_claims(content, ["0.0", "0.1"])

    assert list(reading.claims) == ["0.0"]
    assert reading.flags == ("unknown_ids_dropped",)


REQUEST = Numbering(4_000, frozenset({4_001, 4_002, 4_003}), "0f3a9c1e")
WORDS = ["supported", "contradicted", "not_mentioned"]


def counted(*ids: object, mark: str = "0f3a9c1e", key: str = "sentences") -> str:
    """A reply to REQUEST in the form that it asks for, with other ids."""
    items = [{"id": each, "quotes": ["x"], "verdict": word} for each, word in zip(ids, WORDS, strict=False)]
    return json.dumps({**({"mark": mark} if mark else {}), key: items})


@pytest.mark.parametrize("content", load_cases("reply_reading", "counted"))
def test_ids_of_the_request_are_read_and_beside_its_mark_those_that_a_model_counts_itself(content: str) -> None:
    reading = read_sentences(content, [1, 2, 3], REQUEST)

    assert [[claim.verdict for claim in reading.claims[number]] for number in (1, 2, 3)] == [[word] for word in WORDS]
    assert not REQUEST.is_foreign(content)


@pytest.mark.parametrize("content", load_cases("reply_reading", "shifted"))
def test_no_verdict_is_shifted_to_the_sentence_beside_its_own(content: str) -> None:
    reading = read_sentences(content, [1, 2, 3], REQUEST)

    assert (reading.claims, reading.flags) == ({}, ("unknown_ids_dropped",))


def test_claims_that_a_model_counts_itself_are_read_in_the_order_of_the_request() -> None:
    reading = read_claims(counted(0, 1, 2, key="claims"), ["2.1", "0.0", "1.0"], REQUEST)

    assert {claim_id: said.verdict for claim_id, (said,) in reading.claims.items()} == dict(
        zip(["2.1", "0.0", "1.0"], WORDS, strict=True)
    )


@pytest.mark.parametrize("texts", [("its part", "the other"), ("", "")])
def test_parts_of_a_split_sentence_are_items_of_its_id_and_may_lack_their_text(texts: tuple[str, str]) -> None:
    parts = [flat(1, claim=text, verdict=word) for text, word in zip(texts, WORDS, strict=False)]

    (claims,) = read_sentences(reply(*parts), [1]).claims.values()

    assert [(claim.claim, claim.verdict) for claim in claims] == [*zip(texts, WORDS, strict=False)]


def test_a_cut_reply_may_lack_parts_of_the_sentence_that_it_ends_with() -> None:
    parts = [flat(1, claim=""), flat(2, claim="its part"), flat(2, claim="the other"), flat(3, claim="")]
    whole = reply(*parts)

    cuts = [whole[: whole.index('{"id": 2', whole.index("its part"))], whole[: whole.index('{"id": 3')], whole[:-2]]

    read = [list(read_sentences(each, [1, 2, 3], is_truncated=True).claims) for each in cuts]
    assert read == [[1], [1], [1, 2, 3]]


ONE, TWO = {**CLAIM, "claim": "a"}, {**CLAIM, "claim": "b"}


def flat(number: object, **changes: object) -> dict[str, Any]:
    return {"id": number, **CLAIM, **changes}


@pytest.mark.parametrize("content", load_cases("reply_reading", "other_forms"))
def test_replies_in_another_form_are_read_as_a_reader_would(content: str) -> None:
    reading = read_sentences(content, [1, 2])

    assert sorted(reading.claims) == [1, 2]
    assert {claim.verdict for claims in reading.claims.values() for claim in claims} == {Verdict.SUPPORTED}
    assert set(reading.flags) <= {"repaired_reply"}


@pytest.mark.parametrize(
    "content",
    [json.dumps(item(1)), f"```json\n{json.dumps(flat(1))}\n```"],
)
def test_one_sentence_needs_no_wrapper(content: str) -> None:
    ((read,),) = read_sentences(content, [1]).claims.values()

    assert (read.claim, read.verdict) == ("a", Verdict.SUPPORTED)


@pytest.mark.parametrize(
    "content", [reply({"claims": [CLAIM]}, {"claims": [CLAIM]}), json.dumps({"claims": [CLAIM]}), json.dumps([CLAIM])]
)
def test_items_without_ids_are_not_read_as_nothing_tells_whose_they_are(content: str) -> None:
    reading = read_sentences(content, [1, 2] if "sentences" in content else [1])

    assert (reading.claims, reading.flags[-1]) == ({}, "unknown_ids_dropped")


def test_an_empty_list_of_claims_says_that_there_is_none() -> None:
    ((read,),) = read_sentences(reply({"id": 1, "claims": []}), [1]).claims.values()

    assert read.verdict is Verdict.NOT_A_CLAIM


@pytest.mark.parametrize(
    "content",
    [reply(item(1, ONE, TWO)), reply(item(1, ONE), item(1, TWO)), reply(flat(1, claim="a"), flat(1, claim="b"))],
)
def test_claims_of_one_sentence_may_come_in_several_items(content: str) -> None:
    (claims,) = read_sentences(content, [1]).claims.values()

    assert [claim.claim for claim in claims] == ["a", "b"]


@pytest.mark.parametrize("content", load_cases("reply_reading", "ambiguous"))
def test_what_a_reader_could_not_tell_is_asked_again(content: str) -> None:
    assert read_sentences(content, [1, 2]).claims == {}


@pytest.mark.parametrize(("word", "verdict"), load_cases("reply_reading", "verdict_words"))
def test_other_words_for_a_verdict_are_understood(word: str, verdict: str) -> None:
    ((read,),) = read_sentences(reply(item(1, {**CLAIM, "verdict": word})), [1]).claims.values()

    assert read.verdict is Verdict(verdict)


@pytest.mark.parametrize("word", ["true", "maybe", "对", "1", "", "supported or not"])
def test_a_word_that_is_no_verdict_is_no_verdict(word: str) -> None:
    assert read_sentences(reply(item(1, {**CLAIM, "verdict": word})), [1]).claims == {}


def test_quotes_may_be_objects_and_members_have_other_names() -> None:
    claim = {"text": "a", "label": "supported", "evidence": [{"text": "x", "context_id": 2}, {"quote": "y"}]}

    ((read,),) = read_sentences(reply(item(1, claim)), [1]).claims.values()

    assert (read.claim, read.quotes) == ("a", ["x", "y"])


def test_ids_of_claims_may_be_numbers_and_keep_their_zeros() -> None:
    content = counted("2.1", "2.10", key="claims").replace('"2.1"', "2.1").replace('"2.10"', "2.10")

    reading = read_claims(content, ["2.1", "2.10"])

    assert [reading.claims[each][0].verdict for each in ("2.1", "2.10")] == WORDS[:2]


@pytest.mark.parametrize("content", [json.dumps([flat("0.0")]), json.dumps(flat("c0.0")), json.dumps({"0.0": CLAIM})])
def test_verdicts_on_claims_need_no_wrapper_either(content: str) -> None:
    assert list(read_claims(content, ["0.0"]).claims) == ["0.0"]


def test_a_cut_list_without_a_wrapper_is_salvaged() -> None:
    whole = json.dumps([item(1), item(2)])

    reading = read_sentences(whole[: whole.index('"id": 2') + 9], [1, 2], is_truncated=True)

    assert (list(reading.claims), set(reading.flags)) == ([1], {"repaired_reply", "truncated_reply"})


@pytest.mark.parametrize("filler", ['{"', "[{", '{"a": [', '[{"a": "b"}', "{'1': ", "| a |\n", "<a ", "<id>", "|"])
def test_hostile_replies_take_linear_time(filler: str) -> None:
    read_sentences(filler * 60_000, [1])
