"""Negation: a claim that says yes where its evidence says no, or the reverse."""

import re
from collections import Counter
from collections.abc import Sequence

from plumbline.judging.text.words import content_words, detect_language, split_characters

# What plainly negates, once what only looks like it is taken out.
_NO_EN = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|failed to|fails to|fail to|unable to)\b|n['’]t\b"
)
_NO_NEGATION_EN = re.compile(
    r"\A\W*no\b\s*[,.!]|\bi ?['’]? ?a?m not (?:sure|certain)\b|\bi (?:do|am|did) ?n['’]t\b|"
    r"\bnot (?:only|just|merely|simply|solely|to mention|surprisingly|least|too distant|until"
    r"|always|necessarily|all|every|far)\b"
    r"|\b(?:whether|or|if|why|than) (?:or )?not\b|\bno (?:later|earlier|less|more|fewer|greater"
    r"|sooner|doubt|matter|wonder"
    r"|one but|\d+|\.)\b|\bno\. ?\d+|\bnumber no\b|\bnot? (?:less|more|fewer|later|earlier) than\b"
    r"|\bnothing (?:but|more|less)\b"
    r"|\bnone other\b|\bif not\b|\b(?:can|could)(?:not|n['’]t| not) (?:but|help)\b|\bwhy (?:do"
    r"|does|did)n['’]t\b|\bnot so much\b"
    r"|\bisn['’]t it\b|\bno longer just\b|\bwithout (?:doubt|question|fail)\b|\b(?:never|no)"
    r" ?mind\b|\bneither here nor\b"
)
# Whatever has a negative turn, so that a negation in the claim may well be its paraphrase.
_NEGATIVE_EN = re.compile(
    r"\b(?:not|no|non|never|none|nobody|nothing|nowhere|neither|nor|without|cannot|fail\w*|unable|inab\w*|lack\w*|absen\w*|"
    r"miss(?:ed|es|ing)?|den(?:y|ied|ies|ying)|refus\w*|reject\w*|declin\w*|prevent\w*|stop\w*|ban(?:s|ned|ning)?|prohibit\w*|"
    r"forbid\w*|forbade|avoid\w*|exclu\w*|except\w*|only|hardly|barely|scarcely|rarely|seldom|few|little|less|least|instead|"
    r"rather|despite|although|though|but|however|unless|until|yet|end(?:ed|s|ing)?|ceas\w*"
    r"|los[est]\w*|out of|free|zero|"
    r"doubt\w*|contrary|false|wrong|incorrect\w*|against|oppos\w*|withdr\w*|cancel\w*|abandon\w*|drop(?:ped|s)?|"
    r"rul(?:ed|es|ing) out|far from|too|impossib\w*|impermiss\w*|illegal\w*|impract\w*|insuffic\w*"
    r"|inadequ\w*|differ\w*|"
    r"rare|unlike\w*|un\w{4,}|in(?:valid|capable|effective|complete|significant|accurate|dependent|visible|active|appropriate)\w*|"
    r"dis\w{4,}|\w{3,}less|remain\w*|still|halt\w*|escap\w*|overturn\w*|acquit\w*|clear(?:ed)?|minimal\w*|negat\w*|nil|"
    r"limit\w*|restrict\w*|suspend\w*|lapse\w*|forgo\w*|skip\w*|snub\w*|ignor\w*|neglect\w*"
    r"|omit\w*|yet to|beyond|other than)\b"
    r"|n['’]t\b"
)
_NO_ZH = re.compile(
    "没有|没能|并非|并不|并未|从未|尚未|未能|未曾|无法|不能|不会|不是|不可|不得|不|没|未|无|非|勿|莫|否认"
)
_NO_NEGATION_ZH = re.compile(
    "不[仅但光只单]|不[少断过久如妨愧禁管论锈止等一料惜幸良错由具同得不]|不得不|不可[避忽缺或思]|不超过|不低于|不少于|不亚于|不低于|不断|不足|不得已|不出所料|不好意思|[是能会要可]不[是能会要可]|差不多|对不起|了不起|来不及|不明|不用说|不可否认|毫不犹豫|未[来必免婚知央]|无[论线人疑数锡忧穷限非愧偿线缘奈意]|非[常洲但典凡遗]|除非|是非|否则|[是能可]否|莫[斯名桑言过扎]|没[收落错]"
)
_NEGATIVE_ZH = re.compile("[不没未无非否勿莫缺仅只难少停失但却假]|拒绝|禁止|免除|取消|反对|错误|除外|除了")
# Said of what was done, and left out of what was not.
_ASPECT_ZH = re.compile("[了着过]")
_MIN_COVERAGE = 0.8
# Of the evidence's words: with more that the claim lacks, those may be what the negation is about.
_MIN_REPEATED = 0.8
_REACH_WORDS = 3
_REACH_HAN = 4
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|\d+")
_NEGATING_WORDS = "no not never none nobody nothing neither nor without cannot nt cant"
_NEGATORS = frozenset(_NEGATING_WORDS.split())
_FAILURES = frozenset({"failed", "fails", "fail", "unable"})
_HAN_NEGATORS = frozenset("不没未无非否勿莫")
# Words that turn a statement round when one of a pair takes the other's place.
_TURNS = tuple(
    frozenset(group.split())
    for group in (
        "increase increased increases increasing rise rose risen rises rising grew grow grown grows gain gained gains"
        " up higher more most above over after later larger greater maximum longer faster won win wins positive always"
        " all before",
        "decrease decreased decreases decreasing decline declined declines fall fell fallen falls falling drop dropped"
        " lost lose loses loss down lower less fewer least below under earlier smaller minimum shorter slower negative"
        " never none before",
        "before after first last north south east west left right true false male female father mother son daughter",
    )
)
_TURNING = frozenset().union(*_TURNS)
_TURNING_ZH = re.compile(
    "增|减|升|降|涨|跌|高于|低于|多于|少于|以前|以后|之前|之后|大于|小于|胜|负|男|女|东|西|南|北|父|母"
)


