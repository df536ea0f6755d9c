"""LLM rankings in many styles: each is read rightly, or told as not read; none is silently wrong.

A style is a text with places for three documents, best first; the cases put documents of several kinds of ids there.
"""

import pytest

from plumbline.retrieval.llm_rankings import parse_ranking

# Candidates as they were offered, and three of them as the reply ranks them.
CASES = {
    "underscore": (["doc_1", "doc_2", "doc_3", "doc_5", "doc_10"], ("doc_5", "doc_1", "doc_3")),
    "long": (["doc_1", "doc_2", "doc_3", "doc_5", "doc_10"], ("doc_10", "doc_3", "doc_1")),
    "hyphen": (["A-1", "A-2", "A-7", "B-2", "B-9"], ("B-2", "A-7", "A-1")),
    "number": (["7067032", "7067056", "7067181", "8412684", "43"], ("8412684", "7067032", "7067181")),
    "blanks": (["doc 1", "doc 2", "doc 3", "annual report", "x y"], ("annual report", "doc 3", "x y")),
    "separators": (["a, b", "c; d", "e/f", "g:h", "http://a.b/1"], ("c; d", "a, b", "http://a.b/1")),
    "chinese": (["文档_1", "文档_2", "文档_3", "文档_4", "文档_5"], ("文档_4", "文档_2", "文档_3")),
}

READ = {
    "en chain": "{0} > {1} > {2}",
    "en chain with a lead and an end": "Final ranking: {0} > {1} > {2}. Let me know if you need more.",
    "en rising chain": "{2} < {1} < {0}",
    "en brackets": "The ranking is:\n[{0}], [{1}], [{2}]",
    "en numbered with reasons": "1. {0}: matches the question\n2. {1} - mentions it\n3. {2} (barely)",
    "en numbered out of order": "3. {2}\n1. {0}\n2. {1}",
    "en numbered on one line": "1: {0}; 2: {1}; 3: {2}",
    "en numbered with reasons below": "1. **{0}**\n   - better than {2}\n2. **{1}**\n   - close\n3. **{2}**\n   - weak",
    "en json": 'Sure!\n```json\n{{"ranking": ["{0}", "{1}", "{2}"]}}\n```',
    "en json with exclusions": '{{"ranking": ["{0}", "{1}", "{2}"], "excluded": ["a", "b", "c", "d", "e"]}}',
    "en json irrelevant first": '{{"irrelevant": ["w", "x", "y", "z"], "relevant": ["{0}", "{1}", "{2}"]}}',
    "en json rows by rank": '[{{"id": "{1}", "rank": 2}}, {{"id": "{2}", "rank": 3}}, {{"id": "{0}", "rank": 1}}]',
    "en json scores by document": '{{"{2}": 0.11, "{0}": 0.93, "{1}": 0.4}}',
    "en json documents by rank": '{{"2": "{1}", "1": "{0}", "3": "{2}"}}',
    "en json lines": '{{"id": "{0}", "score": 9}}\n{{"id": "{1}", "score": 7}}\n{{"id": "{2}", "score": 1}}',
    "en json of several lists": '{{"documents": ["{2}", "{1}", "{0}"], "final_ranking": ["{0}", "{1}", "{2}"]}}',
    "en table by rank": "| Document | Rank |\n|---|---|\n| {1} | 2 |\n| {0} | 1 |\n| {2} | 3 |",
    "en csv": "rank,doc_id\n1,{0}\n2,{1}\n3,{2}",
    "en sections": "Relevant:\n1. {0}\n2. {1}\n3. {2}\n\nNot relevant:\n1. zzz_9\n2. zzz_8\n3. zzz_7\n4. zzz_6",
    "en draft and final": "Initial order: {2} > {1} > {0}\nFinal order: {0} > {1} > {2}",
    "en thinking": "<think>{2} looks good, then {0}</think>\n{0}\n{1}\n{2}",
    "zh chain": "【{0}】＞【{1}】＞【{2}】",
    "zh numbered": "1. {0}：与问题最相关\n2. {1}：部分相关\n3. {2}：关系不大",
    "zh places": "第二名：{1}\n第一名：{0}\n第三名：{2}",
    "zh list": "排序结果：{0}、{1}、{2}。",
    "zh circled": "①{0}\n②{1}\n③{2}",
    "zh json": '{{"排序": ["{0}", "{1}", "{2}"], "不相关": ["甲", "乙", "丙", "丁"]}}',
    "zh json rows": '[{{"文档": "{2}", "排名": 3}}, {{"文档": "{0}", "排名": 1}}, {{"文档": "{1}", "排名": 2}}]',
    "zh table": "| 文档 | 得分 |\n| --- | --- |\n| {0} | 0.9 |\n| {1} | 0.5 |\n| {2} | 0.2 |",
    "zh sections": "相关文档：{0}、{1}、{2}\n不相关文档：甲_1、乙_2、丙_3、丁_4",
}

