"""The steps of `plumbline batch-file`, slow to import, and their output."""

import argparse
import asyncio
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from plumbline.cli.score.options import parse_judging
from plumbline.extras.provider_batches.batch_assembly import (
    Choices,
    Estimate,
    asked_files,
    batch_api,
    build_judge_spec,
    estimate_cost,
    files_sent,
    prompt_digests,
    row_limits,
    row_scorer,
)
from plumbline.extras.provider_batches.batch_assembly import collect as collect_rows
from plumbline.extras.provider_batches.batch_assembly import prepare as prepare_rows
from plumbline.extras.provider_batches.batch_file_chat import AskedFile, Correspondence, ReplyIndex
from plumbline.extras.provider_batches.manifest import (
    MANIFEST_VERSION,
    TEST_MODEL,
    Manifest,
    ManifestFile,
    RequestFile,
    RequestFiles,
    Source,
    batch_file_limits,
    find_manifest,
    manifest_beside,
)
from plumbline.extras.provider_batches.submission import (
    BatchStates,
    alone,
    describe_state,
    fetch,
    refresh,
    wait_until_ended,
)
from plumbline.extras.provider_batches.submission import submit as submit_files
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import sha256_of
from plumbline.ground.settings import Settings, load_settings
from plumbline.ground.telemetry import configure_logging
from plumbline.ground.version import VERSION
from plumbline.judging.ports.exchange import expected_tokens
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.scored_row import RowTally
from plumbline.schemas.batch import BatchSummary
from plumbline.schemas.evaluation import TierName

_INCOMPLETE: Final = 3
_FALLBACKS: Final = ("embedding", "lexical")
_SECRET_BYTES: Final = 32
_URL: Final = "/v1/chat/completions"
# DashScope's test model: it answers without judging.
_TEST_URL: Final = "/v1/chat/ds-test"


def prepare(options: argparse.Namespace) -> int:
    settings = _settings()
    at = manifest_beside(options.output)
    if BatchStates(at.state_path) and not options.estimate:
        raise InvalidInput(
            "the files of this name were submitted already; expected another --output", place=at.state_path.name
        )
    _check_apart(options.data, at, options.output, *at.folder.glob(f"{at.stem}-[0-9][0-9][0-9].jsonl"))
    before = at.load().files if at.path.exists() and not options.estimate else ()
    with RecordReader(options.data, format=options.format, columns=options.columns) as reader:
        planned = _planned(options, settings, at, reader)
        manifest, estimate = asyncio.run(_prepare(settings, at, planned, reader, is_dry=options.estimate))
        out(f"{options.data.name}: {reader.explanation}")
    _print_estimate(settings, manifest, estimate, options.price_factor)
    for name in {file.name for file in before} - {file.name for file in manifest.files}:
        (at.folder / name).unlink(missing_ok=True)
    for file in manifest.files:
        out(f"written: {at.folder / file.name}, {file.requests} requests, {file.bytes} bytes")
    if not options.estimate:
        out(f"written: {at.path}; it holds a secret, keep it from those whose texts are judged")
    return 0


def submit(options: argparse.Namespace) -> int:
    """Upload the files that are not uploaded, and create their batches."""
    settings, at = _settings(), find_manifest(options.files)
    manifest = at.load()
    chosen = {path.name for path in options.files}
    files = [file for file in manifest.files if at.path.name in chosen or file.name in chosen]

    async def work(states: BatchStates) -> None:
        async with batch_api(settings, manifest) as api:
            await submit_files(at, files, states, api, endpoint=manifest.url, window=options.window, say=out)

    with alone(at.state_path):
        asyncio.run(work(BatchStates(at.state_path)))
    return 0


def status(options: argparse.Namespace) -> int:
    """Print the status of each file; return 3 until all have ended."""
    settings, at = _settings(), find_manifest(options.files)
    manifest = at.load()

    async def work(states: BatchStates) -> None:
        async with batch_api(settings, manifest) as api:
            await refresh(manifest.files, states, api)

    with alone(at.state_path):
        states = BatchStates(at.state_path)
        asyncio.run(work(states))
    for file in manifest.files:
        out(f"{file.name}: {describe_state(states.of(file.name))}")
    return 0 if all(states.of(file.name).is_ended for file in manifest.files) else _INCOMPLETE


