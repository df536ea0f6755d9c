"""Short answers read with their question: "Yes." to "Is Paris the capital of France?" says that it is."""

import re
from collections.abc import Sequence

from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.words import normalise

# Longer than any "Yes, it does."; a longer question is a task with texts of its own.
_MAX_ANSWER_CHARACTERS = 60
_MAX_QUESTION_CHARACTERS = 400
# Words of a question among which the auxiliary is put.
_SUBJECT_REACH = 8

_PRONOUN = "it|they|he|she|you|we|i|there|that|this|these|those"
_AUXILIARY = "is|are|was|were|do|does|did|can|could|will|would|should|has|have|had|may|might|must"
_ECHO = (
    rf"(?:[\s,.!;–—-]+(?:{_PRONOUN}) (?:{_AUXILIARY}|can|won|wouldn|isn|aren|wasn|weren|don|doesn|didn|couldn"
    rf"|shouldn|hasn"
    r"|haven|hadn)(?:not|'t| not)?)?"
)
_YES = re.compile(
    rf"(?:(?:yes|yeah|yep|yup|correct|right|true|indeed|exactly|affirmative|absolutely|certainly|definitely"
    rf"|of course|sure"
    rf"|(?:that is|that's) (?:correct|right|true)){_ECHO}|(?:yes, )?(?:it|they|he|she|you|there) (?:{_AUXILIARY}))\W*\Z"
)
_NO = re.compile(
    rf"(?:(?:no|nope|false|incorrect|wrong|untrue|not true|not at all|(?:that is|that's) (?:not (?:correct|right"
    rf"|true)|wrong"
    rf"|incorrect|false)){_ECHO}|(?:it|they|he|she|you|there) (?:{_AUXILIARY}|can|wo|is|are|do|does)(?:not|n't"
    rf"| not))\W*\Z"
)
_YES_ZH = re.compile(
    r"(?:(?:是|对|可以|能|能够|会|有|需要|支持|属于|包括|允许)的?|没错|正确|确实(?:如此|是)?|是这样的?|当然(?:可以|是|能|会)?的?|完全正确)"
    r"(?:[，,。！!\s]+(?:是|对|可以|能|会|有|需要|支持)的?)?\W*\Z"
)
_NO_ZH = re.compile(
    r"(?:不|否|不是|不对|不可以|不能|不会|没有|不需要|不支持|不属于|不包括|不允许|不行|不用|无需|错误|不正确|并非如此|并不是|并不|错)的?"
    r"(?:[，,。！!\s]+(?:不是|不可以|不能|不会|没有|不需要|不支持)的?)?\W*\Z"
)

_ASKED = re.compile(
    r"(?:(?:so|and|then|also|hey|hi|hello|please|ok|okay)[,\s]+)*"
    r"(?:(?:can|could|would|will) you (?:please |kindly )?(?:tell me|confirm|check|verify|say|explain"
    r"|let me know) (?:if|whether|that)\s"
    r"|(?:please )?(?:tell me|confirm|check|verify) (?:if|whether|that)\s|do you know (?:if|whether)\s"
    r"|i(?:'d like to| want to|'m trying to)? (?:know|wonder|find out) (?:if|whether)\s|is it (?:true|correct"
    r"|right) that\s"
    r"|does (?:that|this|it) mean (?:that )?)",
    re.IGNORECASE,
)
_YES_NO = re.compile(
    rf"(?P<aux>{_AUXILIARY}|isn't|aren't|doesn't|don't|didn't|can't|wasn't|weren't)\s+(?=\w)", re.IGNORECASE
)
_REQUEST = re.compile(r"(?:can|could|would|will) you\b", re.IGNORECASE)
_TAG = re.compile(rf",? (?:right|correct|(?:{_AUXILIARY})(?:n't)? (?:{_PRONOUN}))\Z", re.IGNORECASE)
_OPEN = re.compile(
    r"(?:\S+ )?(?:who|whom|whose|what|when|where|why|how|which)\b|(?:please )?(?:list|describe|explain"
    r"|summari[sz]e|give|write|tell|name)\b",
    re.IGNORECASE,
)
_DETERMINERS = "the a an this that these those my your his her its our their all some any"
_DO = frozenset({"do", "does", "did", "don't", "doesn't", "didn't"})

