"""Builds the scoring parts from settings for every entry point, and closes them. No web framework."""

import asyncio
import gc
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from concurrent.futures import Executor
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from plumbline.ground.concurrency import Threads, end_tasks
from plumbline.ground.errors import ConfigurationError, FailureReason
from plumbline.ground.settings import Settings
from plumbline.ground.texts import CodedText
from plumbline.ground.version import VERSION
from plumbline.judging.judge.questions import Mark, Prompts, load_prompts, random_mark
from plumbline.judging.ports.models import ChatModel, SentenceEncoder
from plumbline.judging.ports.observation import NULL_OBSERVER, Observer, State
from plumbline.judging.scoring import Scorer
from plumbline.judging.tiers.calibration import CalibrationTable, load_calibrations
from plumbline.judging.tiers.cascade import JudgeCascade, Loader
from plumbline.judging.tiers.detector import DetectorTier
from plumbline.judging.tiers.embedding import EmbeddingTier
from plumbline.judging.tiers.lexical import LexicalTier
from plumbline.judging.tiers.llm import LlmTier
from plumbline.judging.tiers.tier import AbsentTier, Tier, TierName
from plumbline.judging.tiers.verdict_cache import CachedTier
from plumbline.models.chat.endpoints import MAX_MODEL_CALLS, check_http_url, resolve_judges
from plumbline.models.chat.verdict_store import SqliteVerdictStore
from plumbline.models.detectors.description import Description, find_description
from plumbline.models.detectors.detector import LocalDetector
from plumbline.models.embeddings.remote_encoder import EmbeddingService, resolve_embedding_service
from plumbline.models.encoder.encoder import ModelChoice, SharedEncoder
from plumbline.models.encoder.packing import CACHE_BYTES, Precision
from plumbline.rows.jobs.chunk_run import Pace, PauseReason, never_pause
from plumbline.rows.jobs.worker import Worker
from plumbline.rows.row_scorer import job_row_scorers

if TYPE_CHECKING:
    from plumbline.models.embeddings.remote_encoder import RemoteEncoder
    from plumbline.rows.jobs.store import JobStore

# One sample is encoded while the others are prepared or matched.
_CONCURRENT_ENCODER_SAMPLES: Final = 4
# At shutdown, running rows of jobs get this long; the rest is done after the next start.
_DRAIN_SECONDS = 5.0
# Threads for segmentation and the lexical tier, of all processes together: Python runs one at a time, and the second
# keeps a short sample from waiting for a long one.
_CPU_THREADS: Final = 2
# Windows and sentences of one sample that are encoded; a sample with more is too long for the tier.
_MAX_WINDOWS: Final = 2_000
# Of the verdict cache.
_VERDICT_BYTES: Final = 2**28
_DETECTOR_CACHE_BYTES: Final = 2**26


@dataclass(frozen=True, slots=True)
class Plan:
    settings: Settings
    judge_names: tuple[str, ...]
    prompts: Prompts
    calibrations: CalibrationTable
    encoder: SentenceEncoder | None
    detector: Description | None = None


@dataclass(frozen=True, slots=True)
class Service:
    cascade: JudgeCascade
    scorer: Scorer
    batch_slots: asyncio.Semaphore
    encoder: SentenceEncoder
    retrieval_threads: Executor


def make_plan(settings: Settings, *, encoder: SentenceEncoder | None = None) -> Plan:
    """Validate settings, prompts and calibrations, before anything is built; `encoder` replaces the settings' model.

    Raises ConfigurationError, CalibrationError: in one line.
    """
    resolve_embedding_service(settings)
    if settings.public_url is not None:
        check_http_url(settings.public_url, "PLUMBLINE_PUBLIC_URL")
    if settings.cache_path is not None and settings.cache_path.is_dir():
        raise ConfigurationError(f"PLUMBLINE_CACHE_PATH: {str(settings.cache_path)!r} is a folder; name a file in it")
    if settings.database_url is not None:
        # late: it takes a second that only its users pay
        from plumbline.ground.store.postgres import connection_string  # noqa: PLC0415

        connection_string(settings.database_url.get_secret_value())
    judge_names = tuple(resolve_judges(settings))
    if settings.llm_escalation is not None and settings.llm_escalation not in judge_names:
        known = ", ".join(judge_names) or "none"
        raise ConfigurationError(f"PLUMBLINE_LLM_ESCALATION: no judge has this name; there are {known}")
    return Plan(
        settings=settings,
        judge_names=judge_names,
        prompts=load_prompts(),
        calibrations=load_calibrations(settings.calibration),
        encoder=encoder,
        detector=find_description(settings.detector, model=settings.detector_model) if settings.detector else None,
    )


