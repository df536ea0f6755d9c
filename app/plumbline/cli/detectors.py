"""`plumbline detectors`: which detectors are known, and how they and the other tiers agree with your labels."""

import argparse
import asyncio
import os
import sys
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from plumbline.cli.calibrate import read_labelled
from plumbline.ground.errors import ConfigurationError
from plumbline.ground.settings import Settings, load_settings
from plumbline.ground.telemetry import configure_logging

if TYPE_CHECKING:
    from plumbline.extras.calibration.calibrating import TierComparison
    from plumbline.extras.calibration.labels import LabelledRow

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_command(commands: "Commands") -> None:
    """Add `detectors` to the parser."""
    command = commands.add_parser("detectors", help="list known detectors, or compare some on labelled answers")
    actions = command.add_subparsers(required=True, metavar="ACTION")
    known = actions.add_parser("list", help="list the detectors that have a description")
    known.set_defaults(run=_list)
    compare = actions.add_parser("compare", help="show how detectors and the other tiers agree with labels")
    line_help = "JSON Lines with contexts, answer and label (1 faithful, 0 not)"
    compare.add_argument("labels", type=Path, nargs="+", metavar="LABELS.jsonl", help=line_help)
    compare.add_argument(
        "--detector",
        action="append",
        metavar="NAME",
        help="a value for PLUMBLINE_DETECTOR; repeatable (default: that of the settings)",
    )
    compare.add_argument("--skip", default="", metavar="NAMES", help="datasets to leave out, separated by commas")
    compare.add_argument("--draws", type=int, default=1_000, help="resamples for the intervals (default: %(default)s)")
    compare.add_argument("--json", action="store_true", help="print JSON instead of a table")
    compare.set_defaults(run=_compare)


def _list(options: argparse.Namespace) -> int:
    from plumbline.models.detectors.description import shipped_descriptions  # noqa: PLC0415

    for name, each in shipped_descriptions().items():
        languages = ", ".join(each.languages) or "all languages"
        more = "; ".join(filter(None, (languages, each.unit, each.licence, each.quoted)))
        sys.stdout.write(f"{name:28} {each.model}\n{'':28} {more}\n")
    return 0


def _compare(options: argparse.Namespace) -> int:
    settings = load_settings()
    configure_logging(settings.log_level)
    names = options.detector or ([settings.detector] if settings.detector else [])
    rows = read_labelled(options)
    found = asyncio.run(_compared(rows, names, settings, draws=options.draws))
    if options.json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return 0
    sys.stdout.write(f"{'model':34} lang  answers  refused  AUROC [95 %]         balanced accuracy  seconds      MiB\n")
    for each in found:
        auroc, accuracy = each.agreement.macro.auroc, each.agreement.macro.balanced_accuracy
        interval = "" if auroc.low is None or auroc.high is None else f"[{auroc.low:.3f}, {auroc.high:.3f}]"
        sys.stdout.write(
            f"{each.model:34} {each.language:5} {each.answers:7} {each.refused:8}  {_three(auroc.value)} {interval:16}"
            f" {_three(accuracy.value):>17} {each.seconds:8.3f}"
            f" {'-' if each.load_mebibytes is None else format(each.load_mebibytes, '.0f'):>8}\n"
        )
    sys.stdout.write("AUROC and balanced accuracy: mean over datasets; seconds: of one answer alone\n")
    sys.stdout.write("MiB: growth of the process in memory as the detector loaded; the first brings its libraries\n")
    return 0


async def _compared(
    rows: list["LabelledRow"], names: list[str], settings: Settings, *, draws: int
) -> list["TierComparison"]:
    from plumbline.assembly import detector_of, encoder_of  # noqa: PLC0415
    from plumbline.extras.calibration.calibrating import compare_tier, measuring_tier  # noqa: PLC0415
    from plumbline.judging.ports.observation import State  # noqa: PLC0415
    from plumbline.judging.tiers.calibration import load_calibrations  # noqa: PLC0415
    from plumbline.judging.tiers.tier import TierName  # noqa: PLC0415
    from plumbline.models.detectors.description import find_description  # noqa: PLC0415

    table = load_calibrations(settings.calibration)
    found: list[TierComparison] = []
    with ExitStack() as stack:
        encoder = stack.enter_context(closing(encoder_of(settings)))
        for usual in (TierName.LEXICAL, TierName.EMBEDDING):
            found += await compare_tier(rows, measuring_tier(usual, encoder), table, draws=draws)
        for name in names:
            description = find_description(name, model=settings.detector_model if name == settings.detector else None)
            # One model at a time is in memory.
            with closing(detector_of(description, settings)) as detector:
                before = _resident_mebibytes()
                await detector.warm_up()
                after = _resident_mebibytes()
                if (readiness := detector.readiness()).state is not State.READY:
                    raise ConfigurationError(f"detector {name}: {readiness.detail}")
                tier = measuring_tier(TierName.DETECTOR, encoder, detector)
                grown = None if before is None or after is None else after - before
                compared = await compare_tier(rows, tier, table, draws=draws)
                found += [replace(each, load_mebibytes=grown) for each in compared]
    return found


def _resident_mebibytes() -> float | None:
    """Return the memory of this process now; None where the system does not tell (not Linux)."""
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return None


def _three(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
