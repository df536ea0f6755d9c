"""Agreement as text for a terminal; and the table of the READMEs:

    python -m benchmarks.agreement_table FOLDER [--tier lexical] [--tier embedding]

FOLDER holds dev.jsonl, dev_zh_keywords.jsonl and ragtruth_dev.jsonl, as `benchmarks.agreement` reads. Each data set is
scored by weights fitted on the others; everyday answers are `tests/data/everyday_prose.jsonl`. Prints Markdown.
"""

import argparse
import asyncio
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path

from benchmarks.everyday import CHAINS, DATA, decide, read_rows
from plumbline.cli.main import main as plumbline
from plumbline.extras.calibration.figures import Agreement, Figure, Figures
from plumbline.ground.telemetry import configure_logging

_FILES = ("dev.jsonl", "dev_zh_keywords.jsonl", "ragtruth_dev.jsonl")
# 18 answers, pairs that repeat other sets, synthetic ones
_SKIPPED = "frank_xsum,rank19,rgb_en_fact"
_SHOWN = {
    "ragtruth_qa": "RAGTruth, our split: questions",
    "ragtruth_summary": "RAGTruth, our split: summaries",
    "ragtruth_data2txt": "RAGTruth, our split: JSON to text",
    "faithbench": "FaithBench",
}

_HEAD = f"{'':24} {'rows':>5} {'AUROC':^17} {'BAcc at 0.5':^17} {'best BAcc':^17} {'Brier':^17} {'ECE':^17}"


def print_agreement(name: str, agreement: Agreement, *, over: Mapping[str, Mapping[str, float | None]]) -> None:
    """A line for each data set, group, the mean over data sets and all rows; then the lead over each baseline."""
    print(f"tier {name}\n{_HEAD}")
    lines = {**agreement.by_dataset, **{f"[{group}]": each for group, each in agreement.by_group.items()}}
    for label, figures in {**lines, "MACRO (mean of sets)": agreement.macro, "POOLED": agreement.pooled}.items():
        print(_line(label, figures))
    if agreement.one_label:
        print(f"one label only, in no mean: {', '.join(agreement.one_label)}")
    for baseline, lead in over.items():
        print(f"macro AUROC over {baseline}: {_cell(Figure(lead['value'], lead['low'], lead['high']), signed=True)}")


def print_datasets(measured: Mapping[str, Agreement]) -> None:
    """AUROC of every tier and baseline side by side."""
    print(f"{'AUROC':24} " + " ".join(f"{name:>17}" for name in measured))
    datasets = sorted({name for agreement in measured.values() for name in agreement.by_dataset})
    groups = list(dict.fromkeys(name for agreement in measured.values() for name in agreement.by_group))
    for name in datasets:
        _print_row(name, [agreement.by_dataset.get(name) for agreement in measured.values()])
    for name in groups:
        _print_row(f"[{name}]", [agreement.by_group.get(name) for agreement in measured.values()])
    _print_row("MACRO (mean of sets)", [agreement.macro for agreement in measured.values()])


def _print_row(label: str, found: list[Figures | None]) -> None:
    print(f"{label[:24]:24} " + " ".join(f"{_cell(each.auroc) if each else '-':>17}" for each in found))


def _line(label: str, figures: Figures) -> str:
    intervals = (
        figures.auroc,
        figures.balanced_accuracy,
        figures.best_balanced_accuracy,
        figures.brier,
    )
    cells = " ".join(f"{_cell(each):>17}" for each in intervals)
    return f"{label[:24]:24} {figures.rows:5} {cells} {_cell(figures.ece):>17}"


def _cell(figure: Figure, *, signed: bool = False) -> str:
    if figure.value is None:
        return "-"
    value = f"{figure.value:+.3f}" if signed else _short(figure.value)
    if figure.low is None or figure.high is None:
        return value
    return f"{value} [{_short(figure.low)},{_short(figure.high)}]"


def _short(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1)


def _lines(folder: Path, tier: str) -> Iterator[str]:
    labels = [str(folder / name) for name in _FILES]
    with redirect_stdout(io.StringIO()) as said:
        plumbline(["calibrate", *labels, "--tier", tier, "--fit", "weights", "--skip", _SKIPPED, "--json"])
    found = {name: each for report in json.loads(said.getvalue()) for name, each in report["after_by_dataset"].items()}
    for dataset, title in _SHOWN.items():
        cells = [_cell(Figure(*found[dataset][name])) for name in ("auroc", "balanced_accuracy")]
        yield f"| {title} | `{tier}` | AUROC {cells[0]}; balanced accuracy {cells[1]} |"
    decisions = asyncio.run(decide(read_rows(DATA / "everyday_prose.jsonl"), CHAINS[tier]))
    for lang in ("en", "zh"):
        rows = [each for each in decisions if each.row["lang"] == lang]
        failed = [each for each in rows if each.result.passed is False]
        counts = [sum(each.result.passed is outcome for each in rows) for outcome in (True, False, None)]
        right = sum(each.is_right for each in failed)
        passes = "{} pass, {} fail, {} unsure".format(*counts)
        yield f"| Everyday answers, {lang} ({len(rows)}) | `{tier}` | {passes}; {right} of {len(failed)} fails right |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tier", action="append", choices=sorted(CHAINS))
    arguments = parser.parse_args()
    configure_logging("ERROR")
    for tier in arguments.tier or CHAINS:
        for line in _lines(arguments.folder, tier):
            print(line, flush=True)


if __name__ == "__main__":
    main()
