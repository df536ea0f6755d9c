"""Measures pass, fail and unsure on probes and on everyday answers: python -m benchmarks.probes [--show-failures]

`tests/data/probes.jsonl` has a true and a false twin about the same contexts, by kind;
`tests/data/everyday_prose.jsonl` has answers in the prose of an LLM, half of them with one wrong sentence (`wrong`).
Half of both is Chinese, and both were written before a rule was changed for them. Near-copies, in eight shapes, are
made of the contexts of the latter. Prints tables in Markdown and one line of JSON last.
"""

import argparse
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "tests" / "data"
# A tier that cannot read a row's language hands it to the next.
CHAINS: Mapping[str, tuple[str, ...]] = {"embedding": ("embedding", "lexical"), "lexical": ("lexical",)}
# A false twin that scores above this reads as a good answer, whatever `passed` says.
_HIGH = 0.7

# Between sentences, above a table, before a sentence, between two that become one, and after the last.
_GLUE: Mapping[str, tuple[str, str, str, str, str]] = {
    "en": (" ", "| No. | Text |", "According to the document, ", ", and ", "I hope this helps!"),
    "zh": ("", "| 编号 | 内容 |", "根据资料，", "，", "希望以上信息对您有帮助。"),
}

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Decided:
    """An answer whose label is known, and the result of it."""

    row: Row
    answer: str
    is_true: bool
    result: Any

    @property
    def outcome(self) -> str:
        return {True: "pass", False: "fail", None: "unsure"}[self.result.passed]

    @property
    def is_too_high(self) -> bool:
        return not self.is_true and (self.result.faithfulness or 0) > _HIGH

    @property
    def is_wrong(self) -> bool:
        return self.outcome == ("fail" if self.is_true else "pass") or ("true" in self.row and self.is_too_high)


def read_rows(name: str, folder: Path = DATA) -> list[Row]:
    with (folder / f"{name}.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def near_copies(rows: Sequence[Row]) -> list[Row]:
    """Sentences of each context, copied word for word or nearly so: each shape once a context."""
    made = []
    for number, (context, lang) in enumerate({row["contexts"][0]: row["lang"] for row in rows}.items()):
        is_chinese = lang == "zh"
        ends = r"(?<=[。！？])" if is_chinese else r"(?<=[.!?])\s+(?=[A-Z0-9])"
        sentences = [each for each in re.split(ends, context) if each]
        one, other = sentences[number % (len(sentences) - 1) :][:2]
        gap, heads, opener, joint, closing = _GLUE[lang]
        later = other if is_chinese else other[0].lower() + other[1:]
        shapes = {
            "one sentence": one,
            "two sentences": one + gap + other,
            "first and last": sentences[0] + gap + sentences[-1],
            "opener": opener + (one if is_chinese else one[0].lower() + one[1:]),
            "joined": one[:-1] + joint + later,
            "closing": one + gap + closing,
            "list": f"- {one}\n- {other}",
            "table": f"{heads}\n|---|---|\n| 1 | {one} |\n| 2 | {other} |",
        }
        made += [
            {"id": f"{kind}-{number}", "kind": kind, "lang": lang, "contexts": [context], "question": ""}
            | {"answer": answer, "label": 1}
            for kind, answer in shapes.items()
        ]
    return made


def answers_of(row: Row) -> list[tuple[str, bool]]:
    """The answers of a row with their labels: both twins of a probe, the one of an everyday row."""
    return [(row["true"], True), (row["false"], False)] if "true" in row else [(row["answer"], bool(row["label"]))]


def decide(rows: Sequence[Row], tiers: Sequence[str]) -> list[Decided]:
    """Judge each answer by the first of these tiers that can read it, in this process."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("PLUMBLINE_ROW_DEADLINE_SECONDS", "300")
    from plumbline.integrations.checker import open_client  # noqa: PLC0415 - after the environment is set

    given = [(row, *each) for row in rows for each in answers_of(row)]
    client = open_client()
    try:
        samples = [
            {"contexts": row["contexts"], "question": row["question"], "answer": answer} for row, answer, _ in given
        ]
        results = [row.result for row in client.evaluate_many(samples, options={"tiers": list(tiers)}, in_order=True)]
    finally:
        client.close()
    return [Decided(*each, result) for each, result in zip(given, results, strict=True)]


def counts(decided: Iterable[Decided]) -> dict[str, int]:
    """Count true and false answers that pass, fail and are unsure, and false ones that score too high."""
    each = list(decided)
    found = Counter(f"{'true' if one.is_true else 'false'}_{one.outcome}" for one in each)
    names = [f"{label}_{outcome}" for label in ("true", "false") for outcome in ("pass", "unsure", "fail")]
    return {
        "answers": len(each),
        **{name: found[name] for name in names},
        "false_high": sum(e.is_too_high for e in each),
    }


def group(decided: Sequence[Decided], column: str) -> dict[str, dict[str, int]]:
    """Counts by the answers' values in this column, and of all answers."""
    names = dict.fromkeys(str(each.row[column]) for each in decided)
    groups = {name: counts(each for each in decided if each.row[column] == name) for name in names}
    return {**groups, "all": counts(decided)}


def table(groups: Mapping[str, Mapping[str, int]]) -> str:
    """The groups as a table in Markdown, a row for each."""
    columns = list(next(iter(groups.values())))
    lines = [["", *(column.replace("_", ", ", 1) for column in columns)], ["---"] * (len(columns) + 1)]
    lines += [[name, *(str(found[column]) for column in columns)] for name, found in groups.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def describe(decided: Decided) -> str:
    """A wrong answer as text: its contexts, and what each sentence was given and why."""
    row, result = decided.row, decided.result
    lines = [
        f"## {row['id']} ({'true' if decided.is_true else 'false'}): {decided.outcome}, tier {result.tier}, "
        f"{result.status}, faithfulness {result.faithfulness}, rule {getattr(result.decision, 'rule', None)}",
        *(f"  context: {context}" for context in row["contexts"]),
        f"  question: {row['question']}",
        f"  answer: {decided.answer}",
        *([f"  wrong: {row['wrong']}"] if "wrong" in row else []),
        *(f"  {claim.verdict} {claim.support} {claim.text!r}: {claim.reason}" for claim in result.claims),
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tiers", nargs="+", choices=list(CHAINS), default=list(CHAINS))
    parser.add_argument("--data", type=Path, default=DATA, help="a folder with probes.jsonl and everyday_prose.jsonl")
    parser.add_argument("--show-failures", action="store_true")
    options = parser.parse_args(arguments)

    found: dict[str, dict[str, dict[str, int]]] = {}
    prose = read_rows("everyday_prose", options.data)
    sets = {"probes": read_rows("probes", options.data), "near-copies": near_copies(prose), "everyday prose": prose}
    for data, rows in sets.items():
        for tier in options.tiers:
            decided = decide(rows, CHAINS[tier])
            if options.show_failures:
                print("\n\n".join([f"# {data}, {tier}", *(describe(each) for each in decided if each.is_wrong), ""]))
            groups = group(decided, "kind") if "kind" in rows[0] else {}
            found[f"{data}, {tier}"] = {**groups, **group(decided, "lang")}
            print(f"{data}, tier {tier}\n\n{table(found[f'{data}, {tier}'])}\n")
    print(json.dumps(found, ensure_ascii=False))


if __name__ == "__main__":
    main()
