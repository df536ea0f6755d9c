"""Short answers read with their question: "Yes." to "Is Paris the capital of France?" says that it is."""

import re
from collections.abc import Mapping, Sequence

from plumbline.ground.phrases import Phrases
from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.words import normalise

# Longer than any "Yes, it does."; a longer question is a task with texts of its own.
_MAX_ANSWER_CHARACTERS = 60
_MAX_QUESTION_CHARACTERS = 400
# Words of a question among which the auxiliary is put.
_SUBJECT_REACH = 8

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
_YES_NO = re.compile(rf"(?P<aux>{_PHRASES.pattern('parts.auxiliary', 'en.denied_auxiliary')})\s+(?=\w)", re.IGNORECASE)
_REQUEST = re.compile(r"(?:can|could|would|will) you\b", re.IGNORECASE)
_AUXILIARY, _PRONOUN = _PHRASES.pattern("parts.auxiliary"), _PHRASES.pattern("parts.pronoun")
_TAG = re.compile(rf",? (?:right|correct|(?:{_AUXILIARY})(?:n't)? (?:{_PRONOUN}))\Z", re.IGNORECASE)
_OPEN = re.compile(_PHRASES.pattern("en.open"), re.IGNORECASE)
_DETERMINERS = _PHRASES.words("en.determiners")
_DO = frozenset({"do", "does", "did", "don't", "doesn't", "didn't"})

_OPEN_ZH = re.compile(_PHRASES.pattern("zh.open"))
_HAN = re.compile("[\u3400-\u9fff]")
_CHOICE_ZH = re.compile(rf"({_PHRASES.pattern('zh.choices')})(?:不|没)\1")
_WHETHER_BY_FORM: Mapping[str, str] = _PHRASES.read("zh.whether")
_WHETHER_ZH = re.compile("|".join(_WHETHER_BY_FORM))
_END_ZH = re.compile(r"(?:[，,]?(?:是吗|对吗|对吧|是吧|是不是|对不对))?[了]?[吗么吧呢]?\Z")
_MARKS_ZH = "?？ \t\n\r\u00a0\u3000"
_START_ZH = re.compile(rf"(?:{_PHRASES.pattern('zh.openings')})[，,]?")
_NEGATABLE_ZH = re.compile(_PHRASES.pattern("zh.negatable"))


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
    if words[0].lower() in _DETERMINERS:
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
