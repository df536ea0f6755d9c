"""Selection of the sentences that assert something: no markup, no labels, no abstentions."""

import re
from collections.abc import Container, Sequence

from plumbline.ground.concurrency import within_deadline
from plumbline.judging.text.boilerplate import SOURCE_EN, STEM_CHARACTERS, asks, count_new, introduces, is_boilerplate
from plumbline.judging.text.segmentation import Sentence
from plumbline.judging.text.structured import EMPTY_CELLS, header_positions, split_cells
from plumbline.judging.text.words import content_words, han_share

# A heading of more content words than this asserts something ("# The bridge was closed to cars in 2008"), and would be
# a place to hide a false claim in. Of Chinese the words are character pairs.
_LABEL_WORDS = 4
_LABEL_HAN_PAIRS = 8
# A line that ends in a colon may have one new word up to here.
_TERSE_WORDS = 2
# A short one asserts something if it has a verb.
_ASKING = re.compile(
    r"[?？]|^(?:what|who|how|why|when|where|which|if|whether)\b|什么|怎[么样]|如何|为何|谁|哪|何时|是否", re.IGNORECASE
)
_STATES_EN = re.compile(
    r"\w (?:is|are|was|were|isn['’]t|aren['’]t|wasn['’]t|has been|have been|had|does|did|cannot|can['’]t)\b(?! *\Z)"
    r"|\w (?:will|must|never|causes) [a-z]|^(?:the|our|its|his|her) [\w-]+ [a-z]+ed\b"
    r"|^(?!\w+ing )\w+ \w+ (?:it|him|them)\Z",
    re.IGNORECASE,
)
_STATES_ZH = re.compile(
    "[^可就但还于总]是(?=.)|被|由.{1,6}[建造写设开制]|已经|导致|致使|不会|不能|不是|没有|害死|杀死|引起"
)
# "[1]: https://... "Title"", "2. [Title](https://...)": a source of an answer's list, which asserts nothing.
_SOURCE_LINK = re.compile(
    r"\s*(?:[-*•]\s{1,3})?(?:[\[【［]\^?[\w-]{1,20}\^?[\]】］]\s?[:：]?|\d{1,2}[.)、])\s{0,3}"
    r"(?:<?https?://[^\s<>]{1,2000}>?(?:\s{1,3}[\"“(（][^\n]{1,120}[\"”)）])?"
    r"|\[[^\]\n]{1,120}\]\(https?://[^\s()]{1,2000}\))\s*\Z"
)
# "Best regards, / Tom Baker / Head of Support" at the end of an e-mail: nothing but names behind what ends it.
_SIGN_OFF = re.compile(
    r"\W*(?:(?:(?:best|kind|warm|many) )?(?:regards|wishes|thanks)|best|cheers|warmly|all the best|thank you"
    r"|(?:yours )?(?:sincerely|faithfully|truly)|此致|敬礼|顺颂\w{2}|祝\w{1,8})\W*",
    re.IGNORECASE,
)
_NAME = r"[A-ZÀ-ÖØ-Þ][^\s,\d.!?:;]{0,30}\.?"
_SIGNER = re.compile(
    rf"{_NAME}(?:,? (?:{_NAME}|of|the|and|for|&)){{0,5}}"
    r"|(?:The|Your) (?:[\w-]{1,30} ){0,3}(?:team|office|desk|service|support)"
    r"|\w{1,12}(?:团队|中心|客服|公司|委员会|组委会|办公室|[务售持]部)"
)
_MAX_SIGNERS = 3
_SUBJECT_VERB_EN = re.compile(r"(?!The |Our |[A-Z][a-z]+ly )[A-Z][\w-]+ [a-z]{3,}(?:s(?! [a-z]+ed\b)|ed) [a-z]{3,}")


def checkable_positions(
    sentences: Sequence[Sentence], stems: Container[str] = frozenset(), known: Container[str] = frozenset()
) -> tuple[int, ...]:
    """Return the positions of the sentences that assert something, ascending.

    Left out: markup, boilerplate, signatures, the header rows of tables, sentences that abstain, links in lists of
    sources, and headings that are mere labels; a label, link or header counts when the answer says nothing else, for
    "**Paris**" alone is an answer. `stems` are the question's words, as `is_boilerplate` takes them, `known` the
    contexts'.
    """
    headers = header_positions(sentences)
    spoken = [
        position
        for position, sentence in enumerate(within_deadline(_without_signature(sentences)))
        if sentence.kind != "markup"
        and not is_boilerplate(sentence.text, stems)
        and not asks(sentence.text, stems, known)
        and not (position + 1 < len(sentences) and introduces(sentence.text, stems, known))
    ]
    last = len(sentences) - 1
    unlabelled = [
        position
        for position in within_deadline(spoken)
        if position not in headers
        and not _SOURCE_LINK.match(sentences[position].text)
        and not _is_label(sentences[position], stems, known, leads=position < last)
    ]
    positions = within_deadline(unlabelled or spoken)
    return tuple(position for position in positions if not _declines(sentences[position]))


