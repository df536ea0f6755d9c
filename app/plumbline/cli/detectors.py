"""`plumbline detectors`: which are known, and what one says of a claim."""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from plumbline.assembly import build_detector
from plumbline.cli import Commands, build_command, start_logging
from plumbline.ground.errors import ConfigurationError, InvalidInput
from plumbline.ground.settings import Settings
from plumbline.judging.ports.exchange import Passage
from plumbline.judging.ports.observation import State
from plumbline.models.detectors.description import Description, find_description, shipped_descriptions
from plumbline.models.detectors.detector import LocalDetector

# Words of less support are shown.
_MARKED_BELOW = 0.5


def add_command(commands: Commands) -> None:
    build_command(commands, "detectors", {"list": _list, "try": _try})


def _list(options: argparse.Namespace) -> int:

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

    is_set = options.detector == settings.detector
    description = find_description(options.detector, model=settings.detector_model if is_set else None)
    questions = [("probe", (probe.premise,), probe.question, probe.claim) for probe in description.probe]
    questions += [("claim", tuple(options.context), options.question, claim) for claim in options.claim]
    async with load_detector(description, settings) as detector:
        sys.stdout.write(f"{description.name}: head {description.head}, unit {description.unit}\n")
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


@asynccontextmanager
async def load_detector(description: Description, settings: Settings) -> AsyncIterator[LocalDetector]:
    """Yield a detector that answered its probe; raise ConfigurationError."""

    async with aclosing(build_detector(description, settings)) as detector:
        await detector.warm_up()
        if (readiness := detector.readiness()).state is not State.READY:
            raise ConfigurationError(f"detector {description.name}: {readiness.detail}")
        yield detector
