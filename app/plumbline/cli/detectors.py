"""`plumbline detectors`: which are known, what one says of a claim, and how they agree with your labels."""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.cli import Commands, print_json, start_logging
from plumbline.cli.calibrate import read_labelled
from plumbline.ground.errors import ConfigurationError, InvalidInput
from plumbline.ground.settings import Settings

if TYPE_CHECKING:
    from plumbline.extras.calibration.calibrating import TierComparison
    from plumbline.extras.calibration.labels import LabelledRow
    from plumbline.models.detectors.description import Description
    from plumbline.models.detectors.detector import LocalDetector
    from plumbline.models.detectors.remote_detector import RemoteDetector


# Words of less support are shown.
_MARKED_BELOW = 0.5


def add_command(commands: Commands) -> None:
    """Add `detectors` to the parser."""
    command = commands.add_parser("detectors", help="list detectors, try one on a claim, compare some on labels")
    actions = command.add_subparsers(required=True, metavar="ACTION")
    known = actions.add_parser("list", help="list the detectors that have a description")
    known.set_defaults(run=_list)
    trial = actions.add_parser("try", help="load a detector, and show what it says of its probe and of a claim")
    trial.add_argument("detector", metavar="NAME", help="a value for PLUMBLINE_DETECTOR")
    trial.add_argument("--claim", action="append", default=[], metavar="TEXT", help="a sentence to check; repeatable")
    trial.add_argument("--context", action="append", default=[], metavar="TEXT", help="a passage; repeatable")
    trial.add_argument("--question", default="", metavar="TEXT")
    trial.set_defaults(run=_try)
    compare = actions.add_parser("compare", help="show how detectors and the other tiers agree with labels")
    line_help = "JSON Lines with contexts, answer and label (1 faithful, 0 not)"
    add = compare.add_argument
    add("labels", type=Path, nargs="+", metavar="LABELS.jsonl", help=line_help)
    add(
        "--detector",
        action="append",
        metavar="NAME",
        help="a value for PLUMBLINE_DETECTOR; repeatable (default: that of the settings)",
    )
    add("--skip", default="", metavar="NAMES", help="datasets to leave out, separated by commas")
    add("--draws", type=int, default=1_000, help="resamples for the intervals (default: %(default)s)")
    add("--json", action="store_true", help="print JSON instead of a table")
    compare.set_defaults(run=_compare)


def _list(options: argparse.Namespace) -> int:
    from plumbline.models.detectors.description import shipped_descriptions  # noqa: PLC0415

    for name, each in shipped_descriptions().items():
        languages = ", ".join(each.languages) or "all languages"
        more = "; ".join(filter(None, (languages, each.unit, each.licence, each.quoted)))
        sys.stdout.write(f"{name:28} {each.model}\n{'':28} {more}\n")
    return 0


def _try(options: argparse.Namespace) -> int:
    if bool(options.claim) != bool(options.context):
        raise InvalidInput("--claim and --context: expected both, or neither for the probe alone")
    settings = start_logging()
    return asyncio.run(_try_detector(options, settings))


async def _try_detector(options: argparse.Namespace, settings: Settings) -> int:
    from plumbline.judging.ports.exchange import Passage  # noqa: PLC0415

    description = _description_of(options.detector, settings)
    questions = [("probe", (probe.premise,), probe.question, probe.claim) for probe in description.probe]
    questions += [("claim", tuple(options.context), options.question, claim) for claim in options.claim]
    async with _load_detector(description, settings) as (detector, grown):
        size = "" if grown is None else f", {grown:.0f} MiB"
        sys.stdout.write(f"{description.name}: head {description.head}, unit {description.unit}{size}\n")
        for kind, contexts, question, claim in questions:
            passages = [Passage(place, text, ((0, len(text)),)) for place, text in enumerate(contexts)]
            started = time.perf_counter()
            reading = await detector.read(passages, question, [claim], seconds=settings.deadline_seconds)
            (finding,) = reading.findings
            denied = ", denied" if finding.is_denied else ""
            seconds = time.perf_counter() - started
            sys.stdout.write(f"{kind}: support {finding.support:.4f}{denied} ({seconds:.3f} s)  {claim}\n")
            for start, end, support in finding.words:
                if support < _MARKED_BELOW:
                    sys.stdout.write(f"  marked: {claim[start:end]} ({support:.4f})\n")
    return 0


