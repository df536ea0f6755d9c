"""Boilerplate of answers: openers, closers, remarks on the documents. It asserts nothing, and no tier judges it."""

import re
import tomllib
from collections.abc import Container
from importlib.resources import files
from typing import Any, Final

from plumbline.judging.text.blocks import has_word

# Words of the question are compared up to here: "resetting" meets "reset".
STEM_CHARACTERS = 5
_MAX_CHARACTERS = 240
_MAX_LEAD_CHARACTERS = 160
# An answer carries a few openers one after the other, and a closer or two.
_MAX_LAYERS = 4
_TAIL_CHARACTERS = 160
_LONGEST_ZH = 6
_COUNT_DIGITS = 2
# Words of its own, known neither from the question nor from the contexts, that a sentence of no assertion may have.
_MAX_NEW_LED = 2
_MAX_NEW_ASKED = 3
_FIRST_CHARACTERS = 24

_PHRASES: Final[dict[str, Any]] = tomllib.loads(
    files("plumbline.judging.text").joinpath("everyday_phrases.toml").read_text(encoding="utf-8")
)
LABELS: Final = frozenset(_PHRASES["labels"]["en"].split()) | frozenset(_PHRASES["labels"]["zh"].split())
_FILLER: Final = frozenset(_PHRASES["en"]["filler"].split()) | frozenset(_PHRASES["zh"]["filler"].split())
_ASSERTING: Final = frozenset(_PHRASES["en"]["asserting"].split())
_CONCRETE: Final = frozenset(_PHRASES["en"]["concrete"].split()) | frozenset(_PHRASES["zh"]["concrete"].split())
_ABSTRACT: Final = _FILLER - _CONCRETE
_SPEAKERS: Final = frozenset(_PHRASES["en"]["speakers"].split())
_SPEAKER_ZH: Final = re.compile("[我您你]")


def _any_of(name: str) -> str:
    """Return a pattern of the phrases, the longest first; an English one ends with its word."""
    found = [f"{re.escape(phrase)}\\b" for phrase in _PHRASES["en"][name]] + _PHRASES["zh"][name]
    return "|".join(sorted(found, key=len, reverse=True))


_HEAD = re.compile(
    rf"\s*(?:(?P<topic>{_any_of('topics')})|(?:{_any_of('heads')})|(?:{_any_of('signatures')})(?=\W*\Z))"
)
_FIRST = re.compile(r"[\s\"“]*([a-z']+|[^\W\d_])")
_HEAD_FIRST = frozenset(
    phrase.split()[0] for name in ("heads", "topics", "signatures") for phrase in _PHRASES["en"][name]
) | frozenset(phrase[0] for name in ("heads", "topics", "signatures") for phrase in _PHRASES["zh"][name])
_AHEAD = re.compile(
    r"\b(?:following|follows|below|these|here|steps|summary|overview)\b|以下|如下|下面|步骤|(?:有|是|为|包括|包含)[:：]"
)
# "Here's how that works:" and "The steps are as follows:" assert nothing, whatever their few words of their own.
_PRESENTS = re.compile(
    r"\s*(?:\w+,? )?(?:here(?:'s| is| are)|below (?:is|are)|the following (?:is|are)|these are|this is (?:how|what)|how"
    r"|what|there are (?:two|three|four|five|six|several|some|a few|a couple of|a number of|\d))\b"
    r"|\s*(?:(?:please|first|then|next|now|simply|just),? ){0,2}(?:run|execute|use|type|enter|try|follow|complete|take"
    r"|add|call|paste|copy) (?:the following|this|these)\b"
    r"|.{1,120}\b(?:as follows|like this|simple|easy|straightforward)\s?:|.{0,60}(?:如下|以下[^，。；]{1,8})\s?[:：]"
)
_RELATES = re.compile(r"\b(?:that|which|who|whose|because|since|after|as long)\b|因为|由于|导致")
_ASKS_EN = re.compile(
    r"\s*(?:and |so |or |also,? )?(?:do|does|did|would|could|can|shall|should|may|will|is|are|was|were|has|have|want"
    r"|need|any|anything|what|how|which|who|where|when|why|ready|interested|curious|sound|sounds|got)\b"
)
# Questions in form only.
_RHETORICAL = re.compile(
    r"n't\b|\bnot\b|\bknow that\b|\bnow that\b|\byou (?:know|reali[sz]e|hear|notice)(?: that)?\b|, ?\w+(?: \w+)?\s?\?"
    r"|难道|知道|不|岂|吧|没错|谁说|未|没有"
)
_NEGATION = re.compile(r"\b(?:not|no|nor|never|none|without|nothing)\b|n't\b|[不没未无非别]")
_COLON = re.compile("[:：]")
_CLAUSE_BREAK = re.compile(r"[,;:!?.()，。；：、！？（）~～—–]+|\s-\s")
_TOKEN = re.compile(r"[a-z]+(?:'[a-z]+)*|[0-9]+|[^\W\d_a-z]+")
_HAN = re.compile("[\u3400-\u9fff]+")
_WORD = re.compile(r"\w+")
_EMPHASIS = str.maketrans("’", "'", "*_`#>")

