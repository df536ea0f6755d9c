"""`plumbline calibrate`: fit the tiers embedding, lexical and detector, and decision models, on your own labels."""

import argparse
import asyncio
import sys
from contextlib import AsyncExitStack, aclosing
from dataclasses import astuple, replace
from datetime import UTC, datetime

from plumbline.assembly import build, build_encoder, load_detector, make_plan
from plumbline.cli import Commands, build_command, print_json, start_logging
from plumbline.extras.calibration.calibrating import CalibrationReport, calibrate_tiers, measuring_judge
from plumbline.extras.calibration.figures import Agreement, Figure
from plumbline.extras.calibration.labels import LabelledRow, read_labels
from plumbline.ground.errors import InvalidInput
from plumbline.ground.settings import Settings
from plumbline.judging.tiers.calibration import (
    FILE_VERSION,
    Calibration,
    CalibrationFile,
    CalibrationSource,
    CalibrationTable,
    load_calibrations,
)
from plumbline.judging.tiers.tier import TierName
from plumbline.models.chat.endpoints import resolve_judges
from plumbline.rows.report.label_agreement import LabelAgreement, measure_label_agreement

_TIERS = ("lexical", "embedding")
_SEVERAL = 2
_OVER_DATASETS = ("auroc", "balanced_accuracy")
_FIGURES = ("auroc", "balanced_accuracy", "brier", "ece")


def add_command(commands: Commands) -> None:
    build_command(commands, "calibrate", _calibrate)


def _calibrate(options: argparse.Namespace) -> int:
    settings = start_logging()
    rows = read_labelled(options)
    table = load_calibrations(settings.calibration)
    reports = _reports(rows, options, settings, table)
    if not reports:
        raise InvalidInput("no tier could be calibrated on these labels")
    kept = [report.calibration for report in reports if options.force or not report.is_worse]
    if options.out and kept:
        entry_by_key: dict[tuple[str, str, str], Calibration] = {}
        for entry in (*kept, *table.entries):
            entry_by_key.setdefault((entry.tier, entry.model, entry.language), entry)
        file = CalibrationFile(version=FILE_VERSION, entries=tuple(entry_by_key.values()))
        try:
            options.out.write_text(file.model_dump_json(indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=str(options.out)) from error
    given = ((person, number, label) for number, row in enumerate(rows) for person, label in row.given)
    people = measure_label_agreement(given)
    _print_reports(reports, people, options)
    if options.out and kept and not options.json:
        sys.stdout.write(f"written: {options.out}; the service loads it with PLUMBLINE_CALIBRATION={options.out}\n")
    for report in reports:
        if report.is_worse:
            entry, fate = report.calibration, "written all the same" if options.force else "not written without --force"
            sys.stderr.write(
                f"tier {entry.tier}, language {entry.language}: worse on held-out answers than the calibration in "
                f"force: {fate if options.out else 'better left as it is'}\n"
            )
    if options.out and not kept:
        raise InvalidInput("nothing written: no fit does better on held-out answers than the calibration in force")
    return 0


def read_labelled(options: argparse.Namespace) -> list[LabelledRow]:
    """Read the rows of the files `labels`, without the datasets of `skip`; bad lines are reported and left out."""

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
    rows: list[LabelledRow], options: argparse.Namespace, settings: Settings, table: CalibrationTable
) -> list[CalibrationReport]:

    names = [path.name for path in options.labels]
    tier_options = "".join(f" --tier {tier}" for tier in options.tier or ())
    skip = f" --skip {options.skip}" if options.skip else ""
    source = CalibrationSource(
        data=options.name or ", ".join(names),
        rows=len(rows),
        date=datetime.now(UTC).date().isoformat(),
        command=f"plumbline calibrate {' '.join(names)}{tier_options} --fit {options.fit}{skip}",
    )
    plan = replace(make_plan(settings), calibrations=CalibrationTable(()))
    described = plan.detector
    models = {
        name: each[0].model for name, each in resolve_judges(settings).items() if each[0].api not in (None, "chat")
    }
    if "llm" in (options.tier or ()) and not models:
        raise InvalidInput("tier llm: no decision model is configured; set PLUMBLINE_LLM_API, or `api` of a judge")
    usual = (*_TIERS, *(("detector",) if described else ()))
    tiers = [TierName(name) for name in options.tier or usual]

    async def calibrate() -> tuple[list[CalibrationReport], list[str]]:
        async with AsyncExitStack() as stack:
            judges = []
            if TierName.LLM in tiers:
                cascade, seconds = build(plan, stack).cascade, settings.row_deadline_seconds
                judges = [measuring_judge(cascade, *each, deadline_seconds=seconds) for each in models.items()]
            encoder = await stack.enter_async_context(aclosing(build_encoder(settings)))
            detector = None
            if described is not None and TierName.DETECTOR in tiers:
                detector = await stack.enter_async_context(load_detector(described, settings))
            return await calibrate_tiers(
                rows,
                tiers,
                fit=options.fit,
                source=source,
                draws=options.draws,
                table=table,
                encoder=encoder,
                detector=detector,
                judges=judges,
            )

    reports, skipped = asyncio.run(calibrate())
    for line in skipped:
        sys.stderr.write(f"{line}\n")
    return reports


