"""Labels of some rows, and the rates that they make of the scores of all, tier by tier."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.rows.report.result_lines import ResultRow
from plumbline.rows.report.tallies import TIERS, wilson_share
from plumbline.schemas.report import JudgeAgreement, ReportTier, TierRate

if TYPE_CHECKING:
    from plumbline.rows.report.rates import FoundBounds

_MOST_MISSING: Final = 3
_LONGEST_SHOWN: Final = 40
_MOST_NAMED: Final = 50


class RowLabel(msgspec.Struct, frozen=True):
    """A person's verdict on a row: 1 faithful, 0 not."""

    label: Annotated[int, msgspec.Meta(ge=0, le=1)] | bool
    # By person, or of all; counted from 0.
    sentences_at_fault: dict[str, list[int]] | tuple[int, ...] = ()


class _Line(msgspec.Struct):
    custom_id: str | int
    label: bool | int | float | str
    weight: object = None
    sentences_at_fault: dict[str, list[int]] | tuple[int, ...] = ()


# By what people and tools call an answer; of a word that says neither the caller is asked.
_WORDS: Final = {
    1: "1 true yes y faithful supported grounded correct consistent factual pass passed good "
    "忠实 是 对 真 正确 通过 有依据 支持 一致 无幻觉",
    0: "0 false no n unfaithful hallucinated hallucination unsupported ungrounded incorrect inconsistent "
    "contradicted fail failed bad 不忠实 否 错 假 错误 不正确 不通过 无依据 不支持 不一致 幻觉 有幻觉",
}
_LABEL_BY_WORD: Final = {word: label for label, words in _WORDS.items() for word in words.split()}
_NOT: Final = ("not", "non")


def parse_label(value: object) -> int:
    """Return 1 for faithful and 0 for not: of a number, true or false, or a word in English or Chinese.

    Raises ValueError: it says neither.
    """
    if isinstance(value, bool | int | float) and value in (0, 1):
        return int(value)
    if isinstance(value, str):
        first, _, rest = value.strip().casefold().replace("_", " ").replace("-", " ").removesuffix(".0").partition(" ")
        if first in _NOT and rest in _LABEL_BY_WORD:
            return 1 - _LABEL_BY_WORD[rest]
        if first in _LABEL_BY_WORD and not rest:
            return _LABEL_BY_WORD[first]
    shown = quoted(value) if isinstance(value, str) else str(value)[:_LONGEST_SHOWN]
    raise ValueError(
        f"label is {shown}; expected 1, true, yes or faithful (忠实), or 0, false, no or hallucinated (幻觉)"
    )


class RateOptions(NamedTuple):
    """Wanted width of the interval; risk and confidence of a promise. Each in (0, 1)."""

    width: float | None = None
    risk: float | None = None
    confidence: float = 0.95


_DECODER: Final = msgspec.json.Decoder(_Line)


def read_labels(lines: Iterable[bytes | None], *, name: str) -> dict[str | int, RowLabel]:
    """Return the labels by custom_id; raise InvalidInput naming the first line that is none."""
    found: dict[str | int, RowLabel] = {}
    for number, line in enumerate(lines, 1):
        if line is None or not line.strip():
            continue
        try:
            read = _DECODER.decode(line)
            label = RowLabel(parse_label(read.label), read.sentences_at_fault)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            detail = f"{error}; expected custom_id and label (1 faithful, 0 not)"
            raise InvalidInput(detail, place=f"{name}:{number}") from None
        except ValueError as error:
            raise InvalidInput(str(error), place=f"{name}:{number}") from None
        if read.weight is not None:
            detail = "has a weight, which version 0.3 does not read; expected labels of rows drawn alike"
            raise InvalidInput(detail, place=f"{name}:{number}")
        if (custom_id := str(read.custom_id)) in found:
            detail = f"custom_id {custom_id[:_LONGEST_SHOWN]!r} is labelled twice; expected one label a row"
            raise InvalidInput(detail, place=f"{name}:{number}")
        found[custom_id] = label
    return found


class _Labelled(NamedTuple):
    """A labelled row; `decided`: passed or not, None if unknown; `sentences`: passed or not, of those with a claim."""

    name: str
    label: RowLabel
    score: float
    decided: bool | None
    sentences: Mapping[int, bool]


