"""Claims made from supported ones: edits that break a claim in one place, and rewordings that do not.

Each edit takes a claim and what its document holds, and returns a text and the words of it that are wrong now, or None
where it does not apply. Nothing here comes from a data set: the lists of words are written for it.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

Edit = Callable[["Claim", random.Random], str | None]

_NAME = re.compile(
    r"\b(?!(?:The|A|An|In|On|At|It|He|She|They|This|That|These|His|Her|Its|But|And|For|As|When|After|If)\b)"
    r"[A-Z][\w'’-]+(?:\s(?:of|de|van|the|al)?\s?[A-Z][\w'’-]+)*"
)
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w])")
_WORD = re.compile(r"[A-Za-z][a-z'’-]{3,}")
_AUXILIARY = re.compile(
    r"\b(is|are|was|were|has|have|had|can|could|will|would|should|may|might|does|did|do)\b(?! not\b)(?!n['’]t)", re.I
)
_NEGATION = re.compile(
    r"\b(is|are|was|were|has|have|had|can|could|will|would|should|may|might|does|did|do) not\b"
    r"|\b(is|are|was|were|has|have|had|could|would|should|does|did|do)n['’]t\b",
    re.IGNORECASE,
)

# Two words that cannot stand for each other; each is read both ways.
_OPPOSITES: Final = """
before after|first last|increase decrease|increased decreased|increases decreases|increasing decreasing
rise fall|rose fell|rising falling|more less|more fewer|higher lower|highest lowest|high low|larger smaller
largest smallest|large small|best worst|better worse|early late|earlier later|above below|over under
north south|northern southern|east west|eastern western|left right|win lose|won lost|wins loses|victory defeat
gain loss|gained lost|accept reject|accepted rejected|approve reject|approved rejected|allow forbid
allowed banned|begin end|began ended|begins ends|start stop|started stopped|open close|opened closed
male female|man woman|men women|boy girl|brother sister|father mother|son daughter|husband wife|king queen
uncle aunt|he she|his her|him her|old young|older younger|oldest youngest|new old|near far|inside outside
public private|positive negative|success failure|successful unsuccessful|legal illegal|possible impossible
likely unlikely|agree disagree|agreed refused|love hate|loved hated|like dislike|strong weak|stronger weaker
rich poor|hot cold|warm cool|dry wet|day night|morning evening|summer winter|spring autumn|buy sell
bought sold|import export|imports exports|import exports|arrive leave|arrived left|join leave|joined left
teacher student|doctor patient|employer employee|buyer seller|parent child|husband brother|born died
birth death|marry divorce|married divorced|alive dead|guilty innocent|support oppose|supported opposed
include exclude|includes excludes|cause prevent|causes prevents|caused prevented|strengthen weaken
improve worsen|improved worsened|expand shrink|attack defend|majority minority|maximum minimum|always never
often rarely|usually seldom|everyone nobody|everything nothing|all none|both neither|many few|most few
million billion|thousand million|percent times|hour day|hours days|days weeks|weeks months|months years
years decades|minutes hours|metres kilometres|miles kilometres|feet inches|pounds dollars|dollars euros
january june|february july|march august|april september|may october|june november|july december
monday thursday|tuesday friday|wednesday saturday|sunday monday|president minister|novel film|album song
actor director|singer writer|river lake|city country|town region|war election|television radio|red blue
black white|green yellow|single double|primary secondary|major minor|upper lower|internal external
direct indirect|one two|two three|three four|four five|five six|six seven|seven eight|eight nine|nine ten
first second|second third|third fourth|europe asia|africa america|european asian|british american
french german|english spanish|chinese japanese|russian italian
""".replace("\n", "|")
_OVERSTATED: Final = {
    "some": "all",
    "many": "all",
    "most": "all",
    "several": "all",
    "often": "always",
    "usually": "always",
    "sometimes": "always",
    "generally": "always",
    "mainly": "only",
    "mostly": "only",
    "partly": "entirely",
    "may": "will",
    "might": "will",
    "could": "will",
    "can": "must",
    "almost": "exactly",
    "nearly": "exactly",
    "about": "exactly",
    "around": "exactly",
    "suggests": "proves",
    "suggest": "prove",
    "suggested": "proved",
    "likely": "certain",
    "possible": "certain",
    "probably": "certainly",
    "believed": "known",
    "alleged": "proven",
    "reportedly": "certainly",
    "allegedly": "certainly",
    "expected": "certain",
    "plans": "has begun",
    "planned": "completed",
    "proposed": "adopted",
    "linked": "due",
    "associated": "caused",
    "at least": "exactly",
    "up to": "more than",
    "should": "must",
    "one of the": "the",
    "among the": "the",
    "considered": "proven to be",
    "hopes": "promises",
    "wants": "is going",
    "trying": "able",
}
_CAUSES: Final = (
    " because of {}",
    " thanks to {}",
    " in response to {}",
    " despite {}",
    " as a result of {}",
    " together with {}",
    " on behalf of {}",
    " near {}",
)
_ADDED: Final = (
    " for the first time",
    " in record time",
    " according to experts",
    " with great success",
    " every year",
    " for the third time",
    " without any warning",
    " by a wide margin",
    ", which is unique in the world",
    " and won several awards",
    " since childhood",
    " despite strong criticism",
    " at the age of 25",
    " in front of thousands of people",
    " for medical reasons",
    " by mistake",
)
_SAYERS: Final = (
    "Experts say that ",
    "According to the police, ",
    "The company announced that ",
    "Critics doubt that ",
    "Scientists found that ",
    "The government denies that ",
    "It is rumoured that ",
)
_SYNONYMS: Final = """
big large|begin start|began started|begins starts|also too|however but|buy purchase|bought purchased
help assist|helped assisted|show demonstrate|shows demonstrates|showed demonstrated|use employ|used employed
near close to|about approximately|around about|because since|children kids|film movie|movie film|said stated
says states|told informed|while whereas|many numerous|several a number of|often frequently|usually normally
quickly fast|world globe|country nation|job position|car vehicle|doctor physician|important significant
main principal|famous well-known|happy glad|whole entire|get obtain|gets obtains|got obtained|need require
needs requires|needed required|keep retain|give provide|gives provides|gave provided|made created|make create
makes creates|live reside|lives resides|lived resided|die pass away|died passed away|end finish|ended finished
try attempt|tried attempted|city town|street road|kill slay|killed slain|injured hurt|injury wound
attack assault|house home|money funds|student pupil|students pupils|allow permit|allows permits
allowed permitted|choose select|chose selected|build construct|built constructed|think believe|thinks believes
thought believed
""".replace("\n", "|")
_NUMERALS: Final = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_LONG_FORMS: Final = {
    "isn't": "is not",
    "aren't": "are not",
    "wasn't": "was not",
    "weren't": "were not",
    "don't": "do not",
    "doesn't": "does not",
    "didn't": "did not",
    "can't": "cannot",
    "won't": "will not",
    "it's": "it is",
    "he's": "he is",
    "she's": "she is",
}


def _pairs(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in filter(None, text.split("|")):
        left, _, right = pair.strip().partition(" ")
        found.setdefault(left, []).append(right)
    return found


_OPPOSITE: Final = _pairs(_OPPOSITES)
for _left, _rights in list(_OPPOSITE.items()):
    for _right in _rights:
        _OPPOSITE.setdefault(_right, []).append(_left)
_SYNONYM: Final = _pairs(_SYNONYMS)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that its document supports.

    `near`: the sentences of the document that hold it; `document`: all of them; `others`: claims about other documents;
    `alike`: for a word, words that are used as it is (nearest in a model's table of words).
    """

    text: str
    near: Sequence[str]
    document: Sequence[str]
    others: Sequence[str]
    alike: Callable[[str], Sequence[str]]


