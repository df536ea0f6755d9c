"""`plumbline prepare`: load the embedding model once, and store its converted form for a fast start."""

import argparse
import asyncio
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from plumbline.ground.errors import ConfigurationError
from plumbline.ground.settings import load_settings
from plumbline.ground.telemetry import configure_logging
from plumbline.judging.ports.observation import Readiness, State

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_command(commands: "Commands") -> None:
    prepare = commands.add_parser(
        "prepare",
        help="convert the embedding model, so that the next start is fast",
        description="Load the embedding model of the settings. With plumbline-rag[openvino] it is converted once and "
        "stored next to the model, or in the user's cache. Run it while building an image, for example. With an "
        "embeddings API it asks for one vector, and says what is wrong with address, key or model.",
    )
    prepare.set_defaults(run=_prepare)


def _prepare(_: argparse.Namespace) -> int:
    # Seconds of import that the other commands do not pay.
    from plumbline.assembly import encoder_of  # noqa: PLC0415

    settings = load_settings()
    configure_logging(settings.log_level)

    async def warmed_up() -> Readiness:
        with closing(encoder_of(settings)) as encoder:
            await encoder.warm_up()
            return encoder.readiness()

    readiness = asyncio.run(warmed_up())
    if readiness.state is not State.READY:
        raise ConfigurationError(f"tier embedding: {readiness.detail}")
    sys.stdout.write(f"{readiness.detail}: ready\n")
    return 0
