"""Measure what tiers without a judge decide, and how often it is right: python -m benchmarks.decided LABELS.jsonl [...]

Groups of answers: near-copies and planted errors, made here of sentences of the contexts of LABELS; everyday answers
(`tests/data/everyday_prose.jsonl`); answers of LABELS by kind. Shares that are right weigh both labels alike. Prints a
table in Markdown and one line of JSON last.
"""

import argparse
import asyncio
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.everyday import CHAINS, DATA, Decision, decide, read_rows
from plumbline.judging.text.segmentation import split_sentences

Row = dict[str, Any]

_LENGTHS: Final = range(50, 240)
_FEWEST_WORDS_CUT: Final = 8
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+(?: [A-Z][a-z]+)+")
_NUMBER: Final = re.compile(r"(?<![\w.,:/-])\d{2,3}(?![\w.,:/-])")
_SIGNED: Final = re.compile(r"(?<![\w.,:/-])\d+(?:\.\d+)?(?= ?(?:%|per cent|percent|degrees))")
_OPENER: Final = "According to the documents, "

# Of two sentences of one context: an answer nearly copied from it, by kind.
COPIES: Final[Mapping[str, Callable[[str, str], str | None]]] = {
    "verbatim": lambda one, _: one,
    "cut": lambda one, _: _cut(one),
    "joined": lambda one, other: f"{one[:-1]}, and {_lowered(other)}",
    "with an opener": lambda one, _: f"{_OPENER}{_lowered(one)}",
    "as a list": lambda one, other: f"- {one}\n- {other}",
    "as a table": lambda one, other: f"| No. | Text |\n| --- | --- |\n| 1 | {one} |\n| 2 | {other} |",
}
# The same with something made up.
ERRORS: Final[Mapping[str, Callable[[str, str], str | None]]] = {
    "number": lambda one, _: _replaced(_NUMBER, one, lambda found: str(int(found) + 13)),
    "name": lambda one, _: _replaced(_NAME, one, lambda _: "Orwin Halvek"),
    "link": lambda one, _: f"{one} See https://halvek.example/setup for more.",
    "code": lambda one, _: f"{one} The reference is KX-7731-B.",
    "time": lambda one, _: f"{one} It begins at 5:45 PM.",
    "sign": lambda one, _: _replaced(_SIGNED, one, lambda found: f"-{found}"),
}


def _cut(text: str) -> str | None:
    before, comma, _ = text.rpartition(", ")
    return f"{before}." if comma and len(before.split()) >= _FEWEST_WORDS_CUT else None


def _lowered(text: str) -> str:
    is_article = text.split(" ", 1)[0] in {"The", "A", "An", "It", "In", "This", "They", "He", "She"}
    return text[0].lower() + text[1:] if is_article else text


def _replaced(pattern: re.Pattern[str], text: str, change: Callable[[str], str]) -> str | None:
    found = pattern.search(text)
    return text[: found.start()] + change(found.group()) + text[found.end() :] if found else None


def made_rows(rows: Sequence[Row], count: int) -> Iterator[Row]:
    """Yield up to `count` near-copies and planted errors of each kind."""
    drawn = [rows[number] for number in np.random.default_rng(0).permutation(len(rows))]
    made: dict[str, int] = defaultdict(int)
    for row in drawn:
        context = max(row["contexts"], key=len)
        if row.get("lang", "en") != "en" or context.lstrip().startswith(("{", "[")):
            continue
        spoken = [each.text for each in split_sentences(context)]
        long = [text for text in spoken if len(text) in _LENGTHS and text[0].isupper() and text.endswith(".")]
        # The same everywhere, so that no context has two of it.
        if len(long) < len(("one", "other")):
            continue
        for group, makers, label in (("near-copies", COPIES, 1), ("made up", ERRORS, 0)):
            for kind, make in makers.items():
                answer = make(long[0], long[1])
                if answer is not None and made[kind] < count:
                    made[kind] += 1
                    yield _sample(row, answer, id=f"{kind} {made[kind]}", group=group, kind=kind, label=label)


def _sample(row: Row, answer: str, **named: object) -> Row:
    return {"question": row.get("question") or "", "contexts": row["contexts"], "answer": answer, **named}


def labelled_rows(rows: Sequence[Row], groups: Mapping[str, Sequence[str]]) -> Iterator[Row]:
    for number, row in enumerate(rows):
        for group, datasets in groups.items():
            if row["dataset"] in datasets:
                kind, label = row["dataset"], row["label"]
                yield _sample(row, row["answer"], id=str(number), group=group, kind=kind, label=label)


def figures(decisions: Sequence[Decision]) -> dict[str, Any]:
    """Shares that pass, fail and are left open, and the share of either decision that is right, labels alike."""
    outcomes = [(bool(each.row["label"]), each.result.passed) for each in decisions]
    totals = {label: max(1, sum(known is label for known, _ in outcomes)) for label in (True, False)}

    def share(label: bool, passed: bool) -> float:
        return sum(known is label and found is passed for known, found in outcomes) / totals[label]

    def right(passed: bool) -> float | None:
        all_ = share(True, passed) + share(False, passed)
        return share(passed, passed) / all_ if all_ and len({known for known, _ in outcomes}) > 1 else None

    shares = {
        name: sum(found is passed for _, found in outcomes) / len(outcomes)
        for name, passed in (("pass", True), ("fail", False), ("unsure", None))
    }
    return {"answers": len(outcomes), **shares, "pass_right": right(True), "fail_right": right(False)}


def table(by_tier: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    lines = ["| answers | n | " + " | ".join(f"{tier}: pass / fail / unsure | right" for tier in by_tier) + " |"]
    lines.append("|" + " --- |" * (2 + 2 * len(by_tier)))
    for group in next(iter(by_tier.values())):
        cells = []
        for found in by_tier.values():
            each = found[group]
            rights = " / ".join(
                "–" if each[name] is None else f"{each[name]:.2f}" for name in ("pass_right", "fail_right")
            )
            cells += [" / ".join(f"{each[name]:.2f}" for name in ("pass", "fail", "unsure")), rights]
        lines.append(f"| {group} | {each['answers']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("labels", nargs="+", type=Path)
    parser.add_argument("--groups", type=Path, default=Path(__file__).with_name("decided_groups.json"))
    parser.add_argument("--tiers", nargs="+", choices=list(CHAINS), default=list(CHAINS))
    parser.add_argument("--count", type=int, default=100, help="near-copies and errors of each kind")
    options = parser.parse_args(arguments)
    rows = [row for path in options.labels for row in read_rows(path)]
    everyday = [
        {**row, "group": f"everyday, {row['lang']}", "kind": ""} for row in read_rows(DATA / "everyday_prose.jsonl")
    ]
    chosen = [*made_rows(rows, options.count), *everyday, *labelled_rows(rows, json.loads(options.groups.read_text()))]
    by_tier: dict[str, dict[str, Any]] = {}
    for tier in options.tiers:
        groups: dict[str, list[Decision]] = defaultdict(list)
        for each in asyncio.run(decide(chosen, CHAINS[tier])):
            groups[each.row["group"]].append(each)
            if each.row["group"] in ("near-copies", "made up"):
                groups[f"{each.row['group']}: {each.row['kind']}"].append(each)
        by_tier[tier] = {group: figures(found) for group, found in groups.items()}
    print(table(by_tier))
    print(json.dumps(by_tier))


if __name__ == "__main__":
    main()