TOLD = {
    "scores against the written order": '[{{"id": "{2}", "score": 0.1}}, {{"id": "{0}", "score": 0.9}}]',
    "scores in lines against the written order": "{2}: 0.1\n{0}: 0.9\n{1}: 0.5",
    "ranks or scores": '{{"{0}": 1, "{1}": 2, "{2}": 3}}',
    "two lists that disagree": '{{"bm25": ["{0}", "{1}"], "dense": ["{1}", "{0}"]}}',
    "ranked and excluded": '{{"ranking": ["{0}", "{1}", "{2}"], "excluded": ["{2}"]}}',
    "prose that turns": "{2} is less relevant than {1}, and the best is {0}.",
    "prose that repeats": "{0}, {1} and {2} were given. {1} is the best, then {2}.",
    "a line about two": "1. Compared with {2}, {0} is better\n2. {1}",
    "a refusal": "Sorry, I cannot rank {0} and {1}.",
    "words for scores": '{{"{0}": "low", "{1}": "high"}}',
    "chain both ways": "{0} > {1} < {2}",
    "bulleted scores against the written order": "- {2} (0.1)\n- {0} (0.9)",
    "yaml ranks against the written order": "- id: {1}\n  rank: 2\n- id: {0}\n  rank: 1",
    "markup with ranks": '<doc rank="2">{1}</doc><doc rank="1">{0}</doc>',
    "worst first": "From least to most relevant: {2}, {1}, {0}",
    "zh worst first": "从低到高：{2}、{1}、{0}",
    "zh prose that turns": "{2}不如{1}，最好的是{0}。",
    "zh refusal": "抱歉，无法对{0}和{1}排序。",
    "zh scores against the written order": "1. {0}（得分：0.2）\n2. {1}（得分：0.9）",
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("style", READ)
def test_a_ranking_in_any_style_is_read(style: str, case: str) -> None:
    candidates, ranked = CASES[case]

    parsed = parse_ranking(READ[style].format(*ranked), candidates=candidates)

    assert (parsed.ids, parsed.parse_ok, parsed.readings) == (ranked, True, ())


# Without candidates an id is one word: those with blanks or separators cannot be told from the text around them.
@pytest.mark.parametrize("case", [case for case in CASES if case not in ("blanks", "separators")])
@pytest.mark.parametrize("style", READ)
def test_without_candidates_it_is_read_or_told(style: str, case: str) -> None:
    _, ranked = CASES[case]

    parsed = parse_ranking(READ[style].format(*ranked))

    assert parsed.ids == ranked or not parsed.parse_ok


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("style", TOLD)
def test_a_ranking_with_two_readings_is_told(style: str, case: str) -> None:
    candidates, ranked = CASES[case]

    parsed = parse_ranking(TOLD[style].format(*ranked), candidates=candidates)

    assert (parsed.ids, parsed.parse_ok) == ((), False)


@pytest.mark.parametrize("style", ["ranks or scores", "scores in lines against the written order", "chain both ways"])
def test_both_readings_are_told(style: str) -> None:
    candidates, ranked = CASES["underscore"]

    parsed = parse_ranking(TOLD[style].format(*ranked), candidates=candidates)

    assert len({reading[:3] for reading in parsed.readings}) == 2


def test_ties_are_kept_and_told() -> None:
    parsed = parse_ranking("doc_5 = doc_1 > doc_3", candidates=CASES["underscore"][0])

    assert (parsed.ids, parsed.ties) == (("doc_5", "doc_1", "doc_3"), (("doc_5", "doc_1"),))


def test_equal_ranks_are_ties() -> None:
    parsed = parse_ranking("1. doc_5\n2. doc_1\n2. doc_3", candidates=CASES["underscore"][0])

    assert (parsed.ids, parsed.ties) == (("doc_5", "doc_1", "doc_3"), (("doc_1", "doc_3"),))


def test_what_the_reply_leaves_out_is_told() -> None:
    parsed = parse_ranking('{"ranking": ["doc_5"], "excluded": ["doc_1", "doc_3"]}', candidates=CASES["underscore"][0])

    assert (parsed.ids, parsed.excluded) == (("doc_5",), ("doc_1", "doc_3"))


@pytest.mark.parametrize(
    "text",
    [
        "抱歉，无法排序。",
        "Sorry.",
        "Sorry, I cannot do that.",
        "巴黎是法国首都[1][2]。",
        "None of them",
        '["I cannot rank them"]',
    ],
)
def test_free_text_without_ids_is_not_read(text: str) -> None:
    assert not parse_ranking(text).parse_ok


def test_chinese_punctuation_is_no_part_of_an_id() -> None:
    assert parse_ranking("1. doc_5：与问题最相关\n2. doc_1，其次。").ids == ("doc_5", "doc_1")