class _TierRows:
    def __init__(self) -> None:
        self.labelled: dict[str | int, _Labelled] = {}
        self.others = array("d")


class RateTally:
    """Scores of rows, one at a time; 8 bytes for a row without a label. `labels`: by `custom_id` or number."""

    def __init__(self, labels: Mapping[str | int, RowLabel]) -> None:
        self._labels = labels
        self._tiers: dict[ReportTier, _TierRows] = {}
        self._seen: set[str | int] = set()

    def add_row(self, row: ResultRow) -> None:
        """Add a row of results; one without a score of a tier only counts as seen."""
        key = _key(row, self._labels)
        scored, result = row.scored, row.result
        if scored is None or result is None or scored.tier == "none":
            self._seen.update((key,) if key in self._labels else ())
            return
        sentences: dict[int, bool] = {}
        for claim in result.claims if key in self._labels else ():
            if claim.verdict != "not_a_claim":
                sentences[claim.sentence] = sentences.get(claim.sentence, True) and claim.verdict == "supported"
        if (score := result.faithfulness) is not None:
            self.add(key, scored.tier, score, result.passed, sentences=sentences, name=scored.custom_id)

    def add(
        self,
        key: str | int,
        tier: ReportTier,
        score: float,
        decided: bool | None = None,
        *,
        sentences: Mapping[int, bool] = MappingProxyType({}),
        name: str | None = None,
    ) -> None:
        """Add a row with a score; `sentences`: True where all claims are supported, by index."""
        label = self._labels.get(key)
        rows = self._tiers.setdefault(tier, _TierRows())
        if label is None:
            rows.others.append(score)
        else:
            self._seen.add(key)
            rows.labelled[key] = _Labelled(name or str(key), label, score, decided, sentences)

    def check(self, *, place: str) -> None:
        """Raise InvalidInput if a label is of no row that was added."""
        if missing := [each for each in self._labels if each not in self._seen]:
            named = ", ".join(repr(str(each)[:_LONGEST_SHOWN]) for each in missing[:_MOST_MISSING])
            detail = f"{len(missing)} labels are of rows that the results do not have ({named})"
            raise InvalidInput(f"{detail}; expected labels of these rows", place=place)

    def rates(self, options: RateOptions = RateOptions()) -> list[TierRate]:  # noqa: B008 - immutable
        """Return the rate of each tier with rows, `refused` where there is none."""
        return [_tier_rate(tier, self._tiers[tier], options) for tier in TIERS if tier in self._tiers]


def find_bounds(
    rows: Iterable[ResultRow], labels: Mapping[str | int, RowLabel], *, left: float, confidence: float
) -> tuple[str, "FoundBounds"]:
    """Return the decision model that judged the rows, and bounds that leave at most a share of them to a chat judge.

    Raises InvalidInput: rows of none, of several or of a second judge; labels as for `choose_bounds`.
    """
    # Late, as the rates of a tier.
    from plumbline.judging.judge.evidence.verdict_rules import REFUTED, UNANSWERED_QUESTION  # noqa: PLC0415
    from plumbline.rows.report.rates import choose_bounds  # noqa: PLC0415

    supports: dict[str | int, tuple[float, float]] = {}
    models: set[str] = set()
    for row in rows:
        result = row.result
        judge = result.trace.judge if result else None
        if result is None or result.status not in ("judged", "not_judged"):
            continue
        if judge is None or judge.kind is None:
            # The model failed, of its controls for example: a chat judge would answer in its place.
            supports[_key(row, labels)] = 1.0, 0.0
            continue
        if "escalated" in result.flags:
            raise InvalidInput("some rows were escalated; bounds are chosen on rows scored without `escalation`")
        models.add(judge.model or "")
        claims = [claim for claim in result.claims if claim.verdict != "not_a_claim"]
        decided = [claim for claim in claims if {REFUTED, UNANSWERED_QUESTION}.isdisjoint(claim.flags)]
        lowest = min((claim.support or 0.0 for claim in decided), default=1.0)
        supports[_key(row, labels)] = lowest, lowest if len(decided) == len(claims) else 0.0
    if len(models) != 1:
        raise InvalidInput(f"found {len(models)} decision models in the rows; expected rows that one of them judged")
    known = [key for key in labels if key in supports]
    unfaithful = [1 - int(labels[key].label) for key in known]
    labelled, found = [supports[key] for key in known], list(supports.values())
    return models.pop(), choose_bounds(unfaithful, labelled, found, left=left, confidence=confidence)


