"""`plumbline doctor`: settings, judges, embedding model and database, each tried once; or a part of them alone."""

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Iterator
from contextlib import aclosing
from typing import Final, Literal, NamedTuple

from plumbline.assembly import build_encoder, build_fallback_encoder, load_detector, make_plan
from plumbline.cli import Commands, build_command, start_logging
from plumbline.cli.judge_check import check_endpoint, check_judges, find_advice, safe_line
from plumbline.client.connection import Connection, RequestSpec
from plumbline.client.failures import ClientError, Retries
from plumbline.ground.errors import ConfigurationError, PlumblineError
from plumbline.ground.files import find_folder_problem
from plumbline.ground.phrases import load_data
from plumbline.ground.service_address import KEY_VARIABLE, URL_VARIABLE, find_url
from plumbline.ground.settings import Settings, load_settings, unknown_variables, variable_name
from plumbline.ground.store.postgres import probe
from plumbline.ground.telemetry import configure_logging
from plumbline.judging.ports.observation import Readiness, State
from plumbline.models.chat.endpoints import PROVIDERS, find_key, resolve_judges
from plumbline.models.embeddings.remote_encoder import RemoteEncoder, resolve_embedding_service
from plumbline.models.encoder.encoder import SharedEncoder

_FAILED: Final = 1
_OTHERS: Final = "embedding, other languages"
_NO_CHINESE: Final = "Chinese is left to tier lexical: the local model does not read it, and DASHSCOPE_API_KEY is set"
# The client reads them, no service
_OF_CLIENT: Final = frozenset({KEY_VARIABLE, URL_VARIABLE})
_SCRAPE_SECONDS: Final = 10.0
_QUEUE_METRIC: Final = re.compile(r'^plumbline_work_(\w+)\{queue="(\w+)"\} (\S+)$', re.MULTILINE)
_OF_EMBEDDING: Final = frozenset({"embedding_model", "embedding_provider", "embedding_base_url"})


class Finding(NamedTuple):
    """One thing that was tried: `note` is something that is missing and was not asked for."""

    outcome: Literal["ok", "note", "FAILED"]
    subject: str
    seen: str
    advice: str = ""


def add_command(commands: Commands) -> None:
    build_command(commands, "doctor", {"": _doctor, "judge": check_judges, "prepare": _prepare})


def _doctor(options: argparse.Namespace) -> int:
    configure_logging("ERROR")
    has_failed = False
    for each in _findings(options.seconds):
        has_failed = has_failed or each.outcome == "FAILED"
        sys.stdout.write(f"{each.outcome:<6} {each.subject}: {each.seen}\n")
        if each.advice:
            sys.stdout.write(f"{'do':>6} {each.advice}\n")
        sys.stdout.flush()
    return _FAILED if has_failed else 0


def _findings(seconds: float | None) -> Iterator[Finding]:
    try:
        unknown = unknown_variables(os.environ.keys() - _OF_CLIENT)
        settings = load_settings()
        make_plan(settings)
        judges = resolve_judges(settings)
    except PlumblineError as error:
        yield Finding("FAILED", "settings", str(error), "correct it, then run this again: nothing else was tried")
        return
    named = ", ".join(sorted(map(variable_name, settings.model_fields_set))) or "all of them defaults"
    yield Finding("ok", "settings", named)
    if unknown:
        yield Finding("note", "settings", f"no such setting: {', '.join(unknown)}", "they are ignored")
    if not judges:
        yield Finding("note", "judge", "none is configured", _advice("no_judge"))
    for name, endpoints in judges.items():
        for endpoint in endpoints:
            check = check_endpoint(endpoint, settings, seconds=seconds)
            subject = f"judge {name}: {endpoint.place}"
            if check.failure is None:
                yield Finding("ok", subject, f"key accepted, verdicts right, replies as {check.form}")
            else:
                yield Finding("FAILED", subject, safe_line(check.failure[0], endpoint), check.failure[1])
    yield from _embedding(settings)
    if settings.detector is not None:
        yield _detector(settings)
    yield _jobs(settings)
    if find_url(None) is not None:
        yield from _queues()


