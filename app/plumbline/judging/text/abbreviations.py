"""Whether a full stop after a word shortens the word or ends the sentence."""

import re


def _words(joined: str) -> frozenset[str]:
    return frozenset(joined.split())


_NUMBERED = _words(
    "no nos nr fig figs eq eqs vol vols ch chap sec sect art arts p pp para op tab suppl ver bk pt b c d m"
)
_PREFIXES = _words(
    "dr mr mrs ms mx prof st mt ft gen rep reps sen sens gov lt col sgt cpl capt cmdr maj adm brig rev hon pres "
    "supt det pvt messrs mme mlle vs v et viz cf e.g i.e eg ie ca approx incl excl esp resp"
)
_CALENDAR = _words("jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun")
_CLOCK = frozenset({"a.m", "p.m", "am", "pm"})
_COMPANIES_AND_RANKS = _words("inc ltd co corp llc plc bros jr sr esq al dept univ ave blvd rd est govt assn")
# After these a lower-case word goes on; a capital starts anew.
_SHORTENED = _words(
    "etc min max avg temp vol sq oz in lb lbs hr hrs sec secs tbsp tsp ed eds trans ext tel misc cont ibid"
)
_STARTERS = _words(
    "the a an this that these those he she it they we i you his her its their our my your there here who what when "
    "where why how which while if in on at by for from with without after before during since until under over "
    "between among although though because as so but and or nor yet however therefore moreover furthermore "
    "meanwhile instead also then thus hence still despite both each every all some many most several few no not "
    "one two three another other such according to is are was were do does did can could will would should may "
    "might once later today now finally first second next please see unlike like even only just"
)
_NUMBER = re.compile(r"[#(]?[A-Z]?\d|[IVXLC]+\b|of\b")
_INITIALS = re.compile(r"[^\W\d_]{1,2}(?:\.[^\W\d_]{1,2})+|[A-Z]")
_WORD = re.compile(r"[^\W\d_]+")
_AFTER_CLOCK = re.compile(
    r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|January|February|March|April|May|June|July|August"
    r"|September|October|November|December|[A-Z]{2,4}\b"
)
_VOWELS = frozenset("aeiouyàáâäæèéêëìíîïòóôöøùúûü")


def shortens(word: str, following: str, *, is_cased: bool) -> bool:
    """Whether the full stop between `word` and `following` leaves the sentence open.

    Args:
        word: the last word before the stop, without it: "Dr", "e.g", "U.S".
        following: what comes after the white space, opening quotes and brackets left out; a short excerpt is enough.
        is_cased: whether the text has capitals at all; without them a small letter tells nothing.

    Words that may also end a sentence ("Inc.", "U.S.", an initial) end it only before a word that commonly starts
    one ("The", "He"): joining two sentences costs less than cutting a name in two.
    """
    key = word.lower()
    if key in _NUMBERED and _NUMBER.match(following):
        return True
    if key in _PREFIXES:
        return True
    if key in _CALENDAR:
        return _calendar_goes_on(word, following, is_cased=is_cased)
    if key in _CLOCK:
        return _clock_goes_on(following, is_cased=is_cased)
    if is_cased and following[:1].islower() and (key in _SHORTENED or _VOWELS.isdisjoint(key)):
        return True
    return _may_end(word, is_cased=is_cased) and not starts_sentence(following, is_cased=is_cased)


def starts_sentence(following: str, *, is_cased: bool) -> bool:
    """Whether `following` begins with a word that commonly starts a sentence: an article, pronoun, conjunction."""
    match = _WORD.match(following)
    if match is None or match.group().lower() not in _STARTERS or following[match.end() : match.end() + 1] == ".":
        return False
    return not is_cased or following[0].isupper()


def _may_end(word: str, *, is_cased: bool) -> bool:
    if len(word) == 1 and word.islower():
        return not is_cased
    return word.lower() in _COMPANIES_AND_RANKS or _INITIALS.fullmatch(word) is not None


def _calendar_goes_on(word: str, following: str, *, is_cased: bool) -> bool:
    if following[:1].isdigit():
        return True
    # Without capitals "sun." and "sat." are words like any other.
    return is_cased and word[0].isupper() and not starts_sentence(following, is_cased=is_cased)


def _clock_goes_on(following: str, *, is_cased: bool) -> bool:
    if starts_sentence(following, is_cased=is_cased):
        return False
    return not following[:1].isupper() or _AFTER_CLOCK.match(following) is not None
