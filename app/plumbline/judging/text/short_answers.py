"""Short answers read with their question: "Yes." to "Is Paris the capital of France?" says that it is."""

import re
from collections.abc import Mapping

from plumbline.ground.phrases import Phrases
from plumbline.judging.text.segmentation import split_sentences

# Longer than any "Yes, it does."; a longer question is a task with texts of its own.
_MAX_ANSWER_CHARACTERS = 60
_MAX_QUESTION_CHARACTERS = 400

_PHRASES = Phrases("judging/text/short_answers")
_YES = re.compile(rf"(?:(?:{_PHRASES.pattern('en.yes')}){_PHRASES.pattern('parts.echo', 'en.yes_clause')})\W*\Z")
_NO = re.compile(rf"(?:(?:{_PHRASES.pattern('en.no')}){_PHRASES.pattern('parts.echo', 'en.no_clause')})\W*\Z")
_YES_ZH, _NO_ZH = (
    re.compile(
        rf"(?:{_PHRASES.pattern(f'zh.{one}')}){suffix}(?:[，,。！!\s]+(?:{_PHRASES.pattern(f'zh.{one}_again')})的?)?\W*\Z"
    )
    for one, suffix in (("yes", ""), ("no", "的?"))
)
_ASKED = re.compile(
    rf"(?:(?:{_PHRASES.pattern('en.greetings')})[,\s]+)*(?:{_PHRASES.pattern('en.polite')})", re.IGNORECASE
)
_YES_NO = re.compile(rf"(?:{_PHRASES.pattern('parts.auxiliary', 'en.denied_auxiliary')})\s+(?=\w)", re.IGNORECASE)
_REQUEST = re.compile(r"(?:can|could|would|will) you\b", re.IGNORECASE)
_AUXILIARY, _PRONOUN = _PHRASES.pattern("parts.auxiliary"), _PHRASES.pattern("parts.pronoun")
_TAG = re.compile(rf",? (?:right|correct|(?:{_AUXILIARY})(?:n't)? (?:{_PRONOUN}))\Z", re.IGNORECASE)
_OPEN = re.compile(_PHRASES.pattern("en.open"), re.IGNORECASE)

_OPEN_ZH = re.compile(_PHRASES.pattern("zh.open"))
_HAN = re.compile("[\u3400-\u9fff]")
_CHOICE_ZH = re.compile(rf"({_PHRASES.pattern('zh.choices')})(?:不|没)\1")
_WHETHER_BY_FORM: Mapping[str, str] = _PHRASES.read("zh.whether")
_WHETHER_ZH = re.compile("|".join(_WHETHER_BY_FORM))
_END_ZH = re.compile(r"(?:[，,]?(?:是吗|对吗|对吧|是吧|是不是|对不对))?[了]?[吗么吧呢]?\Z")
_MARKS_ZH = "?？ \t\n\r\u00a0\u3000"
_START_ZH = re.compile(rf"(?:{_PHRASES.pattern('zh.openings')})[，,]?")


def says_yes_or_no(text: str) -> bool | None:
    """Return True for "Yes." and the like, False for "No.", None for everything else."""
    if len(text) > _MAX_ANSWER_CHARACTERS:
        return None
    folded = text.strip().lower().replace("’", "'")
    if _NO.match(folded) or _NO_ZH.match(folded):
        return False
    return True if _YES.match(folded) or _YES_ZH.match(folded) else None


def question_assertions(question: str) -> dict[bool, str]:
    """Return what "Yes." (True) and "No." (False) say in answer to a question; {} if it is no question of yes or no.

    The last sentence with a question mark counts: its words without what asks, in their order, with a negation before
    them for "No.". Tiers without a judge compare words, not their grammar. A claim in place of a question counts too.
    """
    sentences = [sentence.text for sentence in split_sentences(question[-_MAX_QUESTION_CHARACTERS:])]
    asking = [text for text in sentences if text.endswith(("?", "？"))] or sentences
    if not asking:
        return {}
    asked = asking[-1].rstrip("?？!！.。 ")
    said = _chinese(asked) if _HAN.search(asked) else _english(asked)
    return {True: said, False: f"并非{said}" if _HAN.search(asked) else f"it is not {said}"} if said else {}


def _english(asked: str) -> str:
    introduced = _ASKED.match(asked)
    rest = asked[introduced.end() :] if introduced else _TAG.sub("", asked)
    if (inverted := _YES_NO.match(rest)) and not _REQUEST.match(rest):
        return rest[inverted.end() :]
    return "" if _OPEN.match(rest) or _REQUEST.match(rest) or len(rest.split()) <= 1 else rest


def _chinese(asked: str) -> str:
    start = _START_ZH.match(asked)
    body = asked[start.end() :] if start else asked
    if _OPEN_ZH.search(body):
        return ""
    plain = _CHOICE_ZH.sub(r"\1", _WHETHER_ZH.sub(lambda found: _WHETHER_BY_FORM[found.group()], body))
    return _END_ZH.sub("", plain.rstrip(_MARKS_ZH))