def _put(text: str, start: int, end: int, by: str) -> str:
    if text[start : start + 1].isupper() and by[:1].islower():
        by = by[0].upper() + by[1:]
    return text[:start] + by + text[end:]


def swap_name(claim: Claim, draw: random.Random) -> str | None:
    """Put another name of the document in a name's place."""
    names = list(_NAME.finditer(claim.text))
    there = sorted({found.group() for text in claim.document for found in _NAME.finditer(text)})
    there = [name for name in there if name.casefold() not in claim.text.casefold()]
    if not names or not there:
        return None
    at = draw.choice(names)
    there = [name for name in there if at.group().casefold() not in name.casefold()]
    return _put(claim.text, at.start(), at.end(), draw.choice(there)) if there else None


def swap_roles(claim: Claim, draw: random.Random) -> str | None:
    """Exchange two names of the claim."""
    names = list(_NAME.finditer(claim.text))
    if len(names) < 2:
        return None
    first, second = sorted(draw.sample(names, 2), key=lambda found: found.start())
    between = claim.text[first.end() : second.start()]
    if first.group() == second.group() or re.fullmatch(r"[\s,]*(and|or|,|&)?\s*", between):
        return None
    return claim.text[: first.start()] + second.group() + between + first.group() + claim.text[second.end() :]