# The contexts, as answers speak of them.
SOURCE_EN: Final = (
    r"(?>(?:(?:the|this|these|your|any|given|provided|retrieved|available|above|supplied|attached|following|search"
    r"|knowledge|of|and|in|my|all|both)\s){0,5})"
    r"(?:contexts?|passages?|documents?|documentation|texts?|sources?|information|articles?|excerpts?|snippets?|results?"
    r"|materials?|content|data|references?|base)"
    r"(?:\s(?:provided|given|retrieved|available|above|supplied|cited|i have|at hand))?"
    r"(?:\s(?:#|no\. ?|number )?[\[(]?\d{1,2}[\])]?(?:(?:,| and| &) ?[\[(]?\d{1,2}[\])]?){0,4}(?![\w%]))?"
    r"(?:\s(?:that )?(?:you|we|i)(?: have| were| was|'ve)? (?:provided|given|shared|supplied|received|found))?"
)
_STATED_EN = (
    r"(?:stated|mentioned|described|noted|indicated|shown|specified|outlined|explained|reported|given|discussed|listed"
    r"|written|said|seen|per)"
)
_THAT_EN = r"(?:\sthat\s|\s?:\s)"
_NEXT_EN = r"(?:\s?[,:]\s?|\s(?=(?:the|an?|it|there|this|that|these|those|he|she|they|you|we|its|his|her|their)\s))"
_OPENER_EN = (
    rf"(?:based (?:\w+ly |only )?(?:up)?on|according to|as {_STATED_EN}(?: (?:in|by|on))?|as per|per|from|in"
    rf"|within|given"
    rf"|using|looking at|after reviewing|with reference to) {SOURCE_EN}{_NEXT_EN}"
    rf"|{SOURCE_EN}(?: (?:clearly|also|explicitly|further|specifically|directly))? (?:states?|says?|mentions?"
    rf"|indicates?"
    rf"|notes?|shows?|explains?|specif(?:y|ies)|reports?|confirms?|reveals?|describes?|stated|mentioned|said){_THAT_EN}"
    rf"|it is (?:also |clearly |explicitly )?{_STATED_EN}(?: (?:in|by) {SOURCE_EN})? that\s"
    r"|(?:did|do) you know that\s|(?:isn't it|is it not) true that\s"
    rf"|(?:we|you|i|one) (?:can|could) (?:also )?(?:see|tell|conclude|confirm|find)(?: (?:from"
    rf"|in) {SOURCE_EN})? that\s"
    r"|(?:please )?(?:note|keep in mind|be aware) that\s|it should be noted that\s"
    r"|it(?:'s| is) (?:also )?(?:important|worth|useful|helpful) (?:to (?:note|mention|remember|know)|noting"
    r"|mentioning)"
    r" that\s|i can (?:confirm|tell you|say) that\s|(?:to|in) (?:answer|response to|answer to) your question,\s"
    r"|unfortunately,\s|(?:i'm |i am )?(?:so |very |really )?(?:sorry|afraid),? (?:but |that )"
    r"|(?:in (?:summary|short|conclusion|brief|other words|addition)|to (?:summari[sz]e|sum up|conclude|recap)"
    r"|overall|additionally|furthermore|moreover|also|besides|finally|lastly|first(?:ly)?|second(?:ly)?|third(?:ly)?"
    r"|next|then|specifically|simply put|essentially|basically|for (?:example|instance)|regarding your question)\s?,\s"
    r"|(?:sure(?: thing)?|certainly|of course|absolutely|definitely|indeed|yes|yeah|yep|no|nope|ok|okay|alright"
    r"|hello(?: there)?|hi(?: there)?|hey|correct|(?:that's |that is )?(?:right|correct)|(?:great|good) question"
    r"|thank(?:s| you)(?: for (?:asking|your question))?)\s?(?:[,.!:;–—-]\s?)(?=\s|[^\W\d_])"
    r"|(?:the )?(?:final |short |quick |direct |brief )?(?:answer|response|summary|conclusion|explanation|note|tl;?dr"
    r"|key (?:point|takeaway)s?)\s?:\s|the (?:correct |short |final )?answer (?:to (?:your|this|the) question )?"
    r"(?:is|would be)(?: that\s|\s?:\s|\s)"
    r"|(?:step|tip|point|item) (?:\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten)\s?[:.)–—-]\s?"
)
# "The context mentions these facts about the dam:"; words of the question may follow.
_SOURCE_HEAD = re.compile(
    rf"{SOURCE_EN} (?:also |only |does |do )?(?:provides?|contains?|mentions?|lists?|describes?|gives?|includes?"
    r"|covers?|offers?|shows?|tells?|says?|states?|outlines?|explains?|discuss(?:es)?)\b"
)
_SOURCE_ZH = "上下文|参考资料|资料|信息|文档|文本|内容|材料|文章|段落|背景知识|背景|知识库|检索结果|结果|来源"
"|文件|片段|文中|原文|文段"
_AROUND_ZH = (
    "和|与|及|、|您|你|我们|我|用户|所|提供|给出|给定|检索到|检索|搜索|上述|以上|现有|已有|已知|相关|这些|这段|这份|该|本|目前|当前|给|的|了|到|中"
    "|里|内|上|描述|说明|介绍|记载|来看|可知|可以看出|可以得知|可以知道|得知|可得|明确|第[一二三四五六七八九十]个"
    "|[ \\[【]?[0-9]{1,2}[\\]】]?"
)
_SAYING_ZH = "提到|提及|指出|显示|表明|写道|记载|说明|介绍|表示|所述|所示|所说"
_OPENER_ZH = (
    rf"(?:根据|基于|依据|按照|依照|参考|结合|从|在|如|由)(?>(?:{_SOURCE_ZH}|{_AROUND_ZH}|{_SAYING_ZH})+)[，,：:]"
    rf"|(?>(?:这些|这份|这段|该|本|上述|以上|您|你|提供|给出|给定|检索到|现有|已有|的|所)*)(?:{_SOURCE_ZH})(?:[0-9]{{1,2}})?"
    rf"(?:中|里|内|还|也|都|明确|已经|已|均)*(?:{_SAYING_ZH})(?:了|到)?[，,：:]?"
    "|(?:你|您)知道吗[，,？?]?|(?:你|您)知道(?=.{6})|难道"
    "|(?:很抱歉|非常抱歉|抱歉|对不起|不好意思|好的|好|当然可以|当然|没问题|您好|你好|综上所述|综上|总之|总的来说|总体来说|总而言之|简而言之|简单来说|也就是说|换句话说"
    "|需要注意的是|值得注意的是|需要说明的是|请注意|此外|另外|首先|其次|再次|最后|例如|比如|具体来说|具体而言|可以看出|由此可见"
    "|是的|是|对的|对|没错|不是的|不|否|不是|针对您的问题|关于您的问题|对于您的问题)[，,！!。：:]"
    "|(?:最终|简短|简要)?(?:答案|回答|答|总结|结论|说明|注意|注|备注|解释)(?:是|为)?[：:]|(?:正确)?答案(?:是|为)"
    "|(?:第[一二三四五六七八九十]{1,2}步|步骤[一二三四五六七八九十0-9]{1,2})[，,：:、.]?"
)
# Most sentences start with none of these: they are spared the long pattern.
_OPENER_FIRST = frozenset(_PHRASES["en"]["opener_first"].split())
_OPENER = re.compile(rf"[\s\"“]?(?:{_OPENER_EN}|{_OPENER_ZH})\s?", re.IGNORECASE)
_TRAILER = re.compile(
    rf"(?:[\s,;]{{0,2}}[(（]|[,;]?\s)(?:as {_STATED_EN}(?: (?:in|by|on))?|as per|according to|based on|per"
    rf"|see) {SOURCE_EN}\W*\Z"
    rf"|(?:[\s,;]{{0,2}}[(（]|,\s)(?:in|from) {SOURCE_EN}\W*\Z"
    r"|\s(?:in|from) the (?:provided|given|retrieved|supplied) (?:contexts?|documents?|passages?|texts?|sources?)\W*\Z"
    rf"|[(（【\[](?:根据|基于|参见|参考|见|来源|来自|出处|source|ref)[：:]?\s?(?>(?:{_SOURCE_ZH}|{_AROUND_ZH}|[、，,])*)[)）】\]]\W*\Z",
    re.IGNORECASE,
)
_ENDING = " .!?。！？~～"
_CLAUSE_MARKS = ",;，；。.!！"
_SOURCE_LAST = frozenset(_PHRASES["en"]["source_last"].split())
_SALUTATION = re.compile(
    r"(?:(?:dear|hi|hello|hey)(?: [^\s,.:!\d]{1,20}\.?){1,3}|(?:尊敬的|亲爱的)\w{1,12}"
    r"|\w{1,6}(?:先生|女士|小姐|老师)[您你]好)\s?[,，:：!！]\s*\Z"
)
_SOURCES = re.compile(
    r"\s*(?:sources?|references?|citations?|来源|信息来源|资料来源|参考(?:资料|文献|来源)?|出处|引用)\s?[:：]\s?",
    re.IGNORECASE,
)
_SOURCE_ITEM = re.compile(
    r"https?://\S{1,500}|[\w.-]{1,80}\.(?:pdf|md|txt|html?|docx?|json|csv|pptx?|xlsx?)\b|\d{1,3}"
    r"|\b(?:contexts?|passages?|documents?|docs?|texts?|sources?|articles?|excerpts?|snippets?|pages?|pp?|and|the|provided)\b"
    rf"|{_SOURCE_ZH}|提供|的|第|页|和|及",
    re.IGNORECASE,
)


