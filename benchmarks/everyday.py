"""Measures `passed` on everyday answers with one planted error or none: python -m benchmarks.everyday

Prints a table in Markdown and one line of JSON last; --show-failures prints each wrong row before them, with its
sentences, scores and reasons. The texts are `tests/data/everyday.jsonl`, written for this; --data names others of the
same columns. A row without a decision (refused, taken for an abstention) counts as wrong whatever its label.
"""

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plumbline.assembly import build, make_plan
from plumbline.ground.concurrency import InlineExecutor, map_concurrently
from plumbline.ground.settings import Settings
from plumbline.judging.text.sample import Sample
from plumbline.rows.evaluation_wire import build_options, to_wire
from plumbline.schemas.evaluation import EvaluationOptions, EvaluationResult

DATA = Path(__file__).parents[1] / "tests" / "data"
# Errors that bring something which no context has, and errors made of the contexts' own words.
NEW, REARRANGED = ("number", "unit", "name", "date", "invented"), ("swapped", "negation")
# Tiers 2 and 3: one that cannot read a row's language hands it to the next.
CHAINS: Mapping[str, tuple[str, ...]] = {"embedding": ("embedding", "lexical"), "lexical": ("lexical",)}
_DEADLINE_SECONDS = 300.0

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """A row, and the result of it."""

    row: Row
    result: EvaluationResult

    @property
    def is_right(self) -> bool:
        return self.result.passed is bool(self.row["label"])


def read_rows(path: Path) -> list[Row]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


async def decide(rows: Sequence[Row], tiers: Sequence[str], settings: Settings | None = None) -> list[Decision]:
    """A decision for each row, in order, from these tiers."""
    # On a busy machine the model may take longer to load than one answer may.
    settings = settings or Settings(warm_up=False, deadline_seconds=_DEADLINE_SECONDS)
    options = build_options(EvaluationOptions.model_validate({"tiers": list(tiers)}), settings, judge_names=())
    async with AsyncExitStack() as stack:
        service = build(make_plan(settings), stack, executor=InlineExecutor())

        async def decide_row(row: Row) -> Decision:
            sample = Sample(row["question"], tuple(row["contexts"]), row["answer"])
            result = await service.scorer.score(sample, options)
            return Decision(row, to_wire(result, sample, sample_id=row["id"]))

        return [decision async for decision in map_concurrently(decide_row, rows, limit=8, in_order=True)]


def figures(decisions: Sequence[Decision]) -> dict[str, Any]:
    """Balanced accuracy, the share of errors caught by kind, and the share of faithful answers that pass by shape."""
    faithful = [each for each in decisions if each.row["kind"] == "faithful"]
    by_kind = {kind: _right([each for each in decisions if each.row["kind"] == kind]) for kind in (*NEW, *REARRANGED)}
    shapes = dict.fromkeys(each.row["shape"] for each in decisions)
    passing = _right(faithful)
    new = _right([each for each in decisions if each.row["kind"] in NEW])
    errors = _right([each for each in decisions if each.row["kind"] != "faithful"])
    return {
        "rows": len(decisions),
        "balanced_accuracy_new": _mean(passing, new),
        "balanced_accuracy_all": _mean(passing, errors),
        "faithful_pass": passing,
        "caught": {"new": new, **by_kind},
        "faithful_pass_by_shape": {shape: _right([e for e in faithful if e.row["shape"] == shape]) for shape in shapes},
    }


def by_group(asked: str, decisions: Sequence[Decision]) -> dict[str, dict[str, Any]]:
    """Figures of the rows of each language under the tier that answered them, and of all rows."""
    groups: dict[str, list[Decision]] = {}
    for each in decisions:
        answered = each.result.tier or asked
        tier = answered if answered == asked else f"{asked} -> {answered}"
        groups.setdefault(f"{tier}, {each.row['lang']}", []).append(each)
    return {name: figures(group) for name, group in (*groups.items(), (f"{asked}, all", decisions))}


def markdown(groups: Mapping[str, Mapping[str, Any]]) -> str:
    """One table: a column for each group, a row for each figure."""
    columns = list(groups.values())
    rows: list[list[object]] = [["rows", *(str(each["rows"]) for each in columns)]]
    rows += [
        [f"**{title}**", *(_shown(each[name]) for each in columns)]
        for name, title in (
            ("balanced_accuracy_new", "balanced accuracy, errors that bring something new"),
            ("balanced_accuracy_all", "balanced accuracy, all errors"),
            ("faithful_pass", "faithful answers that pass"),
        )
    ]
    for part, title in (("caught", "caught: {}"), ("faithful_pass_by_shape", "faithful, {}")):
        names = dict.fromkeys(name for each in columns for name in each[part])
        rows += [[title.format(name), *(_shown(each[part].get(name)) for each in columns)] for name in names]
    return table(["", *groups], rows)


def describe(decision: Decision) -> str:
    """A wrong row as text: what was asked, the answer, and what each sentence was given and why."""
    row, result = decision.row, decision.result
    lines = [
        f"## {row['id']} ({row['kind']}): passed {result.passed}, tier {result.tier}, status {result.status}, "
        f"faithfulness {result.faithfulness}, flags {result.flags}",
        f"  question: {row['question']}",
        *(f"  context: {context}" for context in row["contexts"]),
        f"  answer: {row['answer']!r}",
    ]
    lines += [
        f"  {claim.verdict} {claim.support} {claim.text!r}: {claim.reason} {claim.flags}" for claim in result.claims
    ]
    lines += [
        f"  {attempt.tier}: {attempt.reason} {attempt.detail}" for attempt in result.trace.attempts if attempt.reason
    ]
    return "\n".join(lines)


def _right(decisions: Sequence[Decision]) -> float | None:
    return sum(each.is_right for each in decisions) / len(decisions) if decisions else None


def _mean(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else (first + second) / 2


def _shown(share: float | None) -> str:
    return "" if share is None else f"{share:.2f}"


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table in Markdown; floats with three significant digits, nothing for None."""
    lines = [header, ["---"] * len(header), *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=DATA / "everyday.jsonl")
    parser.add_argument("--tiers", nargs="+", choices=list(CHAINS), default=list(CHAINS))
    parser.add_argument("--show-failures", action="store_true")
    options = parser.parse_args(arguments)

    rows = read_rows(options.data)
    groups: dict[str, dict[str, Any]] = {}
    for tier in options.tiers:
        decisions = asyncio.run(decide(rows, CHAINS[tier]))
        if options.show_failures:
            print("\n\n".join([f"# {tier}", *(describe(each) for each in decisions if not each.is_right), ""]))
        groups |= by_group(tier, decisions)
    print(markdown(groups))
    print()
    print(json.dumps(groups, ensure_ascii=False))


if __name__ == "__main__":
    main()