def change_number(claim: Claim, draw: random.Random) -> str | None:
    """Put another number of the document, or a near one, in a number's place."""
    numbers = list(_NUMBER.finditer(claim.text))
    if not numbers:
        return None
    at = draw.choice(numbers)
    there = sorted(
        {found.group() for text in claim.document for found in _NUMBER.finditer(text)}
        - {each.group() for each in numbers}
    )
    if there and draw.random() < 0.5:
        return _put(claim.text, at.start(), at.end(), draw.choice(there))
    digits = [index for index in range(at.start(), at.end()) if claim.text[index].isdigit()]
    index = draw.choice(digits)
    choice = [digit for digit in "123456789" if digit != claim.text[index]]
    found = claim.text[:index] + draw.choice(choice) + claim.text[index + 1 :]
    changed = found[at.start() : at.end()]
    return None if any(changed in text for text in claim.document) else found


def negate(claim: Claim, draw: random.Random) -> str | None:
    """Put a negation in, or take one out."""
    if found := _NEGATION.search(claim.text):
        verb = found.group(1) or found.group(2)
        return claim.text[: found.start()] + verb + claim.text[found.end() :]
    verbs = list(_AUXILIARY.finditer(claim.text))
    if not verbs:
        return None
    at = draw.choice(verbs)
    return claim.text[: at.end()] + draw.choice((" not", " never")) + claim.text[at.end() :]


def turn_round(claim: Claim, draw: random.Random) -> str | None:
    """Replace a word by its opposite."""
    return _replace(claim.text, _OPPOSITE, draw)


def overstate(claim: Claim, draw: random.Random) -> str | None:
    """Drop a hedge, or widen a quantity."""
    return _replace(claim.text, {key: [value] for key, value in _OVERSTATED.items()}, draw)


def swap_word(claim: Claim, draw: random.Random) -> str | None:
    """Put another word of the same ending from the document in a word's place."""
    words = [found for found in _WORD.finditer(claim.text) if found.start()]
    if not words:
        return None
    at = draw.choice(words)
    ending = at.group()[-2:]
    there = sorted(
        {
            found.group()
            for text in claim.document
            for found in _WORD.finditer(text)
            if found.group()[-2:] == ending
            and found.group()[:3].casefold() != at.group()[:3].casefold()
            and found.group()[0].islower()
        }
    )
    there = [word for word in there if word not in claim.text]
    return _put(claim.text, at.start(), at.end(), draw.choice(there)) if there else None


def swap_alike(claim: Claim, draw: random.Random) -> str | None:
    """Put a word that is used like it, and that the document lacks, in a word's place."""
    words = list(_WORD.finditer(claim.text))
    draw.shuffle(words)
    held = " ".join(claim.document).casefold()
    for at in words[:4]:
        there = [
            word
            for word in claim.alike(at.group().casefold())
            if word not in held and word[:4] != at.group()[:4].casefold()
        ]
        if there:
            return _put(claim.text, at.start(), at.end(), draw.choice(there[:8]))
    return None


def invent_cause(claim: Claim, draw: random.Random) -> str | None:
    """Add a circumstance with a name of the document."""
    there = sorted({found.group() for text in claim.document for found in _NAME.finditer(text)})
    there = [name for name in there if name not in claim.text]
    if not there:
        return None
    end = claim.text.rstrip(" .!")
    return end + draw.choice(_CAUSES).format(draw.choice(there)) + claim.text[len(end) :]


def add_detail(claim: Claim, draw: random.Random) -> str | None:
    """Add a detail that no document has, or another source."""
    if draw.random() < 0.3:
        return draw.choice(_SAYERS) + claim.text[:1].lower() + claim.text[1:]
    end = claim.text.rstrip(" .!")
    return end + draw.choice(_ADDED) + claim.text[len(end) :]


def splice(claim: Claim, draw: random.Random) -> str | None:
    """Join the beginning of the claim with the end of another sentence of the document, at a verb."""
    verb = re.compile(r"\s(is|are|was|were|has|had|have|said|says|will|would|can)\s")
    mine = verb.search(claim.text)
    theirs = [
        (text, found)
        for text in claim.document
        if text not in claim.near[:1] and 30 < len(text) < 260 and (found := verb.search(text))
    ]
    if not mine or not theirs or mine.start() < 3:
        return None
    text, found = draw.choice(theirs)
    if claim.text[: mine.start()].split()[-1].casefold() in text[: found.start()].casefold():
        return None
    return claim.text[: mine.start()] + text[found.start() :]


