"""The same reply as weaker models would write it: every form of it gives the same result from one call."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from plumbline.ground.concurrency import InlineExecutor
from plumbline.judging.judge.questions import load_prompts
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Judgement
from plumbline.judging.tiers.llm import LlmTier
from plumbline.judging.tiers.tier import JudgeOptions
from tests.doubles.fakes import ScriptedChat, case_of

PROMPTS = load_prompts()
ENGLISH = case_of(
    "What a view it has! The dam was built in 1932 and has a road. It is made of glass. It lies in Norway."
    " It is 120 metres high.",
    "The old dam was built in 1932 by the town. It is made of concrete.",
    "The dam is 120 metres high and closes a valley. It is known for its view.",
    question="What is known of the dam?",
)
CHINESE = case_of(
    "风景真好啊！大坝建于1932年，坝顶有公路。它是玻璃建造的。它位于挪威。坝高120米。",
    "老大坝由镇政府于1932年建成。坝体由混凝土建造。",
    "大坝高120米，横跨山谷。以风景闻名。",
    question="关于大坝有哪些资料？",
)
Item = dict[str, Any]
Deformation = Callable[[list[Item]], str]


def claim(text: str, verdict: str, context_id: int = 0, *quotes: str) -> Item:
    return {
        "claim": text,
        "context_ids": [context_id] if context_id else [],
        "quotes": list(quotes),
        "derived": False,
        "reason": "so",
        "verdict": verdict,
    }


REPLY_EN = [
    {"id": 1, "claims": [claim("What a view!", "not_a_claim")]},
    {
        "id": 2,
        "claims": [
            claim("The dam was built in 1932.", "supported", 1, "dam was built in 1932", "built in 1932 by the town"),
            claim("The dam has a road.", "not_mentioned"),
        ],
    },
    {"id": 3, "claims": [claim("The dam is made of glass.", "contradicted", 1, "It is made of concrete")]},
    {"id": 4, "claims": [claim("The dam lies in Norway.", "partial", 2, "closes a valley")]},
    {"id": 5, "claims": [claim("The dam is 120 metres high.", "supported", 2, "120 metres high")]},
]
REPLY_ZH = [
    {"id": 1, "claims": [claim("风景真好！", "not_a_claim")]},
    {
        "id": 2,
        "claims": [
            claim("大坝建于1932年。", "supported", 1, "由镇政府于1932年建成", "老大坝由镇政府于1932年建成"),
            claim("坝顶有公路。", "not_mentioned"),
        ],
    },
    {"id": 3, "claims": [claim("大坝是玻璃建造的。", "contradicted", 1, "坝体由混凝土建造")]},
    {"id": 4, "claims": [claim("大坝位于挪威。", "partial", 2, "大坝高120米，横跨山谷")]},
    {"id": 5, "claims": [claim("坝高120米。", "supported", 2, "大坝高120米")]},
]
ENGLISH_WORDS = {
    "supported": "entailed",
    "partial": "partially_supported",
    "contradicted": "refuted",
    "not_mentioned": "unsupported",
    "not_a_claim": "N/A",
}
CHINESE_WORDS = {
    "supported": "有依据",
    "partial": "部分支持",
    "contradicted": "矛盾",
    "not_mentioned": "未提及",
    "not_a_claim": "不是论断",
}


def wrapped(items: list[Item]) -> str:
    return json.dumps({"sentences": items}, ensure_ascii=False)


def with_claims(change: Callable[[Item], Item]) -> Deformation:
    return lambda items: wrapped([{**item, "claims": [change(each) for each in item["claims"]]} for item in items])


def with_quotes(change: Callable[[list[str], int], list[Any]]) -> Deformation:
    return with_claims(lambda said: {**said, "quotes": change(said["quotes"], *(said["context_ids"] or [0]))})


def in_words(words: Mapping[str, str]) -> Deformation:
    return with_claims(lambda said: {**said, "verdict": words[said["verdict"]]})


def glued(by: str) -> Deformation:
    return with_quotes(lambda quotes, _: [by.join(quotes)] if quotes else [])


def flat(items: list[Item]) -> list[Item]:
    return [{"id": item["id"], **said} for item in items for said in item["claims"]]


def slim(said: Item) -> Item:
    kept = ["claim", "quotes", *(["reason"] if said["verdict"] != "supported" else []), "verdict"]
    return {name: said[name] for name in kept if said[name]}


def wrapped_by_id(items: list[Item]) -> str:
    return json.dumps({"sentences": {str(item["id"]): item["claims"] for item in items}})


DEFORMATIONS: dict[str, Deformation] = {
    "as asked": wrapped,
    "slim": with_claims(slim),
    "fenced": lambda items: f"Sure, here it is:\n```json\n{wrapped(items)}\n```\nLet me know!",
    "after a thought": lambda items: f"<think>Maybe {{1}} or [2].</think>\n{wrapped(items)}",
    "single quotes": lambda items: str({"sentences": items}),
    "no claim as an empty list": lambda items: wrapped([{"id": 1, "claims": []}, *items[1:]]),
    "a bare list": json.dumps,
    "another wrapper": lambda items: json.dumps({"result": {"items": items}}),
    "one line an item": lambda items: "\n".join(map(json.dumps, items)),
    "an object by ids": wrapped_by_id,
    "flat items": lambda items: json.dumps({"sentences": flat(items)}),
    "a bare list of flat items": lambda items: json.dumps(flat(items)),
    "flat items called claims": lambda items: json.dumps({"claims": flat(items)}),
    "ids with a letter": lambda items: wrapped([{**item, "id": f"s{item['id']}"} for item in items]),
    "ids in words": lambda items: wrapped([{**item, "id": f"Sentence {item['id']}"} for item in items]),
    "quotes as objects": with_quotes(lambda quotes, at: [{"context_id": at, "text": quote} for quote in quotes]),
    "quotes as one text": with_quotes(lambda quotes, _: quotes[:1]),
    "quotes with labels": with_quotes(lambda quotes, at: [f"Context {at}: {quote}" for quote in quotes]),
    "quotes with Chinese labels": with_quotes(lambda quotes, at: [f"上下文{at}：“{quote}”" for quote in quotes]),
    "quotes with marks": with_quotes(lambda quotes, at: [f'[{at}] "{quote}"' for quote in quotes]),
    "quotes glued by dots": glued(" ... "),
    "quotes glued by semicolons": glued("; "),
    "quotes glued in Chinese": glued("；"),
    "words": in_words(ENGLISH_WORDS),
    "Chinese words": in_words(CHINESE_WORDS),
    "capitals": in_words({verdict: verdict.upper().replace("_", " ") for verdict in ENGLISH_WORDS}),
    "wrong context ids": with_claims(lambda said: {**said, "context_ids": [9]}),
}  # fmt: skip


async def _judged(case: SegmentedSample, content: str) -> tuple[Judgement, int]:
    chat = ScriptedChat(content, "no second reply")
    judgement = await LlmTier({"default": chat}, PROMPTS, InlineExecutor()).judge(case, JudgeOptions(), seconds=5.0)
    return judgement, len(chat.requests)


@pytest.mark.parametrize(("case", "reply"), [(ENGLISH, REPLY_EN), (CHINESE, REPLY_ZH)], ids=["en", "zh"])
@pytest.mark.parametrize("name", DEFORMATIONS)
async def test_what_a_reader_understands_is_read_at_the_first_call(
    case: SegmentedSample, reply: list[Item], name: str
) -> None:
    judgement, calls = await _judged(case, DEFORMATIONS[name](reply))

    said = {2: ["supported", "not_mentioned"], 3: ["contradicted"], 4: ["partial"], 5: ["supported"]}
    positions = {position: number for number, position in enumerate(case.checkable, start=1)}
    found: dict[int, list[str]] = {}
    for each in judgement.claims:
        if each.is_checkable:
            found.setdefault(positions[each.sentence], []).append(each.verdict.value)
    assert (found, calls) == (said, 1)
    assert all(evidence.verified for each in judgement.claims for evidence in each.evidence)


@pytest.mark.parametrize("case", [ENGLISH, CHINESE], ids=["en", "zh"])
async def test_one_sentence_without_its_wrapper_is_read(case: SegmentedSample) -> None:
    sentence, context = case.sentences[-1].text, case.source.contexts[1]
    one = case_of(sentence, context)
    reply = {"id": 1, "claims": [claim(sentence, "supported", 1, context)]}

    judgement, calls = await _judged(one, json.dumps(reply))

    assert ([each.verdict.value for each in judgement.claims], calls) == (["supported"], 1)


async def test_a_simplified_quote_of_a_traditional_text_is_found() -> None:
    case = case_of("苏联于1991年解体。", "蘇聯於1991年解體，冷戰結束。")
    reply = wrapped([{"id": 1, "claims": [claim("苏联于1991年解体。", "supported", 1, "苏联于1991年解体")]}])

    judgement, calls = await _judged(case, reply)

    assert ([each.verdict.value for each in judgement.claims], calls) == (["supported"], 1)
    assert judgement.claims[0].evidence[0].quote == "蘇聯於1991年解體"
