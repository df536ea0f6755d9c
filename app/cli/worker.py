"""`plumbline worker`: works on the jobs of a service that keeps them in PostgreSQL, until it is told to end."""

import argparse
import asyncio
import gc
import os
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import structlog

from app.errors import ConfigurationError
from app.postgres import connection_string, probe
from app.settings import Settings, load_settings, unknown_variables
from app.telemetry import configure_logging

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def add_command(commands: "Commands") -> None:
    """Adds `worker` to the parser."""
    worker = commands.add_parser(
        "worker",
        help="work on jobs kept in PostgreSQL, beside other workers",
        description="Works on the jobs that a service keeps in the PostgreSQL of PLUMBLINE_DATABASE_URL, beside any "
        "number of other workers, until SIGTERM or Ctrl-C. Settings are those of `plumbline serve`.",
    )
    worker.set_defaults(run=_work)


def _work(_: argparse.Namespace) -> int:
    settings = load_settings()
    if settings.database_url is None:
        raise ConfigurationError(
            "PLUMBLINE_DATABASE_URL is not set; a worker needs the PostgreSQL of the service: postgresql://user@host/name"
        )
    if not settings.job_concurrency:
        raise ConfigurationError("PLUMBLINE_JOB_CONCURRENCY is 0; a worker needs 1 or more")
    configure_logging(settings.log_level)
    for line in unknown_variables(os.environ):
        structlog.get_logger().warning("setting_unknown", detail=line)
    asyncio.run(_until_told(settings, connection_string(settings.database_url.get_secret_value())))
    return 0


async def _until_told(settings: Settings, conninfo: str) -> None:
    # Seconds of import that the other commands do not pay.
    from app.access.access import access_of  # noqa: PLC0415
    from app.assembly import build, make_plan, open_jobs  # noqa: PLC0415

    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for each in _SIGNALS:
        loop.add_signal_handler(each, told.set)
    await asyncio.to_thread(probe, conninfo)
    plan = make_plan(settings)
    access = access_of(settings)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(access.spending.kept())
        service = build(plan, stack, on_call=access.add_call)
        await open_jobs(plan, service.scorer, stack, hindrance_of=access.hindrance)
        # What was loaded lives as long as the process.
        gc.collect()
        gc.freeze()
        structlog.get_logger().info("working", concurrency=settings.job_concurrency)
        await told.wait()
        structlog.get_logger().info("worker_ending")
