"""Measures as values: a name states all that changes the number, and parses back to the same value."""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.text_file import quoted


class Cutoff(Enum):
    """Cutoff @k of a measure: required, optional or not allowed."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    NONE = "none"


CUTOFF_BY_NAME: Final[dict[str, Cutoff]] = {
    "recall": Cutoff.OPTIONAL,  # relevant retrieved / R
    "capped_recall": Cutoff.REQUIRED,  # relevant retrieved / min(R, k)
    "precision": Cutoff.REQUIRED,  # relevant retrieved / k
    "precision_ret": Cutoff.OPTIONAL,  # relevant retrieved / unique documents among the first k
    "success": Cutoff.REQUIRED,
    "mrr": Cutoff.OPTIONAL,
    "ndcg": Cutoff.OPTIONAL,  # gain = grade
    "ndcg_exp": Cutoff.OPTIONAL,  # gain = 2^grade - 1
    "ndcg_gains": Cutoff.OPTIONAL,  # gain = the conventions' gain_map[grade]
    "map": Cutoff.OPTIONAL,
    "map_graded": Cutoff.OPTIONAL,  # each hit weighs grade / max_rel
    "f1": Cutoff.REQUIRED,  # of precision and recall
    "f1_ret": Cutoff.OPTIONAL,  # of precision_ret and recall
    "r_precision": Cutoff.NONE,
    "bpref": Cutoff.NONE,
    "rbp": Cutoff.OPTIONAL,
    "context_recall": Cutoff.NONE,
    "context_precision": Cutoff.NONE,
    "context_f1": Cutoff.NONE,
    "judged": Cutoff.REQUIRED,  # judged documents / unique documents among the first k
}
_NAME_BY_ALIAS: Final = {
    "hit_rate": "success",
    "p": "precision",
    "r": "recall",
    "rr": "mrr",
    "reciprocal_rank": "mrr",
    "ap": "map",
}
# Users who stop at rank 5 on average; the middle of the values in Moffat & Zobel, TOIS 2008 (0.5, 0.8, 0.95).
_DEFAULT_PERSISTENCE: Final = 0.8

_SHAPE = re.compile(r"(?P<name>[a-z0-9_]*)(?:\((?P<params>[^()]*)\))?(?:@(?P<k>.*))?", re.DOTALL)
_WHOLE_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_PERSISTENCE = re.compile(r"\s*p\s*=\s*([0-9.e-]{1,24})\s*")
# Longer words are no names of ours; matching is quadratic.
_MATCHED_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure, made by `parse_measure`, which alone checks it; `str()` is the canonical text.

    `k` is None without a cutoff; `params` are (name, value) pairs, such as the persistence p of rbp.
    """

    name: str
    k: int | None = None
    params: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        """Return the text that parses back to this value: `ndcg@10`, `mrr`, `rbp(p=0.8)`."""
        values = ",".join(f"{name}={value!r}" for name, value in self.params)
        return self.name + (f"({values})" if values else "") + ("" if self.k is None else f"@{self.k}")


def parse_measure(text: str) -> Measure:
    """Parse one measure: a name, parameters in brackets, `@` and a cutoff; case is ignored.

    Aliases: hit_rate is success, p precision, r recall, rr and reciprocal_rank mrr, ap map.

    Raises:
        InvalidInput: no such measure (the nearest is named), or a cutoff or parameter that it cannot take.
    """
    name, params, cutoff = _split(text)
    return Measure(name, _cutoff(text, name, cutoff), _parameters(text, name, params))


def parse_measures(texts: Iterable[str]) -> tuple[Measure, ...]:
    """Parse measures in their order, each once; `recall@1,3,5` stands for three."""
    found: dict[Measure, None] = {}
    for text in texts:
        stem, at, cutoffs = text.rpartition("@")
        for single in [f"{stem}@{cutoff.strip()}" for cutoff in cutoffs.split(",")] if at else [text]:
            found[parse_measure(single)] = None
    return tuple(found)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word most like this one, or None if none is near."""
    return next(iter(difflib.get_close_matches(word[:_MATCHED_CHARACTERS], list(known), n=1)), None)


def _split(text: str) -> tuple[str, str | None, str | None]:
    """Return the canonical name, and parameters and cutoff as written."""
    shape = _SHAPE.fullmatch(text.strip().lower())
    if shape is None:
        raise InvalidInput(f"unknown measure {quoted(text)}; wanted a name and a cutoff, as in 'ndcg@10'")
    name = _NAME_BY_ALIAS.get(shape["name"], shape["name"])
    if name not in CUTOFF_BY_NAME:
        raise InvalidInput(f"unknown measure {quoted(text)}; {_suggestion(name, shape['k'])}")
    return name, shape["params"], shape["k"]


def _suggestion(name: str, cutoff: str | None) -> str:
    near = nearest(name, [*CUTOFF_BY_NAME, *_NAME_BY_ALIAS])
    if near is None:
        return f"known are {', '.join(CUTOFF_BY_NAME)}"
    takes = CUTOFF_BY_NAME[_NAME_BY_ALIAS.get(near, near)]
    if takes is Cutoff.NONE or (cutoff is None and takes is Cutoff.OPTIONAL):
        return f"did you mean '{near}'?"
    return f"did you mean '{near}@{cutoff if cutoff and _WHOLE_NUMBER.fullmatch(cutoff) else 10}'?"


def _cutoff(text: str, name: str, cutoff: str | None) -> int | None:
    takes = CUTOFF_BY_NAME[name]
    if cutoff is None and takes is Cutoff.REQUIRED:
        raise InvalidInput(f"measure {quoted(text)} needs a cutoff; did you mean '{name}@10'?")
    if cutoff is not None and takes is Cutoff.NONE:
        raise InvalidInput(f"measure {quoted(text)} takes no cutoff; did you mean '{name}'?")
    if cutoff is not None and not _WHOLE_NUMBER.fullmatch(cutoff):
        raise InvalidInput(
            f"measure {quoted(text)} has the cutoff {quoted(cutoff)}, wanted a whole number from 1; "
            f"did you mean '{name}@10'?"
        )
    return None if cutoff is None else int(cutoff)


def _parameters(text: str, name: str, params: str | None) -> tuple[tuple[str, float], ...]:
    if name != "rbp":
        if params is not None:
            raise InvalidInput(f"measure {quoted(text)} takes no parameters; did you mean '{name}'?")
        return ()
    if params is None:
        return (("p", _DEFAULT_PERSISTENCE),)
    assignment = _PERSISTENCE.fullmatch(params)
    try:
        value = float(assignment[1]) if assignment else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise InvalidInput(f"measure {quoted(text)} has wrong parameters; wanted 0 < p < 1, as in 'rbp(p=0.8)'")
    return (("p", value),)