def is_boilerplate(text: str, stems: Container[str] = frozenset()) -> bool:
    """Return True if a sentence asserts nothing: greetings, offers of help, thanks, "Here is the answer".

    Strict on purpose: each of its clauses has nothing but words of a closed list, behind one of the known beginnings.
    Behind some of those, words of the question may follow; `stems` are the question's words up to five characters,
    its Chinese characters one by one.
    """
    if len(text) > _MAX_CHARACTERS:
        return False
    folded = text.lower().translate(_EMPHASIS).replace("tl;dr", "tldr")
    if _SALUTATION.match(folded):
        return True
    if sources := _SOURCES.match(folded):
        return not has_word(_SOURCE_ITEM.sub("", folded[sources.end() :]), 0, _MAX_CHARACTERS)
    first = _FIRST.match(folded)
    word = first.group(1) if first else ""
    if (word in _OPENER_FIRST and _is_of_the_source(folded, stems)) or _is_talk(folded):
        return True
    if word.isascii() and word and word not in _HEAD_FIRST and word not in _FILLER:
        return False
    return _is_framing(folded, stems)


def _is_of_the_source(folded: str, stems: Container[str]) -> bool:
    """Return True if a remark tells no more of the contexts than that they say something, or frames it."""
    said, opener = _SOURCE_HEAD.match(folded), _OPENER.match(folded)
    return bool(
        (said and _is_filler(folded[said.end() :], stems)) or (opener and _is_framing(folded[opener.end() :], stems))
    )


