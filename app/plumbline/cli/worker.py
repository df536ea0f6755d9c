"""`plumbline worker`: process jobs that a service keeps in PostgreSQL, until a signal ends it."""

import argparse
import asyncio
import gc
import os
import signal
from contextlib import AsyncExitStack

import structlog

from plumbline.assembly import build, make_plan, open_jobs
from plumbline.cli import Commands, build_command
from plumbline.ground.errors import ConfigurationError
from plumbline.ground.settings import Settings, load_settings, unknown_variables
from plumbline.ground.store.postgres import probe
from plumbline.ground.telemetry import configure_logging
from plumbline.service.access.access import build_access
from plumbline.service.metrics.observer import Metrics
from plumbline.service.worker_share import build_listeners

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def add_command(commands: Commands) -> None:
    build_command(commands, "worker", _work)


def _work(options: argparse.Namespace) -> int:
    settings = load_settings()
    if settings.database_url is None:
        raise ConfigurationError(
            "PLUMBLINE_DATABASE_URL is not set; a worker needs the PostgreSQL of the service: postgresql://user@host/name"
        )
    if not settings.job_concurrency:
        raise ConfigurationError("PLUMBLINE_JOB_CONCURRENCY is 0; a worker needs 1 or more")
    configure_logging(settings.log_level)
    if unknown := unknown_variables(os.environ):
        structlog.get_logger().warning("settings_unknown", names=unknown)
    page = None if options.metrics_port is None else (options.metrics_host, options.metrics_port)
    asyncio.run(_run_until_signal(settings, settings.database_url.get_secret_value(), page))
    return 0


async def _run_until_signal(settings: Settings, database_url: str, page: tuple[str, int] | None) -> None:
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for each in _SIGNALS:
        loop.add_signal_handler(each, stopping.set)
    await asyncio.to_thread(probe, database_url)
    plan = make_plan(settings)
    keyring, listeners = build_access(settings).keyring, build_listeners(settings)
    async with AsyncExitStack() as stack:
        if listeners.traces is not None:
            stack.push_async_callback(asyncio.to_thread, listeners.traces.close)
        service = build(plan, stack, observer=listeners.observer)
        listeners.metrics.watch_encoder(service.encoder)
        if page is not None:
            _serve_metrics(listeners.metrics, page, stack)
        await open_jobs(plan, service.scorer, stack, pause_reason=keyring.pause_reason, observer=listeners.observer)
        # What was loaded lives as long as the process.
        gc.collect()
        gc.freeze()
        structlog.get_logger().info("working", concurrency=settings.job_concurrency)
        await stopping.wait()
        structlog.get_logger().info("worker_ending")


def _serve_metrics(metrics: Metrics, page: tuple[str, int], stack: AsyncExitStack) -> None:
    try:
        port = stack.enter_context(metrics.serve(*page))
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigurationError(f"cannot serve metrics on {page[0]} port {page[1]}: {reason}") from error
    stack.callback(asyncio.create_task(metrics.watch_loop()).cancel)
    structlog.get_logger().info("metrics_served", host=page[0], port=port)
