"""What every test gets: an environment without the developer's keys, a scripted judge, the real model once."""

import gc
import json
import logging
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from plumbline.main import create_app
from plumbline.models.encoder.encoder import SharedEncoder
from tests.doubles.fakes import WordEncoder
from tests.doubles.scripted_judge import ScriptedJudge
from tests.running.job_stores import PostgresStores, SqliteStores, Stores, require_postgres
from tests.running.postgres_server import PostgresServer
from tests.running.service import plain_settings, running

# The same examples in every run, and no clock: a busy machine fails no test. `--hypothesis-profile thorough` looks on.
settings.register_profile("plumbline", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=1_000)
settings.load_profile("plumbline")

_VENDORS = (
    "DASHSCOPE_",
    "OPENAI_",
    "AZURE_OPENAI_",
    "DEEPSEEK_",
    "GEMINI_",
    "MOONSHOT_",
    "ZHIPUAI_",
    "SILICONFLOW_",
    "OPENROUTER_",
)
_CLEARED = ("PLUMBLINE_", *_VENDORS, "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def pytest_collection_finish() -> None:
    """Take what collection made out of the garbage collector's sight: it is never freed, and every pass walked it."""
    gc.collect()
    gc.freeze()


# They import sentence-transformers, which takes 7 s of CPU: one worker of xdist gets them all.
_WITH_TORCH = frozenset(
    f"tests/{name}.py"
    for name in (
        "e2e/test_encoder_backends", "e2e/test_lab_real_model", "e2e/test_multilingual_model", "e2e/test_prepare",
    )
)  # fmt: skip


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Schedule by file, and those of PyTorch as if they were one."""
    scheduler = LoadFileScheduling(config, log)

    def scope(nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "torch" if file in _WITH_TORCH else file

    scheduler._split_scope = scope
    return scheduler


@pytest.fixture(scope="session", autouse=True)
def foreign_variables_unset() -> Iterator[None]:
    """Settings, keys and proxies of the shell that runs the tests reach no test."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.upper().startswith(_CLEARED):
                patch.delenv(name)
        yield


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Jobs stay in the test's own folder.

    The embedding model computes in fp32, so that expected values do not depend on the machine's CPU. Scripted judges
    meet no controls: they know the sentences of the answer alone.
    """
    monkeypatch.setenv("PLUMBLINE_DATA_DIR", str(tmp_path / "plumbline-data"))
    monkeypatch.setenv("PLUMBLINE_EMBEDDING_PRECISION", "fp32")
    monkeypatch.setenv("PLUMBLINE_LLM_CONTROLS", "false")


@pytest.fixture(scope="session")
def document() -> dict[str, Any]:
    """The OpenAPI document of a plain service, built once: tests read it."""
    return dict(json.loads(json.dumps(create_app(plain_settings(), encoder=WordEncoder()).openapi())))


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Commands configure the process's logging; the streams that it then holds are closed after a test."""
    root, level = logging.getLogger(), logging.getLogger().level
    handlers = root.handlers[:]
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
async def judge() -> AsyncIterator[ScriptedJudge]:
    async with ScriptedJudge() as judge:
        yield judge


@pytest.fixture(scope="session")
def real_encoder() -> Iterator[SharedEncoder]:
    """The bundled model, loaded on first use, once for all tests that ask for it."""
    encoder = SharedEncoder()
    yield encoder
    encoder.close()


@pytest.fixture
async def real_service(real_encoder: SharedEncoder) -> AsyncIterator[httpx2.AsyncClient]:
    """The service without a judge, with the bundled model."""
    async with running(plain_settings(deadline_seconds=60), encoder=real_encoder) as client:
        yield client


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL of our own, started once for all tests that ask for it; tests are kept apart by their schemas."""
    require_postgres()
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_stores(postgres_server: PostgresServer, tmp_path: Path) -> PostgresStores:
    """Stores in a schema of this test's own."""
    return PostgresStores(postgres_server.url, tmp_path / "jobs")


@pytest.fixture
def postgres_own_server() -> Iterator[PostgresServer]:
    """A PostgreSQL for one test alone, which may kill it."""
    require_postgres()
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_own_stores(postgres_own_server: PostgresServer, tmp_path: Path) -> PostgresStores:
    """Stores on the server that is this test's own."""
    # Of a lease that was given as the server was killed nobody may have heard.
    return PostgresStores(postgres_own_server.url, tmp_path / "jobs", lease_seconds=3.0)


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    """Every store in turn: what a test says of one it says of all."""
    if request.param == "sqlite":
        return SqliteStores(tmp_path / "jobs")
    found: Stores = request.getfixturevalue("postgres_stores")
    return found