def _is_talk(folded: str) -> bool:
    """Return True if it is of the speakers or what follows, and of no thing: "I dug into this for you"."""
    if not _is_filler(folded, (), words=_ABSTRACT):
        return False
    return folded.rstrip(" ")[-1:] in (":", "：") or any(
        token in _SPEAKERS or _SPEAKER_ZH.search(token) for token in _TOKEN.findall(folded)
    )


def introduces(text: str, stems: Container[str], known: Container[str]) -> bool:
    """Return True if a sentence only leads to what follows its colon: "To reset the router, follow these steps:".

    It has nothing but words of the closed list, of the question (`stems`) and of the contexts (`known`), no negation,
    and one that points ahead; if it presents ("Here's ...:"), two words of its own.
    """
    bare = text.rstrip(" *_")
    if bare[-1:] not in (":", "：") or len(bare) > _MAX_LEAD_CHARACTERS:
        return False
    folded = bare.lower().translate(_EMPHASIS)
    if _NEGATION.search(folded):
        return False
    presents = _PRESENTS.match(folded) and not _RELATES.search(folded)
    if not (presents or _AHEAD.search(folded) or _HEAD.match(folded)):
        return False
    return count_new(folded, stems, known) <= (_MAX_NEW_LED if presents else 0)


def asks(text: str, stems: Container[str], known: Container[str]) -> bool:
    """Return True if a sentence is a question that asserts nothing: of the user's wishes, or of what is known anyway.

    No question in form only ("Did you know that ...?"), and none with numbers. One that speaks of the user or the
    assistant may have a few words of its own: "Want me to draft the email?".
    """
    if "?" not in text and "？" not in text:
        return False
    folded = text.lower().translate(_EMPHASIS).rstrip(' "”)')
    if folded[-1:] not in ("?", "？") or len(folded) > _MAX_LEAD_CHARACTERS or _RHETORICAL.search(folded):
        return False
    tokens = _TOKEN.findall(folded)
    if any(token.isdigit() for token in tokens) or not (_ASKS_EN.match(folded) or _HAN.search(folded)):
        return False
    is_of_speakers = any(token in _SPEAKERS or _SPEAKER_ZH.search(token) for token in tokens)
    return count_new(folded, stems, known) <= (_MAX_NEW_ASKED if is_of_speakers else 0)