def _key(row: ResultRow, labels: Mapping[str | int, RowLabel]) -> str | int:
    return row.row if row.custom_id is None or row.row in labels else row.custom_id


def _tier_rate(tier: ReportTier, found: _TierRows, options: RateOptions) -> TierRate:
    # A second of import that reports without labels do not pay, and the light half cannot
    from plumbline.rows.report.rates import choose_thresholds, estimate_rate, labels_for_width  # noqa: PLC0415

    labelled = list(found.labelled.values())
    scores = [each.score for each in labelled]
    unfaithful = [1 - int(each.label.label) for each in labelled]
    rate = TierRate(tier=tier, rows=len(scores) + len(found.others), labels=len(scores))
    changes: dict[str, object] = {}
    try:
        estimate = estimate_rate(unfaithful, scores, found.others)
        if options.risk is not None:
            rows, risk = [*scores, *found.others], options.risk
            promise, block, judged = choose_thresholds(
                unfaithful, scores, rows, risk=risk, confidence=options.confidence
            )
            changes = {"promise": promise, "block": block, "judge_rows": judged}
    except InvalidInput as error:
        return rate.model_copy(update={"refused": error.detail})
    if options.width is not None:
        changes["labels_for_width"] = labels_for_width(estimate, len(labelled), options.width)
    decided = [(each.name, bool(each.label.label), each.decided) for each in labelled if each.decided is not None]
    changes |= {"agreement": _agreement(decided), "sentences": _agreement(list(_sentences(labelled)))}
    return rate.model_copy(update={"estimate": estimate, **changes})


def _sentences(labelled: Iterable[_Labelled]) -> Iterator[tuple[str, bool, bool]]:
    """Yield name, label and decision of each sentence with a claim, of rows whose faults people marked, if any."""
    for each in labelled if any(each.label.sentences_at_fault for each in labelled) else ():
        marked = each.label.sentences_at_fault
        faults = set(marked) if isinstance(marked, tuple) else {index for given in marked.values() for index in given}
        if each.label.label or faults:
            yield from ((each.name, index not in faults, passed) for index, passed in each.sentences.items())


def _agreement(cases: Sequence[tuple[str, bool, bool]]) -> JudgeAgreement | None:
    """Return the agreement of decisions with labels, both True where faithful; None without a case."""
    if not cases:
        return None
    counts: Counter[tuple[int, int]] = Counter((label, passed) for _, label, passed in cases)
    faithful, unfaithful = (counts[label, True] + counts[label, False] for label in (True, False))
    found, cleared = counts[False, False], counts[True, True]
    return JudgeAgreement(
        faithful_passed=cleared,
        faithful_failed=counts[True, False],
        unfaithful_passed=counts[False, True],
        unfaithful_failed=found,
        base_rate=unfaithful / len(cases),
        kappa=compute_kappa(counts),
        sensitivity=wilson_share(found / unfaithful, unfaithful) if unfaithful else None,
        specificity=wilson_share(cleared / faithful, faithful) if faithful else None,
        disagreements=list(dict.fromkeys(name for name, label, passed in cases if label != passed))[:_MOST_NAMED],
    )


def compute_kappa(counts: Counter[tuple[int, int]]) -> float | None:
    """Return Cohen's kappa (1960) of two labels, 1 or 0, in [-1, 1]; None if both always said one and the same.

    From four counts: nltk takes a second for a hundred thousand rows, and is not in the light half.
    """
    rows = counts.total()
    faithful, passed = (sum(count for key, count in counts.items() if key[place]) / rows for place in (0, 1))
    by_chance = faithful * passed + (1 - faithful) * (1 - passed)
    observed = (counts[True, True] + counts[False, False]) / rows
    return None if by_chance == 1 else (observed - by_chance) / (1 - by_chance)
