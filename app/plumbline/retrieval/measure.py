"""Measures as values: a name states all that changes the number, and parses back to the same value."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.texts import CodedText

DEFAULT_MEASURES: Final = ("ndcg@10", "recall@10", "precision@10", "map", "mrr")


class Cutoff(Enum):
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
    "rbp_graded": Cutoff.OPTIONAL,  # each hit weighs grade / the query's highest: trec_eval's `rbp`
    "rbp_resid": Cutoff.NONE,  # what unjudged documents could add to rbp
    "rbp_max": Cutoff.NONE,  # rbp if they were all relevant
    "precision_max": Cutoff.REQUIRED,  # precision if unjudged documents were relevant
    "iprec": Cutoff.NONE,  # the best precision at a recall of r or more
    "f_beta": Cutoff.REQUIRED,  # of precision and recall, which weighs beta times as much
    "all_gold": Cutoff.REQUIRED,  # 1 when every relevant document is retrieved
    "recall_budget": Cutoff.NONE,  # recall of the first documents that fit so many tokens
    "num_q": Cutoff.NONE,  # these are counts; their mean is the total, as trec_eval prints it
    "num_ret": Cutoff.NONE,
    "num_rel": Cutoff.NONE,
    "num_rel_ret": Cutoff.NONE,
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
    # trec_eval's
    "recip_rank": "mrr",
    "rprec": "r_precision",
    "set_p": "precision_ret",
    "set_recall": "recall",
    "set_f": "f1_ret",
    "ndcg_cut": "ndcg",
    "map_cut": "map",
}
TOTALS: Final = frozenset({"num_q", "num_ret", "num_rel", "num_rel_ret"})
# The parameter of a measure: its name, least and greatest value, and what it is when none is given.
_PARAMETER_BY_NAME: Final[dict[str, tuple[str, float, float, float | None]]] = {
    "rbp": ("p", 0, 1, None),
    "rbp_graded": ("p", 0, 1, 0.9),  # trec_eval's
    "rbp_resid": ("p", 0, 1, 0.9),
    "rbp_max": ("p", 0, 1, 0.9),
    "iprec": ("r", -0.01, 1.01, None),
    "f_beta": ("beta", 0, 1_000, None),
    "recall_budget": ("tokens", 0, 1e12, None),
}

_SHAPE = re.compile(r"(?P<name>[a-z0-9_]*)(?:\((?P<params>[^()]*)\))?(?:@(?P<k>.*))?", re.DOTALL)
_WHOLE_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_ASSIGNMENT = re.compile(r"\s*([a-z]+)\s*=\s*([0-9.e-]{1,24})\s*")
# `P_10`, `ndcg_cut.5,10`, `iprec_at_recall_0.10`
_TREC_CUTOFF = re.compile(r"(p|recall|success|ndcg_cut|map_cut)[._]([0-9][0-9,]*)", re.IGNORECASE)
_TREC_RECALL = re.compile(r"iprec_at_recall[._]([01]?\.[0-9]+|[01])", re.IGNORECASE)
# Longer words are no names of ours; matching is quadratic.
_MATCHED_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure, checked by `parse_measure`; `str()` is the canonical text. `k` is None without a cutoff."""

    name: str
    k: int | None = None
    params: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        """Return the text that parses back to this value: `ndcg@10`, `mrr`, `rbp(p=0.8)`."""
        values = ",".join(
            f"{name}={int(value) if value > 1 == value % 1 + 1 else value!r}" for name, value in self.params
        )
        return self.name + (f"({values})" if values else "") + ("" if self.k is None else f"@{self.k}")


def parse_measure(text: str) -> Measure:
    """Parse one measure: a name, parameters in brackets, `@` and a cutoff; case is ignored.

    Aliases: hit_rate is success, p precision, r recall, rr and reciprocal_rank mrr, ap map; and trec_eval's names
    (`P_10`, `ndcg_cut_10`, `recip_rank`, `iprec_at_recall_0.10`), of which `rbp` is rbp_graded(p=0.9).

    Raises InvalidInput: no such measure (the nearest is named), or a cutoff or parameter that it cannot take.
    """
    name, params, cutoff = _split(_from_trec(text))
    if name == "rbp" and params is None:
        name = "rbp_graded"
    return Measure(name, _cutoff(text, name, cutoff), _parameters(text, name, params))


