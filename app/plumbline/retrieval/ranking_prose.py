"""Candidate ids in prose, and whether the prose ranks them."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from plumbline.retrieval.ranking_values import Reading, by_value, excludes, flat

# Scripts written without spaces: an id may stand right next to their letters.
_UNSPACED: Final = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\u0e00-\u0eff\uff00-\uffef"
_WORD: Final = rf"(?:[^\W{_UNSPACED}]|-)"
_ATOM: Final = re.compile(rf"{_WORD}++|\S")
# What makes the text after or before a match part of the same id.
_GLUED_AFTER: Final = re.compile(rf"{_WORD}|[.#/@]{_WORD}|::")
_GLUED_BEFORE: Final = re.compile(rf"{_WORD}[.#/@]\Z|::\Z|(?:^|.){_WORD}\Z", re.DOTALL)
_DIGITS: Final = re.compile("[0-9]+")
# Longer candidates are found as whole lines only; a limit keeps the search linear in the text.
_MAX_ATOMS: Final = 32
_END: Final = ""


class CandidateTokens:
    """Candidate ids, found as whole tokens in one pass: `doc_1`, but not in `doc_10` or `doc_1.pdf`."""

    def __init__(self, candidates: Sequence[str]) -> None:
        self._candidates = candidates
        self._root: dict[str, Any] = {}
        self._shapes: set[str] = set()

    def _build(self) -> None:
        for doc_id in self._candidates:
            atoms = _ATOM.findall(doc_id)
            if not 0 < len(atoms) <= _MAX_ATOMS:
                continue
            node = self._root
            for atom in atoms:
                node = node.setdefault(atom, {})
            node[_END] = doc_id
            if len(atoms) == 1 and (shape := _shape(doc_id)) not in (doc_id, "0"):
                self._shapes.add(shape)

    def scan(self, text: str, *, with_alike: bool = False) -> Iterator[str]:
        """Yield candidates in order of appearance; with tokens of a candidate's shape, `doc_99` next to `doc_1`."""
        if not self._root:
            # of a reply in JSON none is looked for
            self._build()
        spans = [match.span() for match in _ATOM.finditer(text)]
        index = 0
        while index < len(spans):
            start, end = spans[index]
            doc_id, taken = self._longest(text, spans, index) if text[start:end] in self._root else (None, 0)
            if doc_id is not None:
                yield doc_id
            elif with_alike and self._is_alike(text, start, end):
                yield text[start:end]
            index += max(taken, 1)

    def _longest(self, text: str, spans: list[tuple[int, int]], index: int) -> tuple[str | None, int]:
        """Return the longest candidate that starts at an atom, and its number of atoms."""
        node: dict[str, Any] = self._root
        found: tuple[str | None, int] = (None, 0)
        start = spans[index][0]
        for depth in range(min(_MAX_ATOMS, len(spans) - index)):
            atom_start, end = spans[index + depth]
            child = node.get(text[atom_start:end])
            if child is None:
                break
            node = child
            doc_id = node.get(_END)
            if doc_id is not None and text.startswith(doc_id.strip(), start) and _is_whole(text, start, end):
                found = (doc_id, depth + 1)
        return found

    def _is_alike(self, text: str, start: int, end: int) -> bool:
        token = text[start:end]
        # every shape has a digit
        return not token.isalpha() and _shape(token) in self._shapes and _is_whole(text, start, end)


def _is_whole(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - 2) : start]
    return _GLUED_AFTER.match(text, end) is None and _GLUED_BEFORE.search(before) is None


def _shape(token: str) -> str:
    return _DIGITS.sub("0", token)


# Of text in lower case.
NAMED_VALUE: Final = re.compile(
    r"(rank|position|score|relevance|similarity|confidence|rating|排名|名次|得分|分数|评分|打分|相关度|相似度|置信度)"
    r"[\s:：=\"为是]{1,4}([0-9]{1,9}(?:\.[0-9]{1,9})?)"
)
_CUES: Final = re.compile(
    r"best|most|first|then|next|follow|second|better|top|rank|order|highest|prefer|relevan|"
    r"最|其次|然后|接着|再次|再者|优于|好于|首|第[一二三123]|相关|推荐|排|再是"
)
_REVERSALS: Final = re.compile(
    r"\b(?:worse|worst|less|least|lower|lowest|last|below|after|behind|not|no|neither|nor|none|without|except|unlike|"
    r"sorry|cannot|unable|equal|same|tied?|both)\b|n't|n’t|[不无非没]|差|次于|逊|低|弱|除|末|倒|抱歉|同等|并列|一样|之后"
)
_TURNS: Final = re.compile(r"\b(?:but|however|although|though|while)\b|[但而]")
_SENTENCE_END: Final = re.compile(r"[。！？；!?;\n]|\.(?=\s|\Z)")


def mentioned(text: str, tokens: CandidateTokens) -> Iterator[Reading]:
    """Yield the candidates of prose in order, where it ranks them; with another reading where it turns or repeats."""
    kept: list[str] = []
    excluded: list[str] = []
    is_doubtful = False
    for sentence in _SENTENCE_END.split(text):
        found = list(tokens.scan(sentence, with_alike=True))
        folded = sentence.casefold()
        if len(found) == 1 and excludes(folded):
            excluded += found
        elif found:
            kept += found
            is_doubtful = is_doubtful or _REVERSALS.search(folded) is not None or excludes(folded)
    if excluded:
        yield Reading([[item] for item in excluded], "excluded")
    values = list(NAMED_VALUE.finditer(text.lower()))
    if len(values) > 1:
        named = by_value([(str(at), float(each[2])) for at, each in enumerate(values)], label="", name=values[0][1])
        is_doubtful = is_doubtful or flat(named.blocks) != [str(at) for at in range(len(values))]
    once = list(dict.fromkeys(kept))
    folded = text.casefold()
    is_bare = sum(map(str.isalnum, text)) == sum(sum(map(str.isalnum, item)) for item in kept)
    if len(once) > 1 and not is_bare:
        is_doubtful = is_doubtful or _TURNS.search(folded) is not None or not _CUES.search(folded)
    if once:
        turned = [[item] for item in reversed(once)] if len(once) > 1 else []
        yield Reading([[item] for item in once], "", other=turned if is_doubtful or len(once) < len(kept) else None)