def _without_signature(sentences: Sequence[Sentence]) -> Sequence[Sentence]:
    for position in range(len(sentences) - 1, max(0, len(sentences) - 2 - _MAX_SIGNERS), -1):
        if _SIGN_OFF.fullmatch(sentences[position].text):
            return sentences[: position + 1]
        if not _SIGNER.fullmatch(sentences[position].text):
            break
    return sentences


def _declines(sentence: Sentence) -> bool:
    if sentence.kind == "table_row":
        _, *values = split_cells(sentence.text)
        return bool(values) and all(value in EMPTY_CELLS or abstains(value) for value in values)
    if abstains(sentence.text):
        return True
    # "- Price: not mentioned"
    label = _FIELD.match(sentence.text)
    return label is not None and abstains(sentence.text[label.end() :])


def _is_label(sentence: Sentence, stems: Container[str], known: Container[str], *, leads: bool) -> bool:
    """Return True for a heading that asserts nothing, and for a line before others that is one but for its markup."""
    if sentence.kind != "heading" and not (leads and _is_terse(sentence.text, stems, known)):
        return False
    is_chinese = bool(han_share(sentence.text))
    words = content_words(sentence.text)
    if len(words) > (_LABEL_HAN_PAIRS if is_chinese else _LABEL_WORDS):
        return False
    text = sentence.text.strip(_MARKUP + ":：")
    if _ASKING.search(text):
        return True
    if (_STATES_ZH if is_chinese else _STATES_EN).search(text):
        return False
    # "Lorivan kills children" has the shape of "Payment methods accepted": only what is new to question and contexts.
    is_new = any(word not in known and word[:STEM_CHARACTERS] not in stems for word in words)
    return not (is_new and _SUBJECT_VERB_EN.match(text))


def _is_terse(text: str, stems: Container[str], known: Container[str]) -> bool:
    """Return True for a line such as "Requirements:", with hardly a word that question and contexts do not have."""
    if text.rstrip(" *_")[-1:] not in (":", "："):
        return False
    return count_new(text.lower(), stems, known) <= (len(content_words(text)) <= _TERSE_WORDS)


# A sentence longer than this asserts something besides its "I do not know".
_MAX_ABSTENTION_CHARACTERS = 240
_MAX_REST_WORDS = 3

# "Price: ", the name of a field before its value.
_FIELD = re.compile(r"[^:：.,;，。；\n]{1,40}[:：][*_\s]*")
_MARKUP = " \t\n#*_`~>-•\"'“”"
_CLAUSE_BREAK = re.compile(
    r"[,;:，；：、]|\s[-–—]\s|——|\s(?=because\b|since (?:the|it|we|i|there|this|that|no)\b)|(?=因为|由于)",
    re.IGNORECASE,
)
# Tokenised text: "i ' m not sure", "do n't know".
_TOKENISED = re.compile(r"\s?'\s?(?=(?:m|re|t)\b)")
_LONE_M = re.compile(r"\bi m\b", re.IGNORECASE)
_WORD = re.compile(r"\w+")