def _embedding(settings: Settings) -> Iterator[Finding]:

    service, is_named = resolve_embedding_service(settings), bool(_OF_EMBEDDING & settings.model_fields_set)
    if service is None and find_key(None, PROVIDERS["dashscope"]) is not None:
        region = "dashscope-intl" if settings.llm_provider == "dashscope-intl" else "dashscope"
        yield Finding("note", _OTHERS, _NO_CHINESE, _advice("other_languages").format(region=region))
    encoders = {"embedding": build_encoder(settings), _OTHERS: build_fallback_encoder(settings)}
    for subject, encoder in encoders.items():
        if encoder is None:
            continue
        readiness = asyncio.run(_warm_up(encoder))
        if readiness.state is State.READY:
            yield Finding("ok", subject, readiness.detail)
            continue
        said = find_advice(service.endpoint, readiness.detail, settings="PLUMBLINE_EMBEDDING") if service else None
        yield Finding("FAILED" if is_named else "note", subject, readiness.detail, said or _advice("no_model"))


def _detector(settings: Settings) -> Finding:

    async def load() -> str:
        description = make_plan(settings).detector
        if description is None:
            return "no detector is configured"
        async with load_detector(description, settings) as detector:
            return f"{detector.readiness().detail}, probe answered"

    try:
        return Finding("ok", "detector", asyncio.run(load()))
    except ConfigurationError as error:
        return Finding("FAILED", "detector", str(error), _advice("no_detector"))


def _advice(name: str) -> str:
    return str(load_data("cli/doctor")["advised"][name])


def _jobs(settings: Settings) -> Finding:
    if settings.database_url is not None:
        try:
            probe(settings.database_url.get_secret_value())
        except PlumblineError as error:
            return Finding("FAILED", "jobs", str(error), "start the database, or correct PLUMBLINE_DATABASE_URL")
        return Finding("ok", "jobs", "the database of PLUMBLINE_DATABASE_URL answers")
    if (problem := find_folder_problem(settings.data_dir)) is None:
        return Finding("ok", "jobs", f"{settings.data_dir} can be written")
    seen = f"{settings.data_dir} {problem}"
    return Finding("FAILED", "jobs", seen, "name another by PLUMBLINE_DATA_DIR, or change its owner")


def _queues() -> Iterator[Finding]:
    """Yield what the service at PLUMBLINE_URL estimated and took for the samples of each of its queues."""

    async def scrape() -> bytes:
        connection = Connection(None, api_key=None, timeout=_SCRAPE_SECONDS, retries=Retries(attempts=1))
        try:
            return await connection.answer(RequestSpec("GET", "/metrics"))
        finally:
            await connection.close()

    try:
        page = asyncio.run(scrape()).decode()
    except ClientError as error:
        advice = f"correct {URL_VARIABLE}, or set {KEY_VARIABLE} to a key with the scope admin"
        yield Finding("note", "running service", f"its metrics cannot be read: {error}", advice)
        return
    values: dict[str, dict[str, float]] = {}
    for name, queue, value in _QUEUE_METRIC.findall(page):
        values.setdefault(queue, {})[name] = float(value)
    for queue, each in values.items():
        seen = (
            f"estimated {each['estimated_seconds_total']:.1f} s, took {each['taken_seconds_total']:.1f} s, refused "
            f"{each['refused_total']:.0f}, {each['characters_per_second']:.0f} characters a second"
        )
        yield Finding("ok", f"work queue {queue}", seen)


def _prepare(_: argparse.Namespace) -> int:
    readiness = asyncio.run(_warm_up(build_encoder(start_logging())))
    if readiness.state is not State.READY:
        raise ConfigurationError(f"tier embedding: {readiness.detail}")
    sys.stdout.write(f"{readiness.detail}: ready\n")
    return 0


async def _warm_up(encoder: SharedEncoder | RemoteEncoder) -> Readiness:
    """Load the model, or ask its server for one vector; return the state after it."""
    async with aclosing(encoder):
        await encoder.warm_up()
        return encoder.readiness()