def is_turned(quote: str, passage: str) -> bool:
    """Return True if two almost equal texts differ in a negation or in a word that reverses the sense, as "rose"."""
    return _turns(quote) != _turns(passage)


def differs(claim: str, evidence: str) -> bool:
    """Return True if the claim repeats a sentence's words but for a negation that only one of them has.

    Both sides must be in one language, and four fifths of the claim's content words stand in the evidence. A claim
    that negates is compared with any negative turn of the evidence; a claim that does not, with a plain negation of
    words that it repeats.
    """
    language = detect_language(claim)
    if language != detect_language(evidence) or language == "other":
        return False
    said, given = claim.casefold(), evidence.casefold()
    negation = _NO_ZH if language == "zh" else _NO_EN
    if not (negation.search(said) or negation.search(given)):
        return False
    if language == "zh":
        said, given = _ASPECT_ZH.sub("", said), _ASPECT_ZH.sub("", given)
    known = set(_content(given))
    words = [word for word in _content(said) if word not in _NEGATORS | _FAILURES and not _HAN_NEGATORS & set(word)]
    if not words or sum(word in known for word in words) / len(words) < _MIN_COVERAGE:
        return False
    return _differs_zh(said, given) if language == "zh" else _differs_en(said, given)


def is_unexplained(claim: str, evidence: str) -> bool:
    """Return True if the evidence has hardly a content word that the claim lacks, so that nothing else negates it.

    "Canberra is the capital and Sydney its largest city" explains that Sydney is not the capital; "Sydney is the
    capital" does not.
    """
    said, units = {*_content(claim), *split_characters(claim)}, _content(evidence)
    if detect_language(evidence) == "zh":
        units = split_characters(_ASPECT_ZH.sub("", evidence))
    words = [word for word in units if word not in _NEGATORS | _FAILURES | _HAN_NEGATORS]
    return bool(words) and sum(word in said for word in words) >= _MIN_REPEATED * len(words)


def _differs_en(claim: str, evidence: str) -> bool:
    negations = len(_NO_EN.findall(_NO_NEGATION_EN.sub(" ", claim)))
    if negations:
        return negations == 1 and not _NEGATIVE_EN.search(evidence)
    if _NEGATIVE_EN.search(claim):
        return False
    plain = _NO_NEGATION_EN.sub(" ", evidence)
    places = list(_NO_EN.finditer(plain))
    if len(places) != 1:
        return False
    words = set(content_words(claim))
    following = _content(plain[places[0].end() :])[:_REACH_WORDS]
    # What is negated must be what the claim asserts.
    return bool(following) and all(word in words for word in following[:2])


def _differs_zh(claim: str, evidence: str) -> bool:
    said, given = _NO_NEGATION_ZH.sub("", claim), _NO_NEGATION_ZH.sub("", evidence)
    negations = list(_NO_ZH.finditer(said))
    if negations:
        return len(negations) == 1 and not _NEGATIVE_ZH.search(given)
    if _NEGATIVE_ZH.search(claim):
        return False
    places = list(_NO_ZH.finditer(given))
    if len(places) != 1:
        return False
    following = re.sub(r"[^\u3400-\u9fff]", "", given[places[0].end() : places[0].end() + _REACH_HAN])[:_REACH_HAN]
    return len(following) > 1 and following[:2] in claim


def _content(text: str) -> Sequence[str]:
    return content_words(text) if text.strip() else ()


def _turns(text: str) -> Counter[str]:
    folded = text.casefold()
    counts = Counter(word for word in _WORD.findall(folded) if word in _TURNING or word in _NEGATORS)
    counts["n't"] += len(re.findall(r"n['’]t\b", folded))
    counts.update(_TURNING_ZH.findall(folded))
    counts.update(character for character in folded if character in _HAN_NEGATORS)
    return +counts