def _print_reports(reports: list[CalibrationReport], people: LabelAgreement, options: argparse.Namespace) -> None:
    if options.json:
        print_json([{**_as_dict(report), "people": _people_as_dict(people)} for report in reports])
        return
    for report in reports:
        entry = report.calibration
        sys.stdout.write(
            f"tier {entry.tier}, model {entry.model}, language {entry.language}: {report.answers} answers, "
            f"{report.faithful} faithful\n"
        )
        for name in _FIGURES:
            before, after = (_format_figure(_figure(each, name)) for each in (report.before, report.after))
            sys.stdout.write(f"  {name:18} before {before}   after {after}\n")
        before, after = (_threshold(each) for each in (report.before, report.after))
        sys.stdout.write(f"  {'best threshold':18} before {before}   after {after}\n")
        curve = ", ".join(f"{score:.2f} {share:.2f}" for score, share in entry.reliability)
        sys.stdout.write(f"  reliability        score and share of faithful answers around it: {curve}\n")
    if len(people.people) >= _SEVERAL:
        alpha = people.alpha.reason or f"{people.alpha.value:.3f}"
        rows = f"{people.rows} rows with two labels or more"
        sys.stdout.write(f"people: {len(people.people)}, {rows}: Krippendorff's alpha {alpha}\n")
    sys.stdout.write(
        "after: scores of answers that were left out of the fit; intervals: 95 %, over documents\n"
        "best threshold: of all answers together, with its balanced accuracy on these same labels; for `threshold` of "
        "a request or PLUMBLINE_THRESHOLD\n"
    )


def _as_dict(report: CalibrationReport) -> dict[str, object]:
    return {
        "calibration": report.calibration.model_dump(mode="json"),
        "before": {name: astuple(_figure(report.before, name)) for name in _FIGURES},
        "after": {name: astuple(_figure(report.after, name)) for name in _FIGURES},
        "best_threshold": {"before": report.before.pooled.best_threshold, "after": report.after.pooled.best_threshold},
        "is_worse": report.is_worse,
        "after_by_dataset": {
            dataset: {name: astuple(getattr(figures, name)) for name in _FIGURES}
            for dataset, figures in report.after.by_dataset.items()
        },
    }


def _people_as_dict(people: LabelAgreement) -> dict[str, object] | None:
    if len(people.people) < _SEVERAL:
        return None
    return {"people": people.people, "rows": people.rows, "alpha": people.alpha._asdict()}


def _figure(agreement: Agreement, name: str) -> Figure:
    """Return a figure: AUROC and balanced accuracy as means over datasets, the others over all rows."""
    figures = agreement.macro if name in _OVER_DATASETS else agreement.pooled
    figure: Figure = getattr(figures, name)
    return figure


def _threshold(agreement: Agreement) -> str:
    threshold, accuracy = agreement.pooled.best_threshold, agreement.pooled.best_balanced_accuracy.value
    text = "-" if threshold is None or accuracy is None else f"{threshold:.3f} ({accuracy:.3f})"
    return text.rjust(22)


def _format_figure(figure: Figure) -> str:
    if figure.value is None:
        return "-".rjust(22)
    interval = "" if figure.low is None or figure.high is None else f" [{figure.low:.3f}, {figure.high:.3f}]"
    return f"{figure.value:.3f}{interval}".rjust(22)