# Runs are atomic and alternatives distinct, so that matching stays linear. Atomic groups, not possessive ones: before
# Python 3.11.5 a possessive group could backtrack.
_OPENING_EN = re.compile(
    r"(?>(?:(?:well|but|hmm+|oh|yeah|honestly|actually|however),?\s++|(?:(?:i'm|i am) )?(?:so |very "
    r"|really )?(?:sorry|afraid)(?=[\s,.]|$)[,.]?\s*+(?:but |that )?"
    r"|(?:unfortunately|apologies)(?=[\s,.]|$),?\s*+(?:but )?"
    r"|(?:based on|according to|from|given) (?:the )?[\w\s]{0,60}?,\s*+"
    r"|(?:and|so|therefore|thus|hence|that) )*)",
    re.IGNORECASE,
)
_ASKED_EN = r"(?:who|what|when|where|why|how|which|whether|if|this|that|from|based|with|given)"
_FACTS_EN = r"(?:information|context|details?|data|knowledge|answers?|access|evidence|mention|references?)"
_TELL_EN = r"(?:answer|determine|find|say|tell|provide|locate|confirm|respond|help)"
_LOOSE_EN = r"(?>(?:any |enough |sufficient |the |an? |that |this |more |specific |relevant )*)"
_ABSTAINS_EN = re.compile(
    r"(?:i|we) (?:really |simply |just )?(?:do not|don't|did not|didn't) (?:actually )?"
    rf"(?:know\b|have {_LOOSE_EN}{_FACTS_EN}\b|(?:find|see) (?:it|that|this|anything|{_LOOSE_EN}{_FACTS_EN})\b)"
    r"|(?:i|we) (?:cannot|can't|can not|could not|couldn't|(?:am|are|was|were) (?:unable|not able) to)"
    rf" (?:\w+ ){{0,2}}?{_TELL_EN}\b"
    rf"|(?:i'm|we're) (?:unable|not able) to {_TELL_EN}\b"
    r"|(?:i'm|i am|we're|we are) not (?:sure|certain)\b"
    r"|no (?:answer|(?:relevant |sufficient )?information)(?: (?:is|was|could be|can be|has been))?"
    r"(?: (?:available|found|provided|given|present))?(?: (?:in|from|about|on|regarding|within) .*)?\W*$"
    rf"|there (?:is|was) (?:no|not enough|insufficient) (?:\w+ ){{0,2}}?(?:information|context|mention|details?|data)\b"
    r"|there (?:is|was) no (?:answer|evidence) (?:in|given|provided|available)\b"
    r"|it(?:'s| is) (?:not possible|impossible) to (?:\w+ly )?"
    rf"(?:(?:answer|determine)\b|(?:say|tell|know)(?= {_ASKED_EN}\b|\W*$))"
    rf"|{SOURCE_EN} (?:do not|does not|don't|doesn't|did not|didn't) (?:\w+ ){{0,2}}?"
    r"(?:contain|mention|provide|include|say|state|specify|answer|give|have|address|cover|discuss)\b"
    rf"|(?:\w+ ){{1,8}}?(?:is|are|was|were)(?: not|n't) (?:\w+ly )?(?:mentioned|specified|stated|provided"
    rf"|available|given"
    rf"|disclosed|listed|included|described|covered)(?: (?:anywhere )?(?:in|by|within|from) {SOURCE_EN})\W*$"
    r"|(?:\w+ ){1,8}?(?:is|are|was|were)(?: not|n't) (?:\w+ly )?(?:mentioned|specified|stated)\W*$"
    r"|(?:\w+ ){1,10}?(?:cannot|can't|can not|could not|couldn't) be (?:determined|answered|found|confirmed|inferred)"
    rf" (?:in|by|within|from|based on|with) {SOURCE_EN}\W*$"
    r"|(?:this|the|that) (?:question|query) (?:cannot|can't|can not|could not) be answered\b"
    r"|(?:n/?a|unknown|unanswerable|not (?:explicitly |specifically |directly )?(?:mentioned|specified|stated|provided"
    rf"|available|given|disclosed|listed|enough information|answerable))(?: (?:in|by|within|from) {SOURCE_EN})?\W*$",
    re.IGNORECASE,
)
# Every abstention has one of these.
_CUES = (
    "not", "no ", "'t", "’t", "' t", "unable", "impossible", "insufficient", "unknown", "n/a", "unanswerable",
    *"无不没未缺",
)  # fmt: skip
_FILLER_EN = re.compile(
    r"(?:based on|according to|regarding|about|please|in the|from the|with|from|who|what|when|where|why|how|which"
    r"|whether|if)\b",
    re.IGNORECASE,
)
# A ground asserts something, unless it is that nothing is known.
_GROUND = re.compile(r"(?:as|since|because|given(?: that)?|due to)\b\s?|因为|由于|鉴于", re.IGNORECASE)
_UNKNOWN_EN = re.compile(
    rf"(?:{SOURCE_EN}|(?>(?:the |an? |lack of |insufficient |missing |limited |no |any "
    rf"|enough )*)(?:\w+ ){{0,2}}?{_FACTS_EN})\W*$"
    r"|(?:it|this|that|they|these|(?:the |any |such )?(?:\w+ ){0,4}?\w+) (?:(?:is|are|was|were|has|have)(?: not"
    r"|n't)(?: been)?"
    r" (?:\w+ly )?(?:mentioned|specified|stated|provided|given|available|included|covered|known|disclosed|listed"
    r"|described|clear)|(?:is|are|was|were|remains?) (?:unclear|unknown|missing))"
    r"(?: (?:here|there|anywhere|(?:in|by|within|from) .*))?\W*$",
    re.IGNORECASE,
)

