"""`plumbline rate`, `rate threshold` and `rate drift`: what labels of some rows tell about all of them."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import asdict
from random import Random
from typing import TYPE_CHECKING, Final

import msgspec

from plumbline.cli import Commands, build_command, print_json, print_lines
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.data_file import read_lines
from plumbline.rows.report.comparison import compare_runs
from plumbline.rows.report.gates import format_mean
from plumbline.rows.report.labelled_rates import RateOptions, RateTally, find_bounds, read_labels
from plumbline.rows.report.result_lines import ResultRow, RowHead, read_head, read_line
from plumbline.schemas.report import Comparison, JudgeAgreement, ShareEstimate, TierComparison, TierRate

if TYPE_CHECKING:
    from plumbline.rows.report.rates import FoundBounds

_SEED = "plumbline"
_MOST_NAMED = 10
# Tests of a tier for drift: of its scores, and of its decisions.
_TESTS: Final = 2
_VERSION: Final = ("model", "prompt", "prompt_digest")


def add_command(commands: Commands) -> None:
    """Add `rate` and its parts, which argparse knows as commands of two words, to the parser."""
    build_command(commands, "rate", _rate)
    build_command(commands, "rate threshold", _choose)[""].set_defaults(width=None, draw=None)
    build_command(commands, "rate drift", _drift)


def _rate(options: argparse.Namespace) -> int:
    rows = (row for path in options.results for row in map(read_line, read_lines(path)) if isinstance(row, ResultRow))
    if options.labels is not None:
        _print_rates(rows, options)
    elif options.draw is not None:
        print_lines(_draw_lines(rows, options))
    else:
        raise InvalidInput("expected --labels or --draw")
    return 0


def _choose(options: argparse.Namespace) -> int:
    if (options.risk is None) == (options.left is None):
        raise InvalidInput("expected --risk, for thresholds of scores, or --left, for bounds of a decision model")
    if options.risk is not None:
        return _rate(options)
    rows = (row for path in options.results for row in map(read_line, read_lines(path)) if isinstance(row, ResultRow))
    labels = read_labels(read_lines(options.labels), name=options.labels.name)
    model, found = find_bounds(rows, labels, left=options.left, confidence=options.confidence)
    if options.json:
        print_json({"model": model, **asdict(found)})
    else:
        print_lines(_bounds_lines(model, found, options))
    return 0


def _print_rates(rows: Iterator[ResultRow], options: argparse.Namespace) -> None:
    tally = RateTally(read_labels(read_lines(options.labels), name=options.labels.name))
    for row in rows:
        tally.add_row(row)
    rates = tally.rates(RateOptions(options.width, options.risk, options.confidence))
    _check_rows(rates, options)
    tally.check(place=options.labels.name)
    for rate in rates:
        if rate.refused:
            raise InvalidInput(rate.refused, place=f"tier {rate.tier}")
    if options.json:
        print_json([each.model_dump() for each in rates])
    else:
        print_lines(line for rate in rates for line in _lines(rate, options))


def _draw_lines(rows: Iterator[ResultRow], options: argparse.Namespace) -> Iterator[str]:
    """Yield lines to fill in, each tier's rows in the order in which they were drawn."""
    by_tier: dict[str, set[str]] = {}
    for scored in (row.scored for row in rows if row.scored is not None and row.scored.tier != "none"):
        by_tier.setdefault(scored.tier, set()).add(scored.custom_id)
    _check_rows(by_tier, options)
    for found in by_tier.values():
        for custom_id in Random(_SEED).sample(sorted(found), min(options.draw, len(found))):  # noqa: S311 -- no secret
            yield msgspec.json.encode({"custom_id": custom_id, "label": None}).decode()


def _check_rows(found: Sized, options: argparse.Namespace) -> None:
    if not found:
        detail = "contains no judged row; expected what `plumbline score` writes"
        raise InvalidInput(detail, place=options.results[0].name)


def _lines(rate: TierRate, options: argparse.Namespace) -> Iterator[str]:
    yield f"tier {rate.tier}: {rate.rows:,} rows with a score, {rate.labels:,} of them labelled"
    if (found := rate.estimate) is not None:
        yield f"  unfaithful, corrected by the scores: {_format_share(found.corrected)}"
        yield f"  unfaithful, from the labels alone: {_format_share(found.labels_only)}"
        yield f"  the scores make {rate.labels:,} labels worth {found.worth:.0f}"
    if rate.labels_for_width is not None:
        yield f"  an interval of width {options.width:g} takes about {rate.labels_for_width:,} labels"
    for agreement, what in ((rate.agreement, "decisions"), (rate.sentences, "sentences")):
        if agreement is not None:
            yield from _agreement_lines(agreement, what)
    promises = ((rate.promise, "unfaithful", "from --threshold {:.6g} on"), (rate.block, "faithful", "up to {:.6g}"))
    for promise, which, words in promises:
        if promise is None:
            continue
        kept = f"at most {options.risk:.0%} {which} with confidence {options.confidence:.0%}"
        if promise.threshold is None:
            more = f"about {promise.more_labels:,} more would be needed" if promise.more_labels else "too many break it"
            yield f"  {kept}: no threshold by these labels, {more}"
        else:
            seen = f"{promise.unfaithful_passed} of {promise.labels_passed} labelled ones {which}"
            scores = words.format(promise.threshold)
            yield f"  {kept}: scores {scores}, {promise.let_through:.0%} of the rows ({seen})"
    if rate.judge_rows is not None:
        yield f"  left for a judge: {rate.judge_rows:,} rows ({rate.judge_rows / rate.rows:.0%})"