def job_versions(plan: Plan) -> str:
    """Return all that decides on the scores of a job, as a JSON object of texts."""
    endpoints = [each for judge in resolve_judges(plan.settings).values() for each in judge]
    calibrations = json.dumps([entry.model_dump(mode="json") for entry in plan.calibrations.entries])
    return json.dumps(
        {
            "plumbline": VERSION,
            "judge": ", ".join(dict.fromkeys(each.model for each in endpoints)),
            **({"detector": plan.detector.name} if plan.detector else {}),
            "prompt": ", ".join(dict.fromkeys(prompts.verify.label for prompts in plan.prompts.values())),
            "calibration": hashlib.sha256(calibrations.encode()).hexdigest()[:8],
        }
    )


def build(
    plan: Plan,
    stack: AsyncExitStack,
    *,
    executor: Executor | None = None,
    chats: Mapping[str, ChatModel] | None = None,
    mark: Mark = random_mark,
    observer: Observer = NULL_OBSERVER,
) -> Service:
    """Build the running parts, within a running event loop; the stack closes them.

    Args:
        executor: runs CPU work on samples; None for threads of its own.
        chats: replace the chat models of the settings; their verdicts are not cached.
        mark: makes the marks around the data of their questions.
    """
    if executor is None:
        executor = Threads(max_workers=_share_of(_CPU_THREADS, plan.settings), thread_name_prefix="scoring")
        stack.callback(executor.shutdown, wait=True, cancel_futures=True)
    encoder = plan.encoder or _build_encoder(plan.settings, stack, observer)
    fallback = None
    if (other := build_fallback_encoder(plan.settings, observer=observer)) is not None:
        stack.push_async_callback(other.aclose)
        fallback = EmbeddingTier(other, plan.calibrations, executor, max_windows=_MAX_WINDOWS)
    embedding = EmbeddingTier(encoder, plan.calibrations, executor, max_windows=_MAX_WINDOWS, fallback=fallback)
    llm: Tier = (
        _build_llm_tier(plan, executor, stack, observer)
        if chats is None
        else _build_plain_llm_tier(plan, chats, executor, mark)
    )
    loaders: dict[TierName, Loader] = {embedding.name: embedding.prepare}
    detector = _build_detector_tier(plan, executor, stack, loaders)
    is_set = not isinstance(detector, AbsentTier)
    is_local = other is None and (plan.encoder is not None or resolve_embedding_service(plan.settings) is None)
    samples = _CONCURRENT_ENCODER_SAMPLES if is_local else _share_of(MAX_MODEL_CALLS, plan.settings)
    cascade = JudgeCascade(
        [llm, *([detector] if is_set else []), embedding, LexicalTier(plan.calibrations, executor)],
        unset=() if is_set else (detector,),
        limits={embedding.name: asyncio.Semaphore(samples)},
        loaders=loaders,
        observer=observer,
    )
    scorer = Scorer(cascade, executor, observer=observer, calibrations=plan.calibrations)
    slots = asyncio.Semaphore(plan.settings.batch_concurrency)
    # apart from the scoring threads, which a minute of measures would keep from evaluations
    retrieval = Threads(max_workers=_share_of(_CPU_THREADS, plan.settings), thread_name_prefix="retrieval")
    stack.callback(retrieval.shutdown, wait=True, cancel_futures=True)
    return Service(cascade, scorer, slots, encoder, retrieval)


def _build_llm_tier(plan: Plan, executor: Executor, stack: AsyncExitStack, observer: Observer) -> Tier:
    if not plan.judge_names:
        return AbsentTier(
            TierName.LLM,
            reason=FailureReason.NOT_CONFIGURED,
            detail=CodedText("no_judge_configured"),
        )
    # late: only a process with a judge pays for the HTTP stack
    from plumbline.models.chat.chat_models import build_chat_models  # noqa: PLC0415

    chats = build_chat_models(plan.settings, observer=observer)
    for chat in chats.values():
        stack.push_async_callback(chat.close)
    tier = _build_plain_llm_tier(plan, chats, executor, random_mark)
    if not (ttl_seconds := plan.settings.cache_ttl_seconds):
        return tier
    store = SqliteVerdictStore(plan.settings.cache_path, max_bytes=_VERDICT_BYTES, ttl_seconds=ttl_seconds)
    stack.push_async_callback(store.close)
    cached = CachedTier(
        tier, store, identity=lambda case, ask: f"{VERSION}\n{tier.identity(case, ask)}", observer=observer
    )
    stack.push_async_callback(cached.close)
    return cached


def _build_detector_tier(
    plan: Plan, executor: Executor, stack: AsyncExitStack, loaders: dict[TierName, Loader]
) -> Tier:
    settings = plan.settings
    if plan.detector is None:
        return AbsentTier(
            TierName.DETECTOR,
            reason=FailureReason.NOT_CONFIGURED,
            detail=CodedText("no_detector_configured"),
        )
    detector = _build_local_detector(plan.detector, settings)
    stack.push_async_callback(detector.aclose)
    if settings.warm_up:
        stack.callback(asyncio.get_running_loop().create_task(_load_for_good(detector.warm_up())).cancel)
    loaders[TierName.DETECTOR] = detector.warm_up
    return DetectorTier(detector, plan.calibrations, executor)