def _compare(options: argparse.Namespace) -> int:
    settings = start_logging()
    names = options.detector or ([settings.detector] if settings.detector else [])
    rows = read_labelled(options)
    found = asyncio.run(_compare_tiers(rows, names, settings, draws=options.draws))
    if options.json:
        print_json(found)
        return 0
    sys.stdout.write(f"{'model':34} lang  answers  refused  AUROC [95 %]         balanced accuracy  seconds      MiB\n")
    for each in found:
        auroc, accuracy = each.agreement.macro.auroc, each.agreement.macro.balanced_accuracy
        interval = "" if auroc.low is None or auroc.high is None else f"[{auroc.low:.3f}, {auroc.high:.3f}]"
        sys.stdout.write(
            f"{each.model:34} {each.language:5} {each.answers:7} {each.refused:8} "
            f" {_format_figure(auroc.value)} {interval:16} {_format_figure(accuracy.value):>17} {each.seconds:8.3f}"
            f" {'-' if each.load_mebibytes is None else format(each.load_mebibytes, '.0f'):>8}\n"
        )
    sys.stdout.write("AUROC and balanced accuracy: mean over datasets; seconds: of one answer alone\n")
    sys.stdout.write("MiB: growth of the process in memory as the detector loaded; the first brings its libraries\n")
    return 0


def _format_figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


async def _compare_tiers(
    rows: list["LabelledRow"], names: list[str], settings: Settings, *, draws: int
) -> list["TierComparison"]:
    from plumbline.assembly import build_encoder  # noqa: PLC0415
    from plumbline.extras.calibration.calibrating import compare_tier, measuring_tier  # noqa: PLC0415
    from plumbline.judging.tiers.calibration import load_calibrations  # noqa: PLC0415
    from plumbline.judging.tiers.tier import TierName  # noqa: PLC0415

    table = load_calibrations(settings.calibration)
    found: list[TierComparison] = []
    async with aclosing(build_encoder(settings)) as encoder:
        for usual in (TierName.LEXICAL, TierName.EMBEDDING):
            found += await compare_tier(rows, measuring_tier(usual, encoder), table, draws=draws)
        for name in names:
            # One model at a time is in memory.
            async with _load_detector(_description_of(name, settings), settings) as (detector, grown):
                tier = measuring_tier(TierName.DETECTOR, encoder, detector)
                compared = await compare_tier(rows, tier, table, draws=draws)
                found += [replace(each, load_mebibytes=grown) for each in compared]
    return found


def _description_of(name: str, settings: Settings) -> "Description":
    from plumbline.models.detectors.description import find_description  # noqa: PLC0415

    return find_description(name, model=settings.detector_model if name == settings.detector else None)


@asynccontextmanager
async def _load_detector(
    description: "Description", settings: Settings
) -> "AsyncIterator[tuple[LocalDetector | RemoteDetector, float | None]]":
    """Yield a detector that answered its probe, and the MiB that the process grew by as it loaded, if that is known.

    Raises:
        ConfigurationError: it cannot be loaded, or answers its probe otherwise than described.
    """
    from plumbline.assembly import build_detector  # noqa: PLC0415
    from plumbline.judging.ports.observation import State  # noqa: PLC0415

    async with aclosing(build_detector(description, settings)) as detector:
        before = _resident_mebibytes()
        await detector.warm_up()
        after = _resident_mebibytes()
        if (readiness := detector.readiness()).state is not State.READY:
            raise ConfigurationError(f"detector {description.name}: {readiness.detail}")
        yield detector, None if before is None or after is None else after - before


def _resident_mebibytes() -> float | None:
    """Return the memory of this process now; None where the system does not tell (not Linux)."""
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return None
