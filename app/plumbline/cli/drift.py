"""`plumbline rate drift`: the same rows judged before and now, and whether the judge has changed."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from plumbline.cli import print_json, print_lines
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.data_file import read_lines
from plumbline.rows.report.run_comparison import RowHead, RunComparison, TierDifference, compare_runs, read_head

# Tests of a tier: of its scores, and of its decisions.
_TESTS: Final = 2
_VERSION: Final = ("model", "prompt", "prompt_digest")


def run_drift(options: argparse.Namespace) -> int:
    heads = [[read_head(line) for line in read_lines(path) if line] for path in (options.before, options.now)]
    comparison = compare_runs(*heads)
    if not comparison.tiers:
        raise InvalidInput("no row was judged in both by the same tier; expected results of the same rows")
    found = find_drift(comparison, alpha=options.alpha)
    changed = {
        name: versions for name in _VERSION if (versions := [_versions(each, name) for each in heads])[0] != versions[1]
    }
    other_tier = len(comparison.other_tier)
    if options.json:
        tiers = [{**each._asdict(), "is_drift": is_drift} for each, is_drift in found]
        shown = {"tiers": tiers, "changed": changed, "other_tier": other_tier}
        print_json(shown)
    else:
        print_lines(_lines(found, changed, other_tier))
    return int(any(is_drift for _, is_drift in found))


def find_drift(comparison: RunComparison, *, alpha: float) -> list[tuple[TierDifference, bool]]:
    """Tell of each tier if it has drifted; all tests together raise a false alarm in at most `alpha` of the cases.

    Tests: random signs of the differences of scores, McNemar's of changed decisions, each at alpha / their number
    (Bonferroni).
    """
    level = alpha / (_TESTS * len(comparison.tiers))
    return [(each, min(each.p_value, each.flip_p_value) <= level) for each in comparison.tiers]


def _versions(heads: Iterable[RowHead], name: str) -> list[str]:
    judges = [head.result.trace.judge for head in heads if head.result is not None]
    return sorted({value for judge in judges if (value := getattr(judge, name, None)) is not None})


def _lines(
    found: Sequence[tuple[TierDifference, bool]], changed: Mapping[str, list[list[str]]], other_tier: int
) -> Iterator[str]:
    for each, is_drift in found:
        interval = "" if each.low is None or each.high is None else f" [{each.low:+.3f}, {each.high:+.3f}]"
        yield (
            f"tier {each.tier}: {'DRIFT' if is_drift else 'no drift'}: {each.pairs:,} pairs, shift "
            f"{each.shift:+.3f}{interval}, p {each.p_value:.3g}; {each.newly_passing} pass now, "
            f"{each.newly_failing} fail now, p {each.flip_p_value:.3g}"
        )
    for name, (before, now) in changed.items():
        yield f"judge's {name} changed: {', '.join(before) or '-'} -> {', '.join(now) or '-'}"
    if other_tier:
        yield f"{other_tier:,} rows were judged by another tier: not compared"
