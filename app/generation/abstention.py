"""Sentences that decline to answer, in English or Chinese, and assert nothing beside it."""

import re

# A sentence longer than this asserts something beside its "I do not know".
_MAX_ABSTENTION_CHARACTERS = 240

# Runs are possessive (`*+`) and alternatives distinct, so that matching stays linear.
_OPENING_EN = (
    r"(?:(?:(?:i'm|i am) )?(?:so |very |really )?(?:sorry|afraid)[,.]?\s*+(?:but |that )?"
    r"|unfortunately,?\s*+|apologies,?\s*+(?:but )?"
    r"|(?:based on|according to) (?:the )?[\w\s]{0,60}?,\s*+)*+"
)
_SOURCE_EN = (
    r"(?:(?:the|this|these|your|any|given|provided|retrieved|available|above|supplied|search|of|and|in|my)\s+){0,5}+"
    r"(?:contexts?|passages?|documents?|texts?|sources?|information|articles?|excerpts?|snippets?|results?|materials?"
    r"|content|data|references?)"
)
_TELL_EN = r"(?:answer|determine|find|say|tell|provide|locate|confirm|respond|help)"
_ABSTAINS_EN = re.compile(
    rf"{_OPENING_EN}(?:"
    r"(?:i|we) (?:really |simply |just )?(?:do not|don't|did not|didn't) (?:actually )?"
    r"(?:know|have (?:enough|sufficient|any|the|that|this|access)|find|see)\b"
    r"|(?:i|we) (?:cannot|can't|can not|could not|couldn't|(?:am|are|was|were) (?:unable|not able) to)"
    rf" (?:\w+ ){{0,2}}?{_TELL_EN}\b"
    rf"|(?:i'm|we're) (?:unable|not able) to {_TELL_EN}\b"
    r"|(?:i'm|i am|we're|we are) not (?:sure|certain)\b"
    r"|no (?:answer|(?:relevant |sufficient )?information)(?: (?:is|was|could be|can be|has been))?"
    r"(?: (?:available|found|provided|given|present))?(?: (?:in|from|about|on|regarding|within) .*)?\W*$"
    r"|there (?:is|was) (?:no|not enough|insufficient) (?:\w+ ){0,2}(?:information|answer|context|evidence|mention)\b"
    r"|it(?:'s| is) (?:not possible|impossible) to (?:\w+ )?(?:answer|determine|say|tell)\b"
    rf"|{_SOURCE_EN} (?:do not|does not|don't|doesn't|did not|didn't) (?:\w+ ){{0,2}}?"
    r"(?:contain|mention|provide|include|say|state|specify|answer|give|have|address|cover|discuss)\b"
    r"|(?:this|the|that) (?:question|query) (?:cannot|can't|can not|could not) be answered\b"
    r"|(?:n/?a|unknown|unanswerable|not (?:mentioned|specified|stated|provided|available|enough information"
    r"|answerable))\W*$"
    r")",
    re.IGNORECASE,
)
_OPENING_ZH = (
    r"(?:很|非常|十分|抱歉|对不起|遗憾|不好意思|根据|基于|依据|从|在|现有|已有|目前|当前|提供|给出|给定|检索|上述|以上"
    r"|文中|所|这些|您|你|我|本人|们|暂时|暂|都|也|均|并(?!未|没)|的|到|中|里|内|来看|上下文|资料|信息|文档|文本|内容|材料|文章"
    r"|段落|背景|知识库|结果|来源|参考|[，,。！!：:\s])*+"
)
_ABSTAINS_ZH = re.compile(
    rf"{_OPENING_ZH}(?:"
    r"(?:无法|不能|不可以)(?:直接|准确|完全)?(?:回答|确定|判断|得知|得出|找到|提供|给出|获知|确认|知道|推断)"
    r"|不(?:知道|太清楚|清楚|确定|了解|足)"
    r"|(?:没有|没|并未|并没有|未曾|未|缺乏|缺少|无)(?:明确|直接|具体|足够|任何|能够|能|的){0,3}+"
    r"(?:提到|提及|提供|说明|包含|涉及|给出|答案|相关|信息|资料|内容|找到|查到|检索到|记载|介绍)"
    r"|未知\W*$"
    r")"
)
# After one of these the sentence goes on to assert something.
_GOES_ON = re.compile(
    r"\b(?:but|however|though|although|nevertheless|yet|instead|except)\b|但|不过|然而|可是|却", re.IGNORECASE
)
_SORRY_BUT = re.compile(_OPENING_EN, re.IGNORECASE)


def abstains(text: str) -> bool:
    """Whether one sentence says that the answer is not known or not in the contexts, and says no more.

    Strict on purpose: what is not recognised is an answer, and is judged.
    """
    line = text.strip().replace("’", "'")
    if len(line) > _MAX_ABSTENTION_CHARACTERS:
        return False
    opening = _SORRY_BUT.match(line)
    rest = line[opening.end() :] if opening else line
    if _GOES_ON.search(rest):
        return False
    return bool(_ABSTAINS_EN.match(line) or _ABSTAINS_ZH.match(line))