def parse_measures(texts: Iterable[str]) -> tuple[Measure, ...]:
    """Parse measures in their order, each once; `recall@1,3,5` stands for three."""
    found: dict[Measure, None] = {}
    for text in map(_from_trec, texts):
        stem, at, cutoffs = text.rpartition("@")
        for single in [f"{stem}@{cutoff.strip()}" for cutoff in cutoffs.split(",")] if at else [text]:
            found[parse_measure(single)] = None
    return tuple(found)


def _from_trec(text: str) -> str:
    """Return trec_eval's name with a cutoff as ours."""
    cut, at_recall = _TREC_CUTOFF.fullmatch(text.strip()), _TREC_RECALL.fullmatch(text.strip())
    if at_recall:
        return f"iprec(r={float(at_recall[1])!r})"
    return f"{cut[1]}@{cut[2]}" if cut else text


def suggest(word: str, known: Sequence[str]) -> CodedText:
    """Return the question whether the nearest known word was meant, or all of them if none is near."""
    near = nearest(word, known)
    return CodedText("did_you_mean", name=near) if near else CodedText("known_are", names=known)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word most like this one, or None if none is near."""
    return next(iter(difflib.get_close_matches(word[:_MATCHED_CHARACTERS], list(known), n=1)), None)


def _split(text: str) -> tuple[str, str | None, str | None]:
    """Return the canonical name, and parameters and cutoff as written."""
    shape = _SHAPE.fullmatch(text.strip().lower())
    if shape is None:
        raise InvalidInput(CodedText("measure_unreadable", text=quoted(text)))
    name = _NAME_BY_ALIAS.get(shape["name"], shape["name"])
    if name not in CUTOFF_BY_NAME:
        raise InvalidInput(CodedText("measure_unknown", text=quoted(text), hint=_suggestion(name, shape["k"])))
    return name, shape["params"], shape["k"]


def _suggestion(name: str, cutoff: str | None) -> CodedText:
    near = nearest(name, [*CUTOFF_BY_NAME, *_NAME_BY_ALIAS])
    if near is None:
        return CodedText("known_are", names=tuple(CUTOFF_BY_NAME))
    takes = CUTOFF_BY_NAME[_NAME_BY_ALIAS.get(near, near)]
    if not (takes is Cutoff.NONE or (cutoff is None and takes is Cutoff.OPTIONAL)):
        near = f"{near}@{cutoff if cutoff and _WHOLE_NUMBER.fullmatch(cutoff) else 10}"
    return CodedText("did_you_mean", name=near)


def _cutoff(text: str, name: str, cutoff: str | None) -> int | None:
    takes = CUTOFF_BY_NAME[name]
    if cutoff is None and takes is Cutoff.REQUIRED:
        raise InvalidInput(CodedText("cutoff_needed", text=quoted(text), name=name))
    if cutoff is not None and takes is Cutoff.NONE:
        raise InvalidInput(CodedText("cutoff_not_taken", text=quoted(text), name=name))
    if cutoff is not None and not _WHOLE_NUMBER.fullmatch(cutoff):
        raise InvalidInput(CodedText("cutoff_wrong", text=quoted(text), cutoff=quoted(cutoff), name=name))
    return None if cutoff is None else int(cutoff)


def _parameters(text: str, name: str, params: str | None) -> tuple[tuple[str, float], ...]:
    if name not in _PARAMETER_BY_NAME:
        if params is not None:
            raise InvalidInput(CodedText("no_parameters_taken", text=quoted(text), name=name))
        return ()
    parameter, least, most, default = _PARAMETER_BY_NAME[name]
    if params is None and default is not None:
        return ((parameter, default),)
    assignment = _ASSIGNMENT.fullmatch(params or "")
    try:
        value = float(assignment[2]) if assignment and assignment[1] == parameter else least
    except ValueError:
        value = least
    if not least < value < most:
        bounds, example = {"p": ("0 < p < 1", "rbp(p=0.8)"), "r": ("0 <= r <= 1", "iprec(r=0.1)")}.get(
            parameter, (f"{parameter} > 0", f"{name}({parameter}=2)")
        )
        raise InvalidInput(CodedText("parameters_wrong", text=quoted(text), bounds=bounds, example=example))
    return ((parameter, value),)