def other_subject(claim: Claim, draw: random.Random) -> str | None:
    """Take a claim about another document."""
    return draw.choice(claim.others) if claim.others else None


def elsewhere(claim: Claim, draw: random.Random) -> str | None:
    """Join the claim with one about another document."""
    if not claim.others:
        return None
    other = draw.choice(claim.others)
    return f"{claim.text.rstrip(' .')}, and {other[:1].lower()}{other[1:]}" if len(other) < 160 else None


def keep(claim: Claim, draw: random.Random) -> str | None:
    """Leave the claim as it is."""
    return claim.text


def copy(claim: Claim, draw: random.Random) -> str | None:
    """Take a sentence of the document."""
    there = [text for text in claim.document if 25 < len(text) < 300]
    return draw.choice(there) if there else None


def shorten(claim: Claim, draw: random.Random) -> str | None:
    """Leave out what stands in brackets, or the last clause of a sentence of the document or of the claim."""
    text = claim.text if draw.random() < 0.5 else (copy(claim, draw) or claim.text)
    if "(" in text:
        return re.sub(r"\s*\([^()]*\)", "", text)
    cut = re.split(r",\s(?=(?:and|but|which|who|where|while|although|with|including|as)\b)", text)
    return cut[0].rstrip(" ,.") + "." if len(cut) > 1 and len(cut[0]) > 25 else None


def join(claim: Claim, draw: random.Random) -> str | None:
    """Join the claim, or a sentence of the document, with another sentence of the document."""
    there = [text for text in claim.document if 25 < len(text) < 160]
    if len(there) < 2:
        return None
    first, second = draw.sample(there, 2)
    if draw.random() < 0.5:
        first = claim.text
    start = second if re.match(r"[A-Z]{2}|[A-Z]\w+\s[A-Z]", second) else second[:1].lower() + second[1:]
    return f"{first.rstrip(' .')}{draw.choice((', and ', '; ', ' and '))}{start}"


def reword(claim: Claim, draw: random.Random) -> str | None:
    """Replace words by synonyms."""
    text = _replace(claim.text, _SYNONYM, draw)
    if text and draw.random() < 0.5:
        text = _replace(text, _SYNONYM, draw) or text
    return text


def respell(claim: Claim, draw: random.Random) -> str | None:
    """Write numbers as words or words as numbers, long forms for short ones, or change capitals and ends."""
    text = claim.text
    for index, word in enumerate(_NUMERALS):
        text = (
            re.sub(rf"(?<![\w.,]){index}(?![\w.,%])", word, text)
            if draw.random() < 0.5
            else re.sub(rf"\b{word}\b", str(index), text)
        )
    for short, long in _LONG_FORMS.items():
        text = re.sub(rf"\b{short}\b", long, text)
    if draw.random() < 0.3:
        text = text.lower()
    if draw.random() < 0.4:
        text = re.sub(r"\s*[.!]\s*$", "", text)
    if draw.random() < 0.2:
        text = "- " + text
    return text if text != claim.text else None


def attribute(claim: Claim, draw: random.Random) -> str | None:
    """Say where it stands."""
    opening = (
        "According to the text, ",
        "The passage says that ",
        "Based on the document, ",
        "The article states that ",
        "Yes, ",
        "In short, ",
    )
    return draw.choice(opening) + claim.text[:1].lower() + claim.text[1:]


def _replace(text: str, table: dict[str, list[str]], draw: random.Random) -> str | None:
    found = [
        (at.start(), at.end(), by)
        for at in re.finditer(r"\b(?:at least|up to|one of the|among the|[A-Za-z]+)\b", text)
        for by in table.get(at.group().casefold(), ())
    ]
    if not found:
        return None
    start, end, by = draw.choice(found)
    return _put(text, start, end, by)


BREAKING: Final[dict[str, Edit]] = {
    edit.__name__: edit
    for edit in (
        swap_name,
        swap_roles,
        change_number,
        negate,
        turn_round,
        overstate,
        swap_word,
        swap_alike,
        invent_cause,
        add_detail,
        splice,
        other_subject,
        elsewhere,
    )
}
KEEPING: Final[dict[str, Edit]] = {
    edit.__name__: edit for edit in (keep, copy, shorten, join, reword, respell, attribute)
}