def count_new(folded: str, stems: Container[str], known: Container[str]) -> int:
    """Return how many words are in no list and known neither from the question nor from the contexts."""
    return sum(
        _new_of(token, stems, known)
        for token in _TOKEN.findall(folded)
        if not (token in known or token in LABELS or (token.isdigit() and len(token) <= _COUNT_DIGITS))
    )


def _is_framing(folded: str, stems: Container[str]) -> bool:
    has_head = False
    for clause in _CLAUSE_BREAK.split(folded):
        first = _FIRST.match(clause)
        head = _HEAD.match(clause) if first and first.group(1) in _HEAD_FIRST else None
        topical = head is not None and head.lastgroup == "topic"
        if not _is_filler(clause[head.end() :] if head else clause, stems if topical else ()):
            return False
        has_head = has_head or head is not None
    return has_head


def strip_boilerplate(text: str, stems: Container[str] = frozenset()) -> str:
    """Return what a sentence asserts: without openers, closers and remarks that it is in the documents.

    "According to the provided documents, the dam was built in 1950." -> "the dam was built in 1950." A text of nothing
    else comes back as it is.
    """
    rest = text
    for _ in range(_MAX_LAYERS):
        end = _end_of_opener(rest, stems)
        if not end or not has_word(rest, end, len(rest)):
            break
        rest = rest[end:]
    for _ in range(_MAX_LAYERS):
        start = max(0, len(rest) - _TAIL_CHARACTERS)
        closer = _start_of_closer(rest, start, stems)
        if closer is None or not has_word(rest, 0, closer):
            break
        rest = rest[:closer]
    return rest


def _end_of_opener(text: str, stems: Container[str]) -> int:
    first = _FIRST.match(text[:_FIRST_CHARACTERS].lower())
    is_open = first is None or first.group(1) in _OPENER_FIRST or not first.group(1).isascii()
    if is_open and (match := _OPENER.match(text)):
        return match.end()
    colon = _COLON.search(text, 0, _MAX_LEAD_CHARACTERS)
    return colon.end() if colon and is_boilerplate(text[: colon.start()], stems) else 0


def _start_of_closer(text: str, start: int, stems: Container[str]) -> int | None:
    tail = text[start:]
    body = tail.rstrip(_ENDING)
    if _may_trail(body) and (match := _TRAILER.search(tail)):
        return start + match.start()
    last = max(map(body.rfind, _CLAUSE_MARKS))
    return start + last if last >= 0 and is_boilerplate(tail[last + 1 :], stems) else None


def _may_trail(body: str) -> bool:
    """Return False if the last word is neither a noun of documents, as such remarks end with, nor their number."""
    final = "".join(body.rsplit(maxsplit=1)[-1:])
    if final.isalpha():
        return final.lower() in _SOURCE_LAST
    if not final.isascii() or ")" in final or "]" in final:
        return True
    last = "".join(_WORD.findall(final)[-1:])
    return not last or last.lower() in _SOURCE_LAST or (last.isdigit() and len(last) <= _COUNT_DIGITS)


def _is_filler(clause: str, stems: Container[str], words: Container[str] = _FILLER) -> bool:
    if any(_new_of(match.group(), stems, (), words) for match in _TOKEN.finditer(clause)):
        return False
    tokens = _TOKEN.findall(clause)
    is_about_question = any(token not in words and not _HAN.match(token) for token in tokens)
    return not (is_about_question and _ASSERTING.intersection(tokens))


def _new_of(token: str, stems: Container[str], known: Container[str], words: Container[str] = _FILLER) -> int:
    """Return how many words of a token are new: of a run of Han, two characters count as a word."""
    if token in words:
        return 0
    if not _HAN.match(token):
        return 0 if token[:STEM_CHARACTERS] in stems and not token.isdigit() else 1
    at = new = 0
    while at < len(token):
        longest = next((size for size in range(_LONGEST_ZH, 0, -1) if token[at : at + size] in words), 0)
        pairs = (token[at : at + 2], token[at - 1 : at + 1])
        new += not longest and token[at] not in stems and not any(pair in known for pair in pairs)
        at += longest or 1
    return (new + 1) // 2