_OPENING_ZH = re.compile(
    r"(?>(?:很|非常|十分|抱歉|对不起|遗憾|不好意思|根据|基于|依据|从|在|现有|已有|目前|当前|提供|给出|给定|检索|上述|以上"
    r"|文中|所|这些|因此|所以|您|你|我|本人|们|暂时|暂|都|也|均|并(?!未|没)|的|到|中|里|内|来看|上下文|资料|信息|文档"
    r"|文本|内容|材料|文章|段落|背景|知识库|结果|来源|参考|[。！!\s])*)"
)
_FACTS_ZH = r"(?:信息|答案|相关|资料|内容|回答|依据|说明|数据)"
_ABSTAINS_ZH = re.compile(
    r"(?:无法|不能|不可以)(?:直接|准确|完全)?(?:(?:从|根据|通过|由|依据).{1,20}?)?"
    r"(?:回答|确定|判断|得知|得出|获知|确认|知道|推断)"
    rf"|(?:无法|不能)(?:直接)?(?:找到|提供|给出)(?:\W*$|(?=.{{0,10}}{_FACTS_ZH}))"
    r"|(?<=[我们])不(?:知道|太清楚|清楚|确定|了解)|不(?:知道|太清楚|清楚|确定|了解)\W*$"
    r"|(?:没有|没|并未|并没有|未曾|未|缺乏|缺少|无)(?>(?:明确|直接|具体|足够|任何|能够|能|的){0,3})"
    r"(?:提到|提及|提供|说明|包含|涉及|给出|答案|相关|信息|资料|内容|找到|查到|检索到|记载|介绍)"
    r"|不足以(?:回答|判断|确定|得出|说明|支持)|(?<=信息|资料|证据|内容|文本|下文)(?:不足|有限|不全|不完整)"
    r"|未知\W*$"
)
_FILLER_ZH = re.compile(r"请|如果|关于|至于|对于|根据|基于|建议")
# After one of these the sentence asserts something.
_GOES_ON = re.compile(
    r"\b(?:but|however|though|although|nevertheless|yet|instead|except)\b|但|不过|然而|可是|却", re.IGNORECASE
)


def abstains(text: str) -> bool:
    """Return True if all clauses say that the answer is unknown or not in the contexts; any other is judged."""
    if not may_abstain(text):
        return False
    line = text.strip(_MARKUP).replace("’", "'")
    if "'" in line or " m " in line:
        line = _LONE_M.sub("i'm", _TOKENISED.sub("'", line).replace(" n't", "n't"))
    if not line or len(line) > _MAX_ABSTENTION_CHARACTERS:
        return False
    rest = line[_end(_OPENING_EN, line) :]
    if _GOES_ON.search(rest):
        return False
    clauses = [clause for clause in map(str.strip, _CLAUSE_BREAK.split(rest)) if clause] or [""]
    declining = [_is_declining(clause) for clause in clauses]
    return any(declining) and all(
        declines or _says_nothing(clause, is_first=position == 0)
        for position, (clause, declines) in enumerate(zip(clauses, declining, strict=True))
    )


def may_abstain(text: str) -> bool:
    """Return True if any part of a text may abstain; most texts have no word for it."""
    folded = text.lower()
    return any(map(folded.__contains__, _CUES)) or folded.startswith("na")


def _is_declining(clause: str) -> bool:
    found = _ABSTAINS_EN.match(clause, _end(_OPENING_EN, clause))
    return found is not None or _ABSTAINS_ZH.match(clause, _end(_OPENING_ZH, clause)) is not None


def _says_nothing(clause: str, *, is_first: bool) -> bool:
    """Return True if a clause only frames an abstention: its ground, its address, the rest of a list."""
    if any(character.isdigit() for character in clause):
        return False
    if ground := _GROUND.match(clause):
        rest = clause[ground.end() :]
        return _is_declining(rest) or _UNKNOWN_EN.match(rest) is not None
    if _FILLER_EN.match(clause) or _FILLER_ZH.match(clause) or _end(_OPENING_ZH, clause) == len(clause):
        return True
    return not is_first and clause.isascii() and len(_WORD.findall(clause)) <= _MAX_REST_WORDS


def _end(opening: re.Pattern[str], text: str) -> int:
    found = opening.match(text)
    return found.end() if found else 0
