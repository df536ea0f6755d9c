"""Claims for training, each with the windows that it is read with: people's labels, and edits of supported claims."""

import difflib
import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from training.edits import BREAKING, KEEPING, Claim
from training.material import Row, rows_of_claims
from training.vectors import VectorStore

# Sets whose licence allows training (their documents are in no release); the others are for measurement alone.
TRAINABLE = frozenset(
    {
        "attributedqa",
        "begin_long",
        "begin_wow",
        "cogensumm",
        "dialfact",
        "expertqa",
        "factcc",
        "factcheckgpt",
        "faithdial_audit",
        "frank_cnndm",
        "frank_xsum",
        "gensearch",
        "hagrid",
        "q2",
        "ragtruth_summ",
        "rank19",
        "summedits",
        "summeval",
        "wice",
        "xsumfaith",
    }
)
_SHORTEST, _LONGEST = 15, 400
_BROKEN_OF_CLAIM, _KEPT_OF_CLAIM = 5, 2
_BROKEN_OF_SENTENCE, _KEPT_OF_SENTENCE = 3, 2
_SENTENCES_OF_DOCUMENT = 3
_OTHERS = 6
_WINDOWS_TO_EDIT_FROM = 5


@dataclass(frozen=True, slots=True)
class EditedClaim:
    """A claim made by an edit; `is_broken`: no longer supported; `original` tells which of its tokens are wrong."""

    row: Row
    original: str
    text: str
    edit: str
    is_broken: bool


def edit_claims(rows: Sequence[Row], alike: Callable[[str], Sequence[str]], seed: int) -> list[EditedClaim]:
    """Edit the sentences of faithful answers, and a few of each document, of the sets that may be trained on."""
    draw = random.Random(seed)
    rows = [row for row in rows if row.dataset in TRAINABLE]
    claims = [
        (row, text) for row in rows if row.label == 1 for text in row.sentences if _SHORTEST < len(text) < _LONGEST
    ]
    by_document: dict[str, list[Row]] = defaultdict(list)
    by_dataset: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for row in rows:
        by_document[row.doc].append(row)
    for row, text in claims:
        by_dataset[row.dataset].append((row.doc, text))
    made: list[EditedClaim] = []
    for row, text in claims:
        made.append(EditedClaim(row, text, text, "keep", is_broken=False))
        others = draw.sample(by_dataset[row.dataset], min(_OTHERS, len(by_dataset[row.dataset])))
        found = [other for document, other in others if document != row.doc]
        made += _edited(row, text, found, alike, draw, broken=_BROKEN_OF_CLAIM, kept=_KEPT_OF_CLAIM)
    for same in by_document.values():
        row = draw.choice(same)
        windows = [text for text in row.passages.windows if _SHORTEST < len(text) < _LONGEST]
        for text in draw.sample(windows, min(_SENTENCES_OF_DOCUMENT, len(windows))):
            made += _edited(row, text, [], alike, draw, broken=_BROKEN_OF_SENTENCE, kept=_KEPT_OF_SENTENCE)
    return made


def rows_of_edited(edited: Sequence[EditedClaim]) -> list[Row]:
    """Return a row for each edited claim, in their order; the edits of a set are a set of their own."""
    by_row: dict[str, list[int]] = defaultdict(list)
    for place, made in enumerate(edited):
        by_row[made.row.id].append(place)
    found: dict[int, Row] = {}
    for places in by_row.values():
        some = [edited[place] for place in places]
        row = some[0].row
        labels = [int(not made.is_broken) for made in some]
        rows = rows_of_claims(row, [made.text for made in some], labels, f"{row.dataset} edited")
        found.update(zip(places, rows, strict=True))
    return [found[place] for place in range(len(edited))]


def wrong_tokens(edited: EditedClaim, store: VectorStore) -> list[int]:
    """Return 1 for each token of the claim that the edit put there, or beside which it took some away; else 0."""
    before, after = store.tokens_of(edited.original).tolist(), store.tokens_of(edited.text).tolist()
    if not edited.is_broken:
        return [0] * len(after)
    if edited.edit == "other_subject":
        return [1] * len(after)
    marks = [0] * len(after)
    for kind, _, _, start, end in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "delete":
            marks[max(0, start - 1) : start + 1] = [1] * len(marks[max(0, start - 1) : start + 1])
        elif kind != "equal":
            marks[start:end] = [1] * (end - start)
    return marks


def words_alike(table: "torch.Tensor", vocabulary: dict[str, int]) -> Callable[[str], Sequence[str]]:
    """Return a function from a word to the words whose rows of the model's table of words are nearest."""
    words = [word for word in vocabulary if re.fullmatch("[a-z]{3,}", word)]
    position = {word: index for index, word in enumerate(words)}
    unit = torch.nn.functional.normalize(table[[vocabulary[word] for word in words]], dim=-1)
    found: dict[str, list[str]] = {}

    def alike(word: str) -> Sequence[str]:
        if word not in position:
            return ()
        if word not in found:
            nearest = (unit @ unit[position[word]]).topk(26).indices.tolist()
            found[word] = [words[index] for index in nearest if words[index] != word]
        return found[word]

    return alike


def _edited(
    row: Row,
    text: str,
    others: Sequence[str],
    alike: Callable[[str], Sequence[str]],
    draw: random.Random,
    *,
    broken: int,
    kept: int,
) -> list[EditedClaim]:
    near = row.passages.near(text, _WINDOWS_TO_EDIT_FROM)
    claim = Claim(text, near, row.passages.windows, others, alike)
    made: list[EditedClaim] = []
    for edits, most, is_broken in ((BREAKING, broken, True), (KEEPING, kept, False)):
        names = draw.sample(list(edits), len(edits))
        found = ((name, edits[name](claim, draw)) for name in names)
        new = [EditedClaim(row, text, said, name, is_broken) for name, said in found if said and said != text]
        made += new[:most]
    return made