def _bounds_lines(model: str, found: "FoundBounds", options: argparse.Namespace) -> Iterator[str]:
    """Yield what passes and fails by the bounds of a decision model, and the setting that holds them."""
    for words, wrong, side in (
        (f"pass from {found.passes:.6g} on", "unfaithful", found.passed),
        (f"fail up to {found.fails:.6g}", "faithful", found.failed),
    ):
        yield (
            f"{words}: {side.share:.0%} of the rows; {side.wrong} of {side.labels} labelled ones {wrong}, at most "
            f"{side.at_most:.0%} with confidence {options.confidence:.0%}"
        )
    over = f", more than {options.left:.0%}: the check refutes so many" if found.share > options.left else ""
    yield f"left for a chat judge: {found.share:.1%} of the rows{over}"
    bounds = {"fails": found.fails, "passes": found.passes, "share": found.share}
    yield f"PLUMBLINE_LLM_BOUNDS='{msgspec.json.encode({model: bounds}).decode()}'"


def _agreement_lines(found: JudgeAgreement, what: str) -> Iterator[str]:
    kappa = "-" if found.kappa is None else f"{found.kappa:.2f}"
    yield f"  {what} against people: kappa {kappa}, {found.base_rate:.1%} unfaithful by the labels"
    yield (
        f"    faithful: {found.faithful_passed} passed, {found.faithful_failed} failed; "
        f"unfaithful: {found.unfaithful_failed} failed, {found.unfaithful_passed} passed"
    )
    for share, name in ((found.sensitivity, "unfaithful ones found"), (found.specificity, "faithful ones passed")):
        if share is not None:
            yield f"    {name}: {_format_share(share)}"
    if names := found.disagreements[:_MOST_NAMED]:
        more = len(found.disagreements) - len(names)
        yield f"    rows to read: {', '.join(names)}{f' and {more} more' if more else ''}"


def _drift(options: argparse.Namespace) -> int:
    heads = [[read_head(line) for line in read_lines(path) if line] for path in (options.before, options.now)]
    comparison = compare_runs(*heads).comparison()
    if not comparison.tiers:
        raise InvalidInput("no row was judged in both by the same tier; expected results of the same rows")
    found = find_drift(comparison, alpha=options.alpha)
    changed = {
        name: versions for name in _VERSION if (versions := [_versions(each, name) for each in heads])[0] != versions[1]
    }
    if options.json:
        tiers = [{**each.model_dump(), "is_drift": is_drift} for each, is_drift in found]
        print_json({"tiers": tiers, "changed": changed, "other_tier": comparison.other_tier})
    else:
        print_lines(_drift_lines(found, changed, comparison.other_tier))
    return int(any(is_drift for _, is_drift in found))


def find_drift(comparison: Comparison, *, alpha: float) -> list[tuple[TierComparison, bool]]:
    """Tell of each tier if it has drifted; all tests together raise a false alarm in at most `alpha` of the cases.

    Tests of the differences of scores and of changed decisions, each at alpha / their number (Bonferroni).
    """
    level = alpha / (_TESTS * len(comparison.tiers))
    return [(each, min(each.p_value, each.flip_p_value) <= level) for each in comparison.tiers]


def _versions(heads: Iterable[RowHead], name: str) -> list[str]:
    judges = [head.result.trace.judge for head in heads if head.result is not None]
    return sorted({value for judge in judges if (value := getattr(judge, name, None)) is not None})


def _drift_lines(
    found: Iterable[tuple[TierComparison, bool]], changed: Mapping[str, list[list[str]]], other_tier: int
) -> Iterator[str]:
    for each, is_drift in found:
        yield (
            f"tier {each.tier}: {'DRIFT' if is_drift else 'no drift'}: {each.paired:,} pairs, shift "
            f"{format_mean(each.difference, sign='+')}, p {each.p_value:.3g}; {each.newly_passing} pass now, "
            f"{each.newly_failing} fail now, p {each.flip_p_value:.3g}"
        )
    for name, (before, now) in changed.items():
        yield f"judge's {name} changed: {', '.join(before) or '-'} -> {', '.join(now) or '-'}"
    if other_tier:
        yield f"{other_tier:,} rows were judged by another tier: not compared"


def _format_share(share: ShareEstimate) -> str:
    return f"{share.share:.1%}, 95 % interval {share.low:.1%} to {share.high:.1%}"
