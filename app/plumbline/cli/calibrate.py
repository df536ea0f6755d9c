"""`plumbline calibrate`: fit the tiers embedding and lexical on your own labels."""

import argparse
import asyncio
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from plumbline.ground.errors import InvalidInput
from plumbline.ground.settings import Settings, load_settings
from plumbline.ground.telemetry import configure_logging

if TYPE_CHECKING:
    from plumbline.extras.calibration.calibrating import CalibrationReport
    from plumbline.extras.calibration.figures import Agreement, Figure
    from plumbline.extras.calibration.labels import LabelledRow
    from plumbline.judging.tiers.calibration import Calibration, CalibrationTable

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_TIERS = ("lexical", "embedding")
_OVER_DATASETS = ("auroc", "balanced_accuracy")
_FIGURES = ("auroc", "balanced_accuracy", "kappa", "brier", "ece")


def add_command(commands: "Commands") -> None:
    """Add `calibrate` to the parser."""
    command = commands.add_parser(
        "calibrate", help="fit tiers embedding and lexical on labelled answers and say how far they agree with them"
    )
    command.add_argument(
        "labels",
        type=Path,
        nargs="+",
        metavar="LABELS.jsonl",
        help="a line: contexts, answer, label (1 faithful, 0 not)",
    )
    command.add_argument("--tier", action="append", choices=_TIERS, help="repeatable; default: both")
    command.add_argument(
        "--fit",
        choices=("scale", "weights"),
        default="scale",
        help="slope and boundary alone, for hundreds of labels; or the weight of every measure too, for thousands "
        "(default: %(default)s)",
    )
    command.add_argument(
        "--out", type=Path, metavar="FILE", help="write the calibration file for PLUMBLINE_CALIBRATION"
    )
    command.add_argument("--skip", default="", metavar="NAMES", help="datasets left out, with commas between")
    command.add_argument("--name", metavar="TEXT", help="what the file calls the data (default: its file name)")
    command.add_argument("--draws", type=int, default=1_000, help="resamples for the intervals (default: %(default)s)")
    command.add_argument("--json", action="store_true", help="JSON on standard output in place of a table")
    command.set_defaults(run=_calibrate)


def _calibrate(options: argparse.Namespace) -> int:
    # Seconds of import that the other commands do not pay.
    from plumbline.judging.tiers.calibration import FILE_VERSION, CalibrationFile, load_calibrations  # noqa: PLC0415

    settings = load_settings()
    configure_logging(settings.log_level)
    rows = _read(options)
    table = load_calibrations(settings.calibration)
    reports = _reports(rows, options, settings, table)
    if not reports:
        raise InvalidInput("no tier could be calibrated on these labels")
    made = [report.calibration for report in reports]
    replaced = {_key(entry) for entry in made}
    entries = (*made, *(entry for entry in table.entries if _key(entry) not in replaced))
    if options.out:
        file = CalibrationFile(version=FILE_VERSION, entries=entries)
        try:
            options.out.write_text(file.model_dump_json(indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=str(options.out)) from error
    _say(reports, options)
    return 0


def _read(options: argparse.Namespace) -> list["LabelledRow"]:
    from plumbline.extras.calibration.labels import read_labels  # noqa: PLC0415

    skipped = frozenset(options.skip.split(","))
    rows: list[LabelledRow] = []
    for path in options.labels:
        labels = read_labels(path)
        rows.extend(row for row in labels.rows if row.dataset not in skipped)
        for problem in labels.problems:
            sys.stderr.write(f"{path.name}: {problem}: left out\n")
    if not rows:
        raise InvalidInput("every row is of a dataset that --skip names", place=options.labels[0].name)
    return rows


def _reports(
    rows: list["LabelledRow"], options: argparse.Namespace, settings: Settings, table: "CalibrationTable"
) -> list["CalibrationReport"]:
    from plumbline.assembly import encoder_of  # noqa: PLC0415
    from plumbline.extras.calibration.calibrating import CalibrationRequest, calibrate_tiers  # noqa: PLC0415
    from plumbline.judging.tiers.calibration import CalibrationSource  # noqa: PLC0415
    from plumbline.judging.tiers.tier import TierName  # noqa: PLC0415

    source = CalibrationSource(
        data=options.name or ", ".join(path.name for path in options.labels),
        rows=len(rows),
        date=datetime.now(UTC).date().isoformat(),
        command=_command(options),
    )
    tiers = [TierName(name) for name in options.tier or _TIERS]
    with closing(encoder_of(settings)) as encoder:
        request = CalibrationRequest(tiers, options.fit, source, options.draws)
        reports, passed_over = asyncio.run(calibrate_tiers(rows, request, table, encoder))
    for line in passed_over:
        sys.stderr.write(f"{line}\n")
    return reports


def _command(options: argparse.Namespace) -> str:
    tiers = "".join(f" --tier {tier}" for tier in options.tier or ())
    skip = f" --skip {options.skip}" if options.skip else ""
    return f"plumbline calibrate {' '.join(path.name for path in options.labels)}{tiers} --fit {options.fit}{skip}"


def _key(entry: "Calibration") -> tuple[str, str, str]:
    return entry.tier, entry.model, entry.language


def _say(reports: list["CalibrationReport"], options: argparse.Namespace) -> None:
    if options.json:
        sys.stdout.write(msgspec.json.encode([_as_dict(report) for report in reports]).decode() + "\n")
        return
    for report in reports:
        entry = report.calibration
        sys.stdout.write(
            f"tier {entry.tier}, model {entry.model}, language {entry.language}: {report.answers} answers, "
            f"{report.faithful} faithful\n"
        )
        for name in _FIGURES:
            before, after = (_shown(_figure(each, name)) for each in (report.before, report.after))
            sys.stdout.write(f"  {name:18} before {before}   after {after}\n")
        curve = ", ".join(f"{score:.2f} {share:.2f}" for score, share in entry.reliability)
        sys.stdout.write(f"  reliability        score and share of faithful answers around it: {curve}\n")
    sys.stdout.write("after: scores of answers that were left out of the fit; intervals: 95 %, over documents\n")
    if options.out:
        sys.stdout.write(f"written: {options.out}; the service loads it with PLUMBLINE_CALIBRATION={options.out}\n")


def _as_dict(report: "CalibrationReport") -> dict[str, object]:
    entry = report.calibration.model_dump(mode="json")
    figures = {
        when: {name: _triple(_figure(each, name)) for name in _FIGURES}
        for when, each in (("before", report.before), ("after", report.after))
    }
    by_dataset = {
        name: {figure: _triple(getattr(each, figure)) for figure in _FIGURES}
        for name, each in report.after.by_dataset.items()
    }
    return {"calibration": entry, **figures, "after_by_dataset": by_dataset}


def _figure(agreement: "Agreement", name: str) -> "Figure":
    """Return a figure: AUROC and balanced accuracy as means over datasets, the others over all rows."""
    figures = agreement.macro if name in _OVER_DATASETS else agreement.pooled
    figure: Figure = getattr(figures, name)
    return figure


def _triple(figure: "Figure") -> tuple[float | None, float | None, float | None]:
    return figure.value, figure.low, figure.high


def _shown(figure: "Figure") -> str:
    if figure.value is None:
        return "-".rjust(22)
    interval = "" if figure.low is None or figure.high is None else f" [{figure.low:.3f}, {figure.high:.3f}]"
    return f"{figure.value:.3f}{interval}".rjust(22)
