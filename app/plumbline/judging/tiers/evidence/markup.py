"""A text as a reader of the page sees it: without markdown, HTML and citation marks."""

import html
import re

from plumbline.judging.tiers.evidence.folding import View, without

# Every pattern is bounded or possessive: the text comes from strangers.
_MARKUP = re.compile(
    r"(?P<comment><!--(?:[^<>]++|(?!<!--)<)*+>(?<=-->))"
    r"|(?P<tag></?[A-Za-z][A-Za-z0-9]{0,15}(?:\s[^<>]{0,500})?/?>)"
    r"|(?P<entity>&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,24});)"
    r"|(?P<image>!\[(?=[^\[\]\n]{0,300}\]\())"
    r"|(?P<link>\[(?=[^\[\]\n]{1,300}\]\())"
    r"|(?P<target>\]\([^()\s]{0,1000}(?:\([^()\s]{0,200}\)[^()\s]{0,200})?(?:\s\"[^\"\n]{0,200}\")?\))"
    r"|(?P<citation>\[\d{1,3}(?:\s?[,–-]\s?\d{1,3}){0,8}\]|【\d{1,3}[^】\n]{0,40}】)"
    r"|(?P<rule>^[ \t]{0,3}\|?[ \t]{0,3}:?-{2,}+:?[ \t]{0,3}(?:\|[ \t]{0,3}:?-{2,}+:?[ \t]{0,3}){0,60}\|?[ \t]{0,3}$)"
    r"|(?P<line>^[ \t]{0,12}(?:>[ \t]?){0,6}(?:\#{1,6}[ \t]+|[-*+•·‣][ \t]+|\(?\d{1,2}[.)][ \t]+|>[ \t]?))"
    r"|(?P<pipe>\|)"
    r"|(?P<escape>\\(?=[!-/:-@\[-`{-~]))"
    r"|(?P<code>`+)"
    r"|(?P<stars>\*{2,3}|(?<![\s\d])\*|\*(?![\s\d])|~~)"
    r"|(?P<bars>(?<![^\W_])_{1,3}(?=[^\W_])|(?<=[^\s_])_{1,3}(?![^\W_]))",
    re.MULTILINE,
)
# Tags in mid-word vanish; the others stand between words.
_INLINE_TAG_NAMES = "a abbr b bdi bdo code em font i kbd mark q s small span strong sub sup tt u var wbr"
_INLINE_TAGS = frozenset(_INLINE_TAG_NAMES.split())
_TAG_NAME = re.compile(r"</?([A-Za-z][A-Za-z0-9]*)")
_BLANKS = frozenset({"comment", "rule", "pipe"})


def strip_markup(view: View) -> View:
    """The view without markup, the same one when it has none. Linear in its length.

    Gone are emphasis, headings, list marks, block quotes, inline code marks, the targets of links, table pipes and
    alignment rows, HTML tags and citation marks such as [1]; entities become their characters.
    """
    cuts = [
        (match.start(), match.end(), _replacement(str(match.lastgroup), match.group()))
        for match in _MARKUP.finditer(view.text)
    ]
    return without(view, cuts) if cuts else view


def _replacement(kind: str, markup: str) -> str:
    if kind == "entity":
        return html.unescape(markup)
    if kind == "tag":
        name = _TAG_NAME.match(markup)
        return "" if name and name[1].casefold() in _INLINE_TAGS else " "
    return " " if kind in _BLANKS else ""