def _share_of(bound: int, settings: Settings) -> int:
    """Return the part of one of the processes that serve together, rounded up."""
    return -(-bound // settings.workers)


async def _load_for_good(loading: Awaitable[None]) -> None:
    """Load a model that is kept as long as the process.

    Walking its libraries' objects for garbage would stop every request for 0.1 to 0.4 s at times.
    """
    await loading
    gc.freeze()


def _build_local_detector(description: Description, settings: Settings) -> LocalDetector:
    """Build a detector; it loads its model, and answers its probe, on first use."""
    return LocalDetector(
        description,
        threads=settings.embedding_threads,
        cache_bytes=_share_of(_DETECTOR_CACHE_BYTES, settings),
    )


@asynccontextmanager
async def load_detector(description: Description, settings: Settings) -> AsyncIterator[LocalDetector]:
    """Yield a detector that answered its probe; raise ConfigurationError."""
    async with aclosing(_build_local_detector(description, settings)) as detector:
        await detector.warm_up()
        if (readiness := detector.readiness()).state is not State.READY:
            raise ConfigurationError(f"detector {description.name}: {readiness.detail}")
        yield detector


def _build_plain_llm_tier(plan: Plan, chats: Mapping[str, ChatModel], executor: Executor, mark: Mark) -> LlmTier:
    return LlmTier(
        chats,
        plan.prompts,
        executor,
        max_output_tokens=plan.settings.llm_max_output_tokens,
        mark=mark,
        has_controls=plan.settings.llm_controls,
        calibrations=plan.calibrations,
        bounds=plan.settings.llm_bounds or {},
    )


def build_encoder(settings: Settings, *, observer: Observer = NULL_OBSERVER) -> "SharedEncoder | RemoteEncoder":
    """Build the encoder of the settings; it loads its model on first use.

    `observer`: of calls to an embeddings API, as for `build`.

    Raises ConfigurationError: what an embeddings API needs is missing or wrong.
    """
    service = resolve_embedding_service(settings)
    if service is not None and not service.is_fallback:
        return _build_remote_encoder(service, settings, observer)
    precision: Precision = "bf16" if settings.embedding_precision == "bf16" else "fp32"
    return SharedEncoder(
        ModelChoice(settings.embedding_model, settings.embedding_backend, precision),
        threads=settings.embedding_threads,
        cache_bytes=_share_of(CACHE_BYTES, settings),
        languages=settings.embedding_languages,
    )


def build_fallback_encoder(settings: Settings, *, observer: Observer = NULL_OBSERVER) -> "RemoteEncoder | None":
    """Build the encoder of what the local model does not read; None without one."""
    service = resolve_embedding_service(settings)
    return _build_remote_encoder(service, settings, observer) if service and service.is_fallback else None


def _build_remote_encoder(service: EmbeddingService, settings: Settings, observer: Observer) -> "RemoteEncoder":
    # late: a local model needs no HTTP
    from plumbline.models.embeddings.remote_encoder import build_remote_encoder  # noqa: PLC0415

    return build_remote_encoder(service, settings, observer=observer)


def _build_encoder(settings: Settings, stack: AsyncExitStack, observer: Observer) -> "SharedEncoder | RemoteEncoder":
    encoder = build_encoder(settings, observer=observer)
    stack.push_async_callback(encoder.aclose)
    if settings.warm_up:
        stack.callback(asyncio.get_running_loop().create_task(_load_for_good(encoder.warm_up())).cancel)
    return encoder


async def open_jobs(
    plan: Plan,
    scorer: Scorer,
    stack: AsyncExitStack,
    *,
    pause_reason: PauseReason = never_pause,
    observer: Observer = NULL_OBSERVER,
) -> "JobStore":
    """Open the job store, with a worker unless the settings disable it; the stack closes them.

    `pause_reason`: tells why no row of a tenant's jobs may be scored now.
    """
    # late: only a service and its workers have jobs
    from plumbline.rows.jobs.store import JobStore  # noqa: PLC0415

    settings = plan.settings
    if settings.database_url is not None:
        # a folder of its own: uploads of a store in files belong to that
        store = JobStore.on_postgres(settings.database_url.get_secret_value(), settings.data_dir / "postgres")
    else:
        store = JobStore.in_folder(settings.data_dir)
    stack.push_async_callback(store.close)
    rescuing = asyncio.get_running_loop().create_task(store.keep_rescuing())
    stack.push_async_callback(end_tasks, [rescuing])
    if settings.job_concurrency:
        build_row_scorer = job_row_scorers(scorer, settings, judge_names=plan.judge_names)
        worker = Worker(
            store,
            lambda lease: build_row_scorer(lease.tenant, lease.options),
            Pace(concurrency=settings.job_concurrency),
            pause_reason=pause_reason,
            observer=observer,
        )
        store.on_change(worker.wake)
        running = asyncio.get_running_loop().create_task(worker.run())
        stack.push_async_callback(_stop, worker, running)
    return store


async def _stop(worker: Worker, running: "asyncio.Task[None]") -> None:
    await worker.stop(_DRAIN_SECONDS)
    await running
