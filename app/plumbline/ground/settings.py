"""Every knob: name, default, unit and one line of help. Read from the environment, prefix `PLUMBLINE_`."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from plumbline.ground.errors import ConfigurationError
from plumbline.ground.judge_settings import DEFAULT_JUDGE, FROM_JSON, WITH_NAMES, LlmEndpoint, ModelPrice, ProviderName

__all__ = [
    "DEFAULT_JUDGE",
    "LlmEndpoint",
    "ModelPrice",
    "ProviderName",
    "Settings",
    "load_settings",
    "unknown_variables",
    "variable_name",
]

PREFIX = "PLUMBLINE_"


class Settings(BaseSettings):
    """The settings of one process. Frozen: a change takes a restart."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", populate_by_name=True, env_ignore_empty=True
    )

    # --- who may call
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        default=(),
        description="Comma-separated API keys for everything, 16 characters or more each, beside those of "
        "`plumbline keys`; no key at all: loopback only.",
    )
    allow_anonymous: bool = Field(
        default=False,
        description="Serve without keys beyond loopback too. Only where something in front checks callers.",
    )

    keys_file: Path | None = Field(
        default=None,
        description="File of the keys that `plumbline keys` makes, mode 0600; empty: `keys.json` in the data folder.",
    )
    key_requests_per_minute: int | None = Field(
        default=None, ge=1, description="Requests a minute of a key that has no limit of its own; empty: no limit."
    )
    key_concurrency: int | None = Field(
        default=None, ge=1, description="Requests under way at one time of such a key; empty: no limit."
    )
    key_tokens_per_day: int | None = Field(
        default=None, ge=1, description="Tokens of judges that such a key may use a day (UTC); empty: no limit."
    )
    key_cost_per_day: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="What such a key may spend a day (UTC), in the currency of the prices; empty: no limit.",
    )
    max_concurrent_requests: int = Field(
        default=1_000,
        ge=1,
        description="Requests under /v1 under way at one time, those of all callers together; beyond them 503.",
    )

    max_connections: int = Field(
        default=2_048,
        ge=1,
        description="Connections at one time; beyond them those go that the service has waited for longest.",
    )

    # --- what a request may hold
    max_body_bytes: int = Field(default=4_194_304, ge=1024, description="Bytes of one request body.")
    max_retrieval_body_bytes: int = Field(
        default=157_286_400, ge=1024, description="Bytes of one body under /v1/retrieval."
    )
    max_batch_body_bytes: int = Field(default=33_554_432, ge=1024, description="Bytes of one body with a batch.")
    max_batch_samples: int = Field(default=1_000, ge=1, le=100_000, description="Samples of one batch.")
    max_job_body_bytes: int = Field(
        default=4_294_967_296, ge=1024, description="Bytes of one body with the rows of a job, written as they arrive."
    )
    body_timeout_seconds: float = Field(
        default=15.0,
        gt=0,
        le=600,
        description="Seconds in which a body must have arrived; of one with the rows of a job, the next 16,384 bytes.",
    )
    workers: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Processes of `plumbline serve`: they share budgets and caches, and divide limits on concurrency.",
    )
    drain_seconds: int = Field(
        default=20, ge=1, le=600, description="Seconds that answers under way get at SIGTERM; then they are 503."
    )
    max_contexts: int = Field(default=200, ge=1, description="Contexts of one sample.")
    max_context_characters: int = Field(default=1_000_000, ge=1, description="Characters of all contexts together.")
    max_answer_characters: int = Field(
        default=50_000, ge=1, description="Characters of the answer (and of a reference)."
    )
    max_question_characters: int = Field(default=10_000, ge=1, description="Characters of the question.")

    # --- scoring
    threshold: float = Field(default=0.5, ge=0, le=1, description="Faithfulness from which `passed` is true.")
    deadline_seconds: float = Field(
        default=20.0, gt=0, le=600, description="Seconds for one sample, all tiers together."
    )
    row_deadline_seconds: float = Field(
        default=300.0,
        gt=0,
        le=600,
        description="Seconds for one row of a job or a file, all tiers together, from its turn: nobody waits for it.",
    )
    batch_concurrency: int = Field(
        default=64, ge=1, le=10_000, description="Samples of batches judged at one time, those of all batches together."
    )
    data_dir: Path = Field(
        default=Path("plumbline-data"),
        description="Folder of jobs, with their answers, contexts and results, mode 0700; made with the first job.",
    )
    database_url: SecretStr | None = Field(
        default=None,
        description="PostgreSQL that keeps jobs, for several machines: `postgresql://user:password@host/name`; empty: "
        "files in the data folder.",
    )
    job_concurrency: int = Field(
        default=64,
        ge=0,
        le=10_000,
        description="Rows of jobs scored at one time; 0: this process takes jobs and works on none.",
    )
    calibration: Path | None = Field(default=None, description="Calibration file to use in place of the built-in one.")

    # --- tier llm
    llm_provider: ProviderName = Field(
        default="dashscope",
        description="`dashscope`, `dashscope-intl`, `openai`; with a base URL `azure`, `vllm`, `llamacpp`, `ollama`, "
        "`generic`.",
    )
    llm_api_key: SecretStr | None = Field(default=None, description="Key of the judge's provider.")
    dashscope_api_key: SecretStr | None = Field(
        default=None,
        validation_alias="DASHSCOPE_API_KEY",
        description="Key of DashScope, used with its two providers alone, where no judge key is set.",
    )
    llm_base_url: str | None = Field(default=None, description="Base URL in place of the provider's own.")
    llm_model: str | None = Field(default=None, description="Model in place of the provider's default.")
    llm_max_output_tokens: int = Field(default=4096, ge=64, description="Tokens that one reply may have.")
    llm_context_tokens: int | None = Field(
        default=None, ge=1_024, description="Tokens of a request and its reply together; empty: the provider's usual."
    )
    llm_fallbacks: Annotated[tuple[LlmEndpoint, ...], NoDecode, FROM_JSON] = Field(
        default=(),
        description="JSON list of `{provider, base_url, api_key, model, context_tokens}`: asked in order when the "
        "judge cannot answer.",
    )
    llm_judges: Annotated[Mapping[str, tuple[LlmEndpoint, ...]] | None, NoDecode, FROM_JSON, WITH_NAMES] = Field(
        default=None, description="JSON object of further judges that requests may name, each with such a list."
    )
    llm_max_concurrency: int = Field(
        default=64, ge=1, le=10_000, description="Calls under way at one time, for each address, model and key."
    )
    llm_backoff_seconds: float = Field(
        default=0.5, gt=0, le=60, description="Longest wait before the first retry; it doubles for each further one."
    )
    llm_rpm: int | None = Field(
        default=None, ge=1, description="Requests a minute, for each address, model and key; empty: no budget."
    )
    llm_tpm: int | None = Field(
        default=None, ge=1, description="Tokens a minute, for each address, model and key; empty: no budget."
    )
    llm_prices: Annotated[Mapping[str, ModelPrice] | None, NoDecode, FROM_JSON] = Field(
        default=None, description="JSON object: model to `{input, output, cached}`, the prices of a million tokens."
    )
    llm_max_cost: float | None = Field(
        default=None, gt=0, description="What the judges of one sample may cost, in the currency of the prices."
    )
    prompts_dir: Path | None = Field(default=None, description="Folder of prompts in place of the built-in ones.")

    # --- tier embedding
    embedding_model: str | None = Field(
        default=None,
        description="Path or hub id of a sentence-transformers model; empty: bundled weights, then the hub.",
    )
    embedding_backend: Literal["auto", "torch", "openvino"] = Field(
        default="auto",
        description="What runs that model: `torch`, `openvino` (extra); `auto`: PyTorch on a GPU, else OpenVINO where "
        "it is installed.",
    )
    embedding_precision: Literal["fp32", "bf16"] = Field(
        default="fp32",
        description="Arithmetic of that model; `bf16` is several times as fast, see docs/performance.md.",
    )
    embedding_threads: int | None = Field(
        default=None, ge=1, le=256, description="Threads that run that model; empty: one for each core."
    )
    embedding_cache_bytes: int = Field(
        default=268_435_456, ge=0, description="Bytes of vectors of sentences kept in memory; 0 keeps none."
    )
    embedding_cache_path: Path | None = Field(
        default=None,
        description="File that keeps those vectors beyond the process, mode 0600, of as many bytes; empty: none.",
    )
    embedding_queue_seconds: float = Field(
        default=10.0,
        gt=0,
        le=600,
        description="Seconds of work that may wait for that model; a request beyond is refused with 503.",
    )
    embedding_max_windows: int = Field(
        default=2_000, ge=1, description="Context windows and sentences that one sample may have encoded."
    )
    warm_up: bool = Field(default=True, description="Load the embedding model in the background at start-up.")
    cpu_threads: int = Field(default=2, ge=1, description="Threads for segmentation and the lexical tier.")

    # --- cache
    cache_path: Path | None = Field(
        default=None, description="File that keeps verdicts of tier llm, with quotes, mode 0600; empty: memory."
    )
    cache_max_bytes: int = Field(default=268_435_456, ge=1_048_576, description="Bytes of kept verdicts.")
    cache_ttl_seconds: int = Field(
        default=604_800, ge=0, description="Seconds for which a verdict is kept; 0 keeps none."
    )

    # --- logs and traces
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="INFO", description="Lowest level logged.")
    tracing: Literal["off", "otlp"] = Field(
        default="off",
        description="`otlp`: spans go where OpenTelemetry's own `OTEL_*` variables say; needs `pip install "
        "'plumbline-rag[otel]'`.",
    )

    @field_validator("api_keys", mode="before")
    @classmethod
    def _split_keys(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("api_keys")
    @classmethod
    def _keys_are_long(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(key.get_secret_value()) < _MIN_KEY_LENGTH for key in keys):
            raise PydanticCustomError("short_key", f"every key needs {_MIN_KEY_LENGTH} characters or more")
        return keys


_MIN_KEY_LENGTH = 16


def load_settings() -> Settings:
    """The settings of the environment.

    Raises:
        ConfigurationError: naming every wrong variable in one line; values are not shown, one may be a key.
    """
    try:
        return Settings()
    except ValidationError as error:
        problems = "; ".join(
            f"{variable_name(_first(e['loc']))}: {_inside(e['loc'])}{e['msg']}"
            for e in error.errors(include_input=False)
        )
        raise ConfigurationError(problems) from None


def unknown_variables(names: Iterable[str]) -> list[str]:
    """One line for each name that looks like a setting and is none, with the nearest setting where one is close."""
    known = [variable_name(field) for field in Settings.model_fields]
    lines = []
    for name in sorted(names):
        if name.startswith(PREFIX) and name not in known:
            close = get_close_matches(name, known, n=1)
            lines.append(f"unknown setting {name}" + (f"; did you mean {close[0]}?" if close else ""))
    return lines


def variable_name(field: str) -> str:
    """The environment variable of a field: `max_body_bytes` -> `PLUMBLINE_MAX_BODY_BYTES`."""
    alias = Settings.model_fields[field].validation_alias if field in Settings.model_fields else field
    return alias if isinstance(alias, str) else PREFIX + field.upper()


def _first(location: tuple[int | str, ...]) -> str:
    return str(location[0]) if location else "settings"


def _inside(location: tuple[int | str, ...]) -> str:
    """The place inside a variable's JSON; names that the user wrote there are left out, one may be a key."""
    ours = LlmEndpoint.model_fields.keys() | ModelPrice.model_fields.keys()
    places = [str(part) for part in location[1:] if isinstance(part, int) or part in ours]
    return f"{'.'.join(places)}: " if places else ""