def collect(options: argparse.Namespace) -> int:
    """Fetch the replies and write the results; return 3 until all batches have ended."""
    fallback = () if options.fallback == "none" else tuple(name.strip() for name in options.fallback.split(","))
    if any(name not in _FALLBACKS for name in fallback) or len(set(fallback)) < len(fallback):
        found = options.fallback[:40]
        raise InvalidInput(f"is {found!r}; expected {' or '.join(_FALLBACKS)}, both, or none", place="--fallback")
    settings, at = _settings(), find_manifest(options.files)
    manifest = at.load()
    _check_apart(
        options.output,
        at,
        at.folder / manifest.source.path,
        *(at.folder / each.name for each in manifest.files),
        *options.replies,
    )
    if manifest.plumbline != VERSION:
        note(f"prepared by plumbline {manifest.plumbline}, this is {VERSION}: questions may not be found again")
    with alone(at.state_path):
        states = BatchStates(at.state_path)
        if not options.replies and not asyncio.run(_fetched(settings, at, manifest, states, options)):
            return _INCOMPLETE
        choices = Choices(cast(tuple[TierName, ...], fallback), options.threshold, options.price_factor)
        asyncio.run(_collect(settings, at, manifest, states, choices=choices, options=options))
    return 0


def _check_apart(path: Path, at: ManifestFile, *others: Path) -> None:
    """Raise InvalidInput if the path is another file of the same run."""
    if path.resolve() in {each.resolve() for each in (at.path, at.state_path, *others)}:
        raise InvalidInput("is needed itself and would be written over; expected another --output", place=path.name)


def _planned(options: argparse.Namespace, settings: Settings, at: ManifestFile, reader: RecordReader) -> Manifest:
    spec = build_judge_spec(settings, options.judge, structure=options.structure, omitted=options.omit)
    limits = batch_file_limits(spec.provider, spec.model)
    metrics = parse_judging(options, {}).model_dump(include={"metrics", "criteria"}, exclude_none=True)
    return Manifest(
        version=MANIFEST_VERSION,
        plumbline=VERSION,
        secret=_secret(at, options.secret_of),
        source=Source(at.relative(options.data), sha256_of(options.data), reader.format, reader.columns),
        judge=spec,
        prompts=prompt_digests(settings, metrics),
        row_limits=row_limits(settings),
        url=options.url or (_TEST_URL if spec.model == TEST_MODEL else _URL),
        limits=replace(
            limits,
            requests=options.max_requests or limits.requests,
            file_bytes=options.max_bytes or limits.file_bytes,
            line_bytes=min(limits.line_bytes, options.max_bytes or limits.line_bytes),
        ),
        rows=0,
        files=(),
        controls=settings.llm_controls,
        metrics=metrics,
    )


def _secret(at: ManifestFile, other: Path | None) -> str:
    """Reuse the secret of the other or the replaced manifest, so that the same rows give the same bytes."""
    if other is not None:
        return ManifestFile(other).load().secret
    return at.load().secret if at.path.exists() else secrets.token_hex(_SECRET_BYTES)


async def _prepare(
    settings: Settings, at: ManifestFile, manifest: Manifest, reader: RecordReader, *, is_dry: bool
) -> tuple[Manifest, Estimate]:
    letters = Correspondence(ReplyIndex([]), url=manifest.url, max_line_bytes=manifest.limits.line_bytes)
    async with row_scorer(settings, manifest, letters, Choices(fallback=())) as scorer:
        return await prepare_rows(at, manifest, reader, scorer.score, letters, is_dry=is_dry)


async def _fetched(
    settings: Settings, at: ManifestFile, manifest: Manifest, states: BatchStates, options: argparse.Namespace
) -> bool:
    """Fetch the replies of ended batches; return True if all have ended."""
    files = files_sent(manifest, states)
    idle = [file.name for file in files if states.of(file.name).batch is None]
    if idle:
        raise InvalidInput("has no batch yet; submit it first", place=idle[0])
    async with batch_api(settings, manifest) as api:
        if options.wait:
            await wait_until_ended(files, states, api, poll_seconds=options.poll_seconds, say=note)
        else:
            await refresh(files, states, api)
        running = [file.name for file in files if not states.of(file.name).is_ended]
        for name in running:
            note(f"{name}: {describe_state(states.of(name))}")
        if not running:
            await fetch(at, files, states, api)
    return not running


