"""Conventions of a measure as one value: relevance level, ties, duplicates and so on, with presets for common tools."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.texts import CodedText
from plumbline.retrieval.measure import suggest

_Choice = TypeVar("_Choice", bound=str)


@dataclass(frozen=True, slots=True)
class Conventions:
    """All parameters besides the measure's name; the defaults are `trec_eval -c`. Made by `build_conventions`.

    Not parameters, because only one value is right: the ideal DCG is taken over all judged documents, a negative
    grade has gain 0 and is not relevant, an unjudged document is not relevant.

    Args:
        rel_level: the lowest relevant grade, >= 1 (trec_eval `-l`).
        ndcg_rel_level: whether grades below `rel_level` keep their gain (trec_eval) or lose it (ranx).
        gain_map: (grade, gain) pairs of `ndcg_gains`; None unless that measure is asked for.
        max_rel: the grade that weighs 1 in `map_graded`; None is the largest over the whole qrels.
        map_normaliser: what AP is divided by: R, min(R, k), the relevant retrieved, or the weights of all relevant.
        judged_only: unjudged and negative documents leave the ranking first (trec_eval `-J`).
        max_documents: only the best so many of each query count (trec_eval `-M`); None is all.
        id_rule: how ids are reduced before they are compared; `id_pattern` is the expression of `regex`,
            checked by `ids.build_id_rule`, which makes the function; kept here so that a response can repeat it.
        duplicates: a repeated document counts at its best place (`first`), at its best score (`max_score`; the same
            place, as a list is ordered by score), or is refused. A kept duplicate would raise scores above 1.
        dedupe: cut the ranking at k after or before the duplicates leave it.
        ties: order of equal scores; id lists have none.
        score_precision: trec_eval 9 and pytrec_eval compare scores as float32.
        missing_queries: judged queries that the run lacks count 0, are left out, or are refused.
        no_relevant: queries without a relevant document count 0, or are left out.
        recall_points: the relevant documents that a recall of `iprec` asks for: the nearest number (trec_eval 10), or
            no fewer (trec_eval 9).
        ignore_identical_ids: a document whose id is the query's leaves the ranking (BEIR).
    """

    rel_level: int = 1
    ndcg_rel_level: Literal["ignore", "drop_below"] = "ignore"
    gain_map: tuple[tuple[int, float], ...] | None = None
    max_rel: int | None = None
    map_normaliser: Literal["R", "min_R_k", "retrieved_relevant", "sum_of_weights"] = "R"
    judged_only: bool = False
    max_documents: int | None = None
    id_rule: Literal["none", "strip_chunk", "urn_uuid", "regex"] = "none"
    id_pattern: str | None = None
    duplicates: Literal["first", "max_score", "error"] = "error"
    dedupe: Literal["before_cutoff", "after_cutoff"] = "before_cutoff"
    ties: Literal["docno_desc", "docno_asc", "input_order"] = "docno_desc"
    score_precision: Literal["float64", "float32"] = "float64"
    missing_queries: Literal["zero", "skip", "error"] = "zero"
    no_relevant: Literal["zero", "skip"] = "zero"
    recall_points: Literal["nearest", "at_least"] = "nearest"
    ignore_identical_ids: bool = False


_PYTREC = Conventions(score_precision="float32", missing_queries="skip", recall_points="at_least")
PRESETS: Final[Mapping[str, Conventions]] = {
    "trec_eval": Conventions(),
    "pytrec_eval": _PYTREC,
    "beir": replace(_PYTREC, ignore_identical_ids=True),
    "ragas_id": Conventions(duplicates="first", missing_queries="skip", no_relevant="skip"),
    "seed-0": Conventions(duplicates="first"),
    "seed-1": Conventions(duplicates="first"),
    "seed-2": Conventions(duplicates="first", max_rel=2),
    "seed-3": Conventions(duplicates="first", id_rule="urn_uuid"),
    # P and R cut first and then dedupe; MRR has no cutoff, so its ranks are those of documents all the same.
    "seed-4": Conventions(duplicates="first", id_rule="strip_chunk", dedupe="after_cutoff"),
}
DEFAULT_CONVENTIONS: Final = PRESETS["trec_eval"]

_TYPE_BY_NAME: Final = get_type_hints(Conventions)
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    name: get_args(kind) for name, kind in _TYPE_BY_NAME.items() if get_origin(kind) is Literal
}
BOOLEANS: Final = frozenset(name for name, kind in _TYPE_BY_NAME.items() if kind is bool)
_NAMES: Final = tuple(_TYPE_BY_NAME)
_MAX_GAIN: Final = 1e100
_WHOLE_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


def build_conventions(preset: str = "trec_eval", **overrides: object) -> Conventions:
    """Return a preset with some parameters overridden.

    `gain_map` is a mapping from grade (an int >= 1, or its digits) to gain (finite, >= 0).

    Raises InvalidInput: no such preset, parameter or value; the nearest is named.
    """
    if preset not in PRESETS:
        raise InvalidInput(CodedText("conventions_unknown", name=quoted(preset), hint=suggest(preset, tuple(PRESETS))))
    checked = {name: _check(name, value) for name, value in overrides.items()}
    # Each value was checked against its field's type, by name, which mypy cannot follow.
    conventions: Conventions = replace(PRESETS[preset], **checked)  # type: ignore[arg-type]
    if conventions.id_pattern is not None and conventions.id_rule != "regex":
        raise InvalidInput(CodedText("pattern_of_regex_alone"), place="id_pattern")
    return conventions


def as_dict(conventions: Conventions) -> dict[str, object]:
    """Return all parameters by name, for a response; `gain_map` as a mapping with the grades as text."""
    values: dict[str, object] = {name: getattr(conventions, name) for name in _NAMES}
    if conventions.gain_map is not None:
        values["gain_map"] = {str(grade): gain for grade, gain in conventions.gain_map}
    return values


def _check(name: str, value: object) -> object:
    if name not in _NAMES:
        raise InvalidInput(CodedText("convention_unknown", name=quoted(name), hint=suggest(name, _NAMES)), place=name)
    if name in CHOICES:
        return _choice(name, value)
    if name in BOOLEANS:
        if not isinstance(value, bool):
            raise InvalidInput(CodedText("boolean_expected", found=quoted(str(value))), place=name)
        return value
    if name == "gain_map":
        return None if value is None else _gain_map(value)
    if name == "id_pattern":
        if value is not None and not isinstance(value, str):
            raise InvalidInput(CodedText("regex_expected", found=quoted(str(value))), place="id_pattern")
        return value
    return None if value is None and name in ("max_rel", "max_documents") else _grade(name, value)


def _choice(name: str, value: object) -> str:
    if name == "duplicates" and value == "keep":
        raise InvalidInput(CodedText("duplicates_kept"), place=name)
    choices = CHOICES[name]
    if not isinstance(value, str) or value not in choices:
        detail = CodedText("choice_unknown", name=quoted(str(value)), hint=suggest(str(value), choices))
        raise InvalidInput(detail, place=name)
    return value


def _grade(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInput(CodedText("count_expected", found=quoted(str(value))), place=name)
    return value


def _gain_map(value: object) -> tuple[tuple[int, float], ...]:
    if not isinstance(value, Mapping) or not value:
        raise InvalidInput(CodedText("gains_expected"), place="gain_map")
    pairs = []
    for grade, gain in value.items():
        is_digits = isinstance(grade, str) and _WHOLE_NUMBER.fullmatch(grade)
        whole = _grade("gain_map", int(grade) if is_digits else grade)
        # The bound keeps sums finite; a NaN fails the comparison too.
        if isinstance(gain, bool) or not isinstance(gain, int | float) or not 0 <= gain <= _MAX_GAIN:
            raise InvalidInput(CodedText("gain_wrong", found=quoted(str(gain))), place="gain_map")
        pairs.append((whole, float(gain)))
    return tuple(sorted(pairs))


def require_choice(value: str, known: Sequence[_Choice], what: str) -> _Choice:
    """Return the value as one of those known; raise InvalidInput that names the option and them."""
    for each in known:
        if each == value:
            return each
    raise InvalidInput(CodedText("option_unknown", what=what, name=value, names=known))
