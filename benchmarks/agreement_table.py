"""Agreement as text for a terminal."""

from collections.abc import Mapping

from plumbline.extras.calibration.figures import Agreement, Figure, Figures

_HEAD = (
    f"{'':24} {'rows':>5} {'AUROC':^17} {'BAcc at 0.5':^17} {'best BAcc':^17} {'kappa':^17} {'Brier':^17} {'ECE':^17}"
)


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
        figures.kappa,
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
