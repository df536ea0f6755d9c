"""The composition root: builds every part once, wires them, and closes them again."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import structlog
from fastapi import Depends, FastAPI, Request
from fastapi_offline import FastAPIOffline

import app as package
from app import __version__
from app.api.auth import make_key_check
from app.api.batches import BATCH_PATH, batch_routes, batch_schemas
from app.api.edge import install_edge
from app.api.evaluations import evaluation_routes
from app.api.msgspec_body import document
from app.api.openapi_schemas import add_schemas
from app.api.operations import operation_routes
from app.api.problems import install_problem_handlers
from app.api.retrieval import MESSAGES, retrieval_routes
from app.backends.chat_models import build_chat_models
from app.backends.endpoints import resolve_judges
from app.backends.sentence_encoder import TransformerEncoder
from app.backends.verdict_store import make_verdict_store
from app.errors import FailureReason
from app.judges.calibration import CalibrationTable, load_calibrations
from app.judges.cascade import JudgeCascade
from app.judges.embedding import EmbeddingTier
from app.judges.lexical import LexicalTier
from app.judges.llm import LlmTier, PromptSet
from app.judges.prompts import PromptLibrary
from app.judges.tier import AbsentTier, SentenceEncoder, Tier, TierName
from app.judges.verdict_cache import CachedTier
from app.schemas.operations import VersionReport
from app.scoring import Scorer
from app.settings import Settings, load_settings

_VERIFY = ("verify_claims", "v2")
_CHECK = ("check_claims", "v1")


@dataclass(frozen=True, slots=True)
class _Plan:
    """What was read and checked before anything is built."""

    settings: Settings
    judge_names: tuple[str, ...]
    prompts: PromptSet
    calibrations: CalibrationTable
    encoder: SentenceEncoder | None


@dataclass(frozen=True, slots=True)
class Service:
    """The running parts that routes reach."""

    cascade: JudgeCascade
    scorer: Scorer
    batch_slots: asyncio.Semaphore


def create_app(settings: Settings | None = None, *, encoder: SentenceEncoder | None = None) -> FastAPI:
    """The service as an ASGI app. Settings, prompts and calibrations are checked here, before anything is served.

    Args:
        settings: those of the environment when None.
        encoder: in place of the sentence-transformers model.

    Raises:
        ConfigurationError, PromptError, CalibrationError: with one line that says what is wrong.
    """
    settings = settings or load_settings()
    plan = _Plan(
        settings=settings,
        judge_names=tuple(resolve_judges(settings)),
        prompts=PromptSet(
            PromptLibrary(*_VERIFY, folder=settings.prompts_dir), PromptLibrary(*_CHECK, folder=settings.prompts_dir)
        ),
        calibrations=load_calibrations(settings.calibration),
        encoder=encoder,
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            app.state.service = _build(plan, stack)
            for name, readiness in app.state.service.cascade.readiness().items():
                structlog.get_logger().info("tier_built", tier=name, state=readiness.state, detail=readiness.detail)
            yield

    app = FastAPIOffline(
        title="Plumbline",
        description=package.__doc__ or "",
        version=__version__,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    check_key = Depends(make_key_check(settings.api_keys, settings.allow_anonymous))
    app.include_router(
        evaluation_routes(settings, lambda request: _service(request).scorer, judge_names=plan.judge_names),
        prefix="/v1",
        dependencies=[check_key],
    )
    app.include_router(
        batch_routes(
            settings,
            lambda request: _service(request).scorer,
            lambda request: _service(request).batch_slots,
            judge_names=plan.judge_names,
        ),
        prefix="/v1",
        dependencies=[check_key],
    )
    app.include_router(operation_routes(_version(plan), lambda request: _service(request).cascade))
    app.include_router(
        retrieval_routes(lambda request: _service(request).scorer), prefix="/v1", dependencies=[check_key]
    )
    document(app, MESSAGES)
    add_schemas(app, batch_schemas(settings))
    install_problem_handlers(app)
    install_edge(
        app,
        max_body_bytes=settings.max_body_bytes,
        body_timeout_seconds=settings.body_timeout_seconds,
        max_body_bytes_by_prefix={
            "/v1/retrieval/": settings.max_retrieval_body_bytes,
            f"/v1{BATCH_PATH}": settings.max_batch_body_bytes,
        },
    )
    return app


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _build(plan: _Plan, stack: AsyncExitStack) -> Service:
    executor = ThreadPoolExecutor(max_workers=plan.settings.cpu_threads, thread_name_prefix="scoring")
    stack.callback(executor.shutdown, wait=True, cancel_futures=True)
    embedding = EmbeddingTier(
        plan.encoder or _encoder(plan.settings, stack),
        plan.calibrations,
        executor,
        max_windows=plan.settings.embedding_max_windows,
    )
    cascade = JudgeCascade([_llm_tier(plan, executor, stack), embedding, LexicalTier(plan.calibrations, executor)])
    return Service(cascade, Scorer(cascade, executor), asyncio.Semaphore(plan.settings.batch_concurrency))


def _llm_tier(plan: _Plan, executor: Executor, stack: AsyncExitStack) -> Tier:
    if not plan.judge_names:
        return AbsentTier(
            TierName.LLM,
            reason=FailureReason.NOT_CONFIGURED,
            detail="no judge is configured; set DASHSCOPE_API_KEY, or PLUMBLINE_LLM_API_KEY with a provider",
        )
    chats = build_chat_models(plan.settings)
    for chat in chats.values():
        stack.push_async_callback(chat.close)
    tier = LlmTier(chats, plan.prompts, executor, max_output_tokens=plan.settings.llm_max_output_tokens)
    store = make_verdict_store(plan.settings)
    if store is None:
        return tier
    stack.push_async_callback(store.close)
    cached = CachedTier(tier, store, identity=lambda case, ask: f"{__version__}\n{tier.identity(case, ask)}")
    stack.push_async_callback(cached.close)
    return cached


def encoder_of(settings: Settings) -> TransformerEncoder:
    """The encoder that the settings name; nothing is loaded before it is asked. `close` ends its thread."""
    return TransformerEncoder(settings.embedding_model)


def _encoder(settings: Settings, stack: AsyncExitStack) -> TransformerEncoder:
    encoder = encoder_of(settings)
    stack.callback(encoder.close)
    if settings.warm_up:
        warming = asyncio.get_running_loop().create_task(encoder.warm_up())
        stack.callback(warming.cancel)
    return encoder


def _version(plan: _Plan) -> VersionReport:
    return VersionReport(
        name="plumbline",
        version=__version__,
        prompts={prompt.label: prompt.digest for prompt in (*plan.prompts.verify, *plan.prompts.check)},
        calibrations=[
            f"{entry.tier} {entry.model} {entry.language}: {entry.source.data if entry.source else 'not fitted'}"
            for entry in plan.calibrations.entries
        ],
    )