async def _collect(
    settings: Settings,
    at: ManifestFile,
    manifest: Manifest,
    states: BatchStates,
    *,
    choices: Choices,
    options: argparse.Namespace,
) -> None:
    files = list(manifest.files) if options.replies else files_sent(manifest, states)
    source, tally = at.source_path(manifest), RowTally()
    given = [AskedFile(at.folder / file.name, (), "completed") for file in files]
    # A reply is found by its id, in whichever file it is.
    given[:1] = [each._replace(replies=options.replies) for each in given[:1]]
    round_ = max((file.round for file in files), default=1) + 1
    with (
        ReplyIndex(given if options.replies else asked_files(at, files, states)) as index,
        RecordReader(source, format=manifest.source.format, columns=manifest.source.columns) as reader,
        RequestFiles(at.folder, at.stem, manifest.limits, round_=round_) as later,
    ):
        letters = Correspondence(index, url=manifest.url, max_line_bytes=manifest.limits.line_bytes)
        async with row_scorer(settings, manifest, letters, choices) as scorer:
            estimate, further = await collect_rows(
                reader,
                scorer.score,
                letters,
                options.output,
                next_round=later if options.next_round else None,
                tell=tally.add,
            )
    if options.next_round:
        # a new last round, in place of one that was never submitted
        at.save(replace(manifest, files=(*files, *further)))
    _print_troubles(files, states, index)
    out(f"written: {options.output}; {_format_summary(tally.summary())}")
    if letters.refused:
        out(f"{letters.refused} questions were not run: mend what their batches failed for, and prepare them again")
    if further:
        names = ", ".join(file.name for file in further)
        out(f"written: {names}, {estimate.requests} questions that are still open; submit and collect again")
    elif estimate.requests:
        out(f"{estimate.requests} questions are still open; --next-round writes them as files to be submitted")
    elif not letters.refused:
        out("all questions have their replies: these results are final")


def _settings() -> Settings:
    settings = load_settings()
    # Every row whose question is open fails tier llm; the attempts of each row say so.
    configure_logging("ERROR")
    return settings


def _print_estimate(settings: Settings, manifest: Manifest, estimate: Estimate, factor: float) -> None:
    asked = estimate.rows - estimate.invalid - estimate.decided - estimate.unaskable
    out(
        f"{estimate.rows} rows: {asked} to be asked, "
        f"{estimate.decided} decided without a judge, {estimate.unaskable} too long for it, {estimate.invalid} invalid"
    )
    expected = (expected_tokens(estimate.prompt_tokens), estimate.expected_output_tokens)
    bound = (estimate.prompt_tokens, estimate.max_output_tokens)
    out(
        f"{estimate.requests} requests to {manifest.judge.model}: about {expected[0]} tokens in and {expected[1]} out, "
        f"at most {bound[0]} and {bound[1]}; second looks, where asked for, come on top"
    )
    likely, most = (
        estimate_cost(settings, manifest, prompt_tokens=tokens_in, output_tokens=tokens_out, factor=factor)
        for tokens_in, tokens_out in (expected, bound)
    )
    if likely is None or most is None:
        out(f"cost: not known; PLUMBLINE_LLM_PRICES has no price of {manifest.judge.model}")
    else:
        out(f"cost: about {likely:.4f}, at most {most:.4f}, at {factor:g} of the price table's prices")


def _print_troubles(files: Sequence[RequestFile], states: BatchStates, index: ReplyIndex) -> None:
    for file in files:
        batch = states.of(file.name).batch
        if batch is not None and (batch.status != "completed" or batch.failed):
            note(f"{file.name}: {describe_state(states.of(file.name))}")
    odd = {"unreadable": index.unreadable, "of no question": index.unasked, "repeated": index.repeated}
    if any(odd.values()):
        counts = ", ".join(f"{count} {name}" for name, count in odd.items() if count)
        note(f"lines of replies passed over: {counts}")


def _format_summary(summary: BatchSummary) -> str:
    tiers = ", ".join(f"{name} {count}" for name, count in summary.tiers.model_dump().items() if count) or "none"
    cost = "not known" if summary.usage.cost is None else f"{summary.usage.cost:.4f}"
    return (
        f"{summary.rows} rows: {summary.judged} judged ({summary.passed} passed), {summary.abstained} abstained, "
        f"{summary.empty_answer} empty, {summary.not_judged} not judged, {summary.errors} errors; tiers: {tiers}; "
        f"{summary.degraded} degraded; "
        f"tokens {summary.usage.prompt_tokens} in, {summary.usage.completion_tokens} out; cost {cost}"
    )


def out(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def note(line: str) -> None:
    sys.stderr.write(f"{line}\n")


STEPS: Final[Mapping[str, Callable[[argparse.Namespace], int]]] = {
    "prepare": prepare,
    "submit": submit,
    "status": status,
    "collect": collect,
}
