"""Words of an answer in the words of the contexts, where a table has the two as synonyms: "bought" for "purchased"."""

import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.resources import files

_DATA = tomllib.loads(files("plumbline.judging.text").joinpath("synonyms.toml").read_text(encoding="utf-8"))


def _inflected(form: str) -> Iterator[str]:
    """Yield a form as it is and with each regular ending that its first word may have."""
    word, blank, rest = form.partition(" ")
    bare, stem = word.removesuffix("e"), word.removesuffix("y")
    ends = ("ies", "ied") if stem != word else ()
    for each in (word, f"{word}s", f"{word}es", f"{bare}ed", f"{bare}ing", *(stem + end for end in ends)):
        yield each + blank + rest


_GROUPS = [[each for form in line.split(", ") for each in _inflected(form)] for line in _DATA["groups"].splitlines()]
_GROUP_BY_FORM = {form: group for group in _GROUPS for form in group}
# By each of their words: a phrase is put otherwise where the contexts lack one of them.
_PHRASES_BY_WORD: dict[str, list[str]] = defaultdict(list)
for _form in _GROUP_BY_FORM:
    for _word in _form.split() if " " in _form else ():
        _PHRASES_BY_WORD[_word].append(_form)


class KnownWords:
    """Words of the contexts' passages, of each and of all (`vocabulary`)."""

    def __init__(self, passages: Sequence[Sequence[str]], vocabulary: frozenset[str]) -> None:
        self._passages = passages
        self._vocabulary = vocabulary
        # By the first form of a group, for all sentences of an answer.
        self._known: dict[str, str | None] = {}

    def reword(self, words: Sequence[str]) -> Sequence[str]:
        """Return words with those that no passage has in the form of a synonym that one has."""
        unknown = [word for word in words if word not in self._vocabulary]
        phrases = {phrase for word in unknown for phrase in _PHRASES_BY_WORD.get(word, ())}
        forms = [*sorted(phrases, key=len, reverse=True), *(word for word in unknown if word in _GROUP_BY_FORM)]
        if not forms:
            return words
        said = f" {' '.join(words)} "
        for form in forms:
            if f" {form} " in said and (known := self._find_synonym(form)):
                said = said.replace(f" {form} ", f" {known} ")
        return said.split()

    def _find_synonym(self, form: str) -> str | None:
        group = _GROUP_BY_FORM[form]
        if group[0] not in self._known:
            found = (each for each in group if self._vocabulary.issuperset(each.split()))
            self._known[group[0]] = next((each for each in found if " " not in each or f" {each} " in self._text), None)
        return self._known[group[0]]

    @cached_property
    def _text(self) -> str:
        return "\n".join(f" {' '.join(words)} " for words in self._passages)