_OPEN_ZH = re.compile("谁|什么|哪|何|怎|为什么|多少|几[个年月天人次种]|多[大长高远久重]")
_HAN = re.compile("[\u3400-\u9fff]")
_CHOICE_ZH = re.compile("(是|能|可以|可|会|有|需要|要|应该|支持|属于|包括|允许)(?:不|没)\\1")
_WHETHER_ZH = re.compile("是否|有没有|能否|可否|会否")
_WHETHER_BY_FORM = {"是否": "", "有没有": "有", "能否": "能", "可否": "可以", "会否": "会"}
_END_ZH = re.compile(r"(?:[，,]?(?:是吗|对吗|对吧|是吧|是不是|对不对))?[了]?[吗么吧呢]?\Z")
_MARKS_ZH = "?？ \t\n\r\u00a0\u3000"
_START_ZH = re.compile("(?:请问|我想知道|想问一下|请告诉我|那么|那)[，,]?")
_NEGATABLE_ZH = re.compile("是|可以|能够|能|会|需要|应该|支持|属于|包括|允许|适合|含有|具有|有")


def says_yes_or_no(text: str) -> bool | None:
    """Return True for "Yes." and the like, False for "No.", None for everything else."""
    if len(text) > _MAX_ANSWER_CHARACTERS:
        return None
    folded = text.strip().lower().replace("’", "'")
    if _NO.match(folded) or _NO_ZH.match(folded):
        return False
    return True if _YES.match(folded) or _YES_ZH.match(folded) else None


def question_assertions(question: str, contexts: Sequence[str]) -> dict[bool, str]:
    """Return what "Yes." (True) and "No." (False) say in answer to a question; {} if it is no question of yes or no.

    The last sentence with a question mark counts. English: the auxiliary goes behind the subject, whose end is where a
    context has the auxiliary, or guessed (a pronoun, a determiner and a noun, names); "do" is left out. Chinese:
    吗, 是否 and 能不能 are taken out. A claim in place of a question is affirmed or denied as it stands.
    """
    sentences = [sentence.text for sentence in split_sentences(question[-_MAX_QUESTION_CHARACTERS:])]
    asking = [text for text in sentences if text.endswith(("?", "？"))] or sentences
    if not asking:
        return {}
    asked = asking[-1].rstrip("?？!！.。 ")
    if _HAN.search(asked):
        return _chinese(asked)
    introduced = _ASKED.match(asked)
    rest = asked[introduced.end() :] if introduced else asked
    tag = None if introduced else _TAG.search(rest)
    if tag:
        rest = rest[: tag.start()]
    inverted = _YES_NO.match(rest)
    if inverted and not _REQUEST.match(rest):
        words = rest[inverted.end() :].split()
        return _english(words, inverted.group("aux").lower(), contexts)
    if _OPEN.match(rest) or _REQUEST.match(rest) or len(rest.split()) <= 1:
        return {}
    return {True: rest, False: f"it is not true that {rest}"}


def _english(words: Sequence[str], auxiliary: str, contexts: Sequence[str]) -> dict[bool, str]:
    plain = auxiliary.removesuffix("n't")
    plain = {"ca": "can", "wo": "will"}.get(plain, plain)
    subject = _subject_end(words, plain, contexts)
    before, after = " ".join(words[:subject]), " ".join(words[subject:])
    affirmed = f"{before} {after}" if auxiliary in _DO else f"{before} {plain} {after}"
    return {True: affirmed, False: f"{before} {plain} not {after}"}


def _subject_end(words: Sequence[str], auxiliary: str, contexts: Sequence[str]) -> int:
    folded = [f" {normalise(context)} " for context in contexts]
    reach = range(1, min(len(words), _SUBJECT_REACH))
    for end in reach:
        wanted = f" {normalise(' '.join(words[max(0, end - 2) : end]))} {auxiliary} "
        if any(wanted in context for context in folded):
            return end
    if words[0].lower() in _DETERMINERS.split():
        return min(2, len(words))
    end = 1
    while end < len(words) and words[0][:1].isupper() and words[end][:1].isupper():
        end += 1
    return end


def _chinese(asked: str) -> dict[bool, str]:
    start = _START_ZH.match(asked)
    body = asked[start.end() :] if start else asked
    if _OPEN_ZH.search(body):
        return {}
    plain = _CHOICE_ZH.sub(r"\1", _WHETHER_ZH.sub(lambda found: _WHETHER_BY_FORM[found.group()], body))
    plain = plain.rstrip(_MARKS_ZH)
    end = _END_ZH.search(plain)
    plain = plain[: end.start()] if end else plain
    if not plain:
        return {}
    verb = _NEGATABLE_ZH.search(plain)
    if verb is None:
        return {True: plain, False: f"并非{plain}"}
    no = "没" if verb.group() in {"有", "具有", "含有"} else "不"
    return {True: plain, False: f"{plain[: verb.start()]}{no}{plain[verb.start() :]}"}
