"""Every setting: name, default, unit and one line of help. Read from the environment, prefix `PLUMBLINE_`."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from plumbline.ground.errors import ConfigurationError
from plumbline.ground.judge_settings import (
    DecisionBounds,
    EmbeddingProviderName,
    ExtraBody,
    ExtraHeaders,
    JudgeKind,
    LlmEndpoint,
    ModelPrice,
    ProviderName,
    from_json,
    with_judge_names,
)
from plumbline.ground.processor import describe_cpu, has_bf16_instructions, has_nvidia_driver

PREFIX = "PLUMBLINE_"
_MIN_KEY_LENGTH = 16
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+")
CompatName = Literal["promptfoo", "litellm", "tool"]
# Variables before 0.3; CHANGELOG.md says what each gave way to.
_REMOVED: Final = frozenset(
    {
        *("CACHE_MAX_BYTES", "CPU_THREADS", "DETECTOR_API_KEY", "DETECTOR_CACHE_BYTES", "DETECTOR_PRECISION"),
        *("DETECTOR_URL", "EMBEDDING_BATCH_SIZE", "EMBEDDING_CACHE_BYTES", "EMBEDDING_CACHE_PATH"),
        *("EMBEDDING_DIMENSIONS", "EMBEDDING_MAX_CONCURRENCY", "EMBEDDING_MAX_WINDOWS", "EMBEDDING_QUEUE_SECONDS"),
        *("EMBEDDING_RPM", "EMBEDDING_TIMEOUT_SECONDS", "EMBEDDING_TPM", "KEY_COST_PER_DAY"),
        *("KEY_REQUESTS_PER_MINUTE", "KEY_TOKENS_PER_DAY", "MAX_CONNECTIONS", "PROMPTS_DIR", "PROMPTS_VERSION"),
    }
)
# Likeness from which an unknown variable is a mistake: THRESHHOLD .95, APIKEY .95, LLM_URL .74; SERVICE_HOST has .45.
_MISTYPED: Final = 0.7


_Count = Annotated[int, Field(ge=1)]
_Seconds = Annotated[float, Field(gt=0, le=600)]


class Settings(BaseSettings):
    """The settings of one process. Frozen: a change takes a restart."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", env_ignore_empty=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read arguments and environment alone: files that are not there would take half of the time."""
        return init_settings, env_settings

    # --- who may call
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        (),
        description="Comma-separated API keys for everything, 16 characters or more each, besides those of "
        "`plumbline keys`; no key at all: loopback only.",
    )
    allow_anonymous: bool = Field(
        False, description="Serve without keys beyond loopback too. Only where something in front checks callers."
    )
    keys_file: Path | None = Field(
        None,
        description="File of the keys that `plumbline keys` makes, mode 0600; empty: `keys.json` in the data folder.",
    )
    key_concurrency: _Count | None = Field(
        None, description="Maximum concurrent requests of a key that has no limit of its own; empty: no limit."
    )
    max_concurrent_requests: _Count = Field(
        1_000,
        description="Maximum concurrent requests under /v1, of all callers together; further ones get 503. Requests "
        "about jobs are counted apart, up to half as many.",
    )

    public_url: str | None = Field(
        None,
        description="URL by which callers reach the service, such as `https://host/plumbline`: the `servers` of "
        "`/openapi.json`; empty: none.",
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Comma-separated origins, such as `https://app.example`, whose pages may call the service from a "
        "browser; `*`: all; empty: none.",
    )
    compat: Annotated[tuple[CompatName, ...], NoDecode] = Field(
        (), description=f"Comma-separated contracts under `/v1/compat/`: {', '.join(get_args(CompatName))}."
    )

    # --- what a request may hold
    max_body_bytes: int = Field(4_194_304, ge=1024, description="Maximum bytes of a request body.")
    max_retrieval_body_bytes: int = Field(
        16_777_216,
        ge=1024,
        description="Maximum bytes of a body under /v1/retrieval, and of what its files expand to; it is read in a "
        "thread. Commands read files of any size.",
    )
    max_batch_body_bytes: int = Field(33_554_432, ge=1024, description="Maximum bytes of a batch's body.")
    max_batch_samples: int = Field(1_000, ge=1, le=100_000, description="Maximum samples of a batch.")
    max_job_body_bytes: int = Field(
        4_294_967_296,
        ge=1024,
        description="Maximum bytes of a job's upload, which is written to disk as it arrives.",
    )
    body_timeout_seconds: _Seconds = Field(
        15.0, description="Timeout in seconds for receiving a body; for a job's upload, for each 16,384 bytes."
    )
    workers: int = Field(
        1,
        ge=1,
        le=64,
        description="Processes of `plumbline serve`, each with its part of limits on concurrency and rates.",
    )
    drain_seconds: int = Field(
        20,
        ge=1,
        le=600,
        description="Seconds for graceful shutdown at SIGTERM; requests still running then get 503.",
    )
    max_contexts: _Count = Field(200, description="Maximum contexts of a sample.")
    max_context_characters: _Count = Field(1_000_000, description="Maximum characters of all contexts together.")
    max_answer_characters: _Count = Field(50_000, description="Maximum characters of the answer (and of a reference).")
    max_question_characters: _Count = Field(10_000, description="Maximum characters of the question.")

    # --- scoring
    threshold: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Minimum faithfulness for `passed` to be true, in every tier; empty: the tier's own rule.",
    )
    deadline_seconds: _Seconds = Field(20.0, description="Deadline in seconds for one sample, all tiers together.")
    row_deadline_seconds: _Seconds = Field(
        300.0,
        description="Deadline in seconds for one row of a job or a file, all tiers together, counted from its start. "
        "It stands still while a judge asks for patience and answers others.",
    )
    batch_concurrency: int = Field(
        64, ge=1, le=10_000, description="Maximum samples evaluated concurrently, of all batches together."
    )
    data_dir: Path = Field(
        Path("plumbline-data"),
        description="Folder for jobs with their answers, contexts and results, mode 0700; created with the first job.",
    )
    database_url: SecretStr | None = Field(
        None,
        description="PostgreSQL that keeps jobs, for several machines: "
        "`postgresql://user:password@host/name`; empty: a file in the data folder keeps jobs.",
    )
    job_concurrency: int = Field(
        64,
        ge=0,
        le=10_000,
        description="Maximum rows of jobs scored concurrently; 0: accept jobs and leave the work to workers.",
    )
    calibration: Path | None = Field(None, description="Calibration file that replaces the built-in one.")

    # --- tier llm
    llm_provider: ProviderName = Field(
        "dashscope",
        description="`dashscope`, `dashscope-intl`, `openai`, `deepseek`, `gemini`, `moonshot`, `zhipu`, "
        "`siliconflow`, `openrouter`, `ollama`; with a base URL `azure`, `vllm`, `llamacpp`, `sglang`, `litellm`, "
        "`generic`.",
    )
    llm_api_key: SecretStr | None = Field(
        None,
        description="API key of the judge's provider; empty: that of the provider's own variable, `DASHSCOPE_API_KEY`, "
        "`OPENAI_API_KEY`, `DEEPSEEK_API_KEY`, `GEMINI_API_KEY`, `MOONSHOT_API_KEY`, `ZHIPUAI_API_KEY`, "
        "`SILICONFLOW_API_KEY`, `OPENROUTER_API_KEY` or `AZURE_OPENAI_API_KEY`.",
    )
    llm_base_url: str | None = Field(None, description="Base URL that replaces the provider's.")
    llm_model: str | None = Field(None, description="Model that replaces the provider's default.")
    llm_api: JudgeKind | None = Field(
        None,
        description="`chat`, or of decision models `decisions` (OpenAI's) or `systemone`; empty: `chat`, until the "
        "address refuses it and names another.",
    )
    llm_extra_headers: Annotated[ExtraHeaders | None, NoDecode, BeforeValidator(from_json)] = Field(
        None,
        description="JSON object: headers for the judge's address besides ours, `X-DashScope-DataInspection` for "
        "example, or in their place; values are secrets.",
    )
    llm_extra_body: Annotated[ExtraBody | None, NoDecode, BeforeValidator(from_json)] = Field(
        None,
        description="JSON object: fields of the judge's requests besides ours, `reasoning_effort` or `seed` for "
        "example, or in their place; null leaves a field out.",
    )
    llm_max_output_tokens: int = Field(4096, ge=64, description="Maximum tokens of a reply.")
    llm_context_tokens: int | None = Field(
        None,
        ge=1_024,
        description="Context window: tokens of a request and its reply together; empty: the provider's default.",
    )
    llm_fallbacks: Annotated[tuple[LlmEndpoint, ...], NoDecode, BeforeValidator(from_json)] = Field(
        (),
        description="JSON list of `{provider, base_url, api_key, model, api, context_tokens, extra_headers, "
        "extra_body}`: called in order when the judge fails.",
    )
    llm_judges: Annotated[
        Mapping[str, tuple[LlmEndpoint, ...]] | None,
        NoDecode,
        BeforeValidator(from_json),
        AfterValidator(with_judge_names),
    ] = Field(None, description="JSON object: names of further judges that requests may select, each with such a list.")
    llm_max_concurrency: int = Field(
        64, ge=1, le=10_000, description="Maximum concurrent calls for each base URL, model and key."
    )
    llm_rpm: _Count | None = Field(
        None,
        description="Rate limit of this process in requests per minute for each base URL, model and key; empty: none.",
    )
    llm_tpm: _Count | None = Field(
        None,
        description="Rate limit of this process in tokens per minute for each base URL, model and key; empty: none.",
    )
    llm_prices: Annotated[Mapping[str, ModelPrice] | None, NoDecode, BeforeValidator(from_json)] = Field(
        None,
        description="JSON object: model to `{input, output, cached}`, prices per million tokens; of embeddings too.",
    )
    llm_max_cost: float | None = Field(
        None, gt=0, description="Budget for the judge calls of one sample, in the currency of the prices."
    )
    llm_escalation: str | None = Field(
        None, description="Name of the judge that is asked as `escalation` where a request names none."
    )
    llm_bounds: Annotated[Mapping[str, DecisionBounds] | None, NoDecode, BeforeValidator(from_json)] = Field(
        None,
        description="JSON object: decision model to `{fails, passes, share}`, the support of a sentence up to which it "
        "fails and from which it passes without escalation; `plumbline rate threshold` prints it. Empty: .1 and .9, "
        "with the flag `uncalibrated`.",
    )
    llm_controls: bool = Field(
        True,
        description="Each question holds one sentence that no context supports and one copied from a context; a judge "
        "that gets one wrong twice fails with `controls_failed`, and the next tier answers.",
    )

    # --- tier detector
    detector: str | None = Field(
        None,
        description="Detector of hallucination that is asked between the judge and the embedding model: the short "
        "name, path or hub id of a known one (`hhem-2.1-open`), or a description (`.toml`). Empty: none.",
    )
    detector_model: str | None = Field(
        None, description="Path or hub id of its weights, in place of the description's."
    )

    # --- tier embedding
    embedding_model: str | None = Field(
        None,
        description="Path or hub id of a sentence-transformers model; empty: bundled weights, then the hub. With a "
        "server: its model.",
    )
    embedding_languages: Annotated[tuple[Literal["en", "zh", "other"], ...], NoDecode] = Field(
        (),
        description="Comma-separated languages that the model reads: `en`, `zh`, `other`; empty: known by the model's "
        "name, all of them for an unknown name.",
    )
    embedding_provider: EmbeddingProviderName | None = Field(
        None,
        description="`local`, or the server whose `/embeddings` is called: `dashscope`, `dashscope-intl`, `openai`; "
        "with a base URL `azure`, `vllm`, `llamacpp`, `ollama`, `tei`, `generic`. `local+dashscope`, and the other two "
        "alike: the server for what the local model does not read, such as Chinese. Empty: `generic` if there is a "
        "base URL, else `local`.",
    )
    embedding_base_url: str | None = Field(
        None, description="Base URL of the OpenAI-compatible server that makes the vectors."
    )
    embedding_api_key: SecretStr | None = Field(
        None,
        description="API key of that server; empty: the key that the provider's own variable holds, as for judges.",
    )
    embedding_max_tokens: int | None = Field(
        None,
        ge=16,
        description="Tokens that the server's model reads of a text; longer texts are cut, with a warning; empty: the "
        "provider's limit, 512 for servers of one's own.",
    )
    embedding_backend: Literal["auto", "torch", "openvino"] = Field(
        "auto",
        description="Runtime of the embedding model: `torch`, `openvino` (extra); `auto`: "
        "PyTorch on a GPU, else OpenVINO if it is installed.",
    )
    embedding_precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto",
        validate_default=True,
        description="Precision of the embedding model on a CPU; `auto`: `bf16` if the CPU has instructions for it, "
        "which is several times as fast, else `fp32`. See docs/explanation/performance.md.",
    )
    embedding_threads: int | None = Field(
        None, ge=1, le=256, description="Threads of the embedding model; empty: one per core."
    )
    warm_up: bool = Field(True, description="Load the embedding model in the background at start-up.")

    # --- cache
    cache_path: Path | None = Field(
        None, description="File that persists the cache of judge verdicts, with quotes, mode 0600; empty: in memory."
    )
    cache_ttl_seconds: int = Field(
        604_800, ge=0, description="Time to live of a cached verdict, in seconds; 0 disables the cache."
    )

    # --- logs and traces
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Minimum level of logged events."
    )
    tracing: Literal["off", "otlp"] = Field(
        "off",
        description="`otlp` exports traces as OpenTelemetry's own `OTEL_*` variables configure; needs `pip install "
        "'plumbline-rag[otel]'`.",
    )

    @field_validator("embedding_precision")
    @classmethod
    def _choose_precision(
        cls, precision: Literal["auto", "fp32", "bf16"], info: ValidationInfo
    ) -> Literal["auto", "fp32", "bf16"]:
        """Resolve `auto` here, so that whatever shares these settings computes alike."""
        if precision != "auto":
            return precision
        is_on_gpu = info.data.get("embedding_backend") != "openvino" and has_nvidia_driver()
        return "bf16" if not is_on_gpu and has_bf16_instructions(describe_cpu()) else "fp32"

    @field_validator("cors_origins")
    @classmethod
    def _origins_are_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        if any(origin != "*" and not _ORIGIN.fullmatch(origin) for origin in origins):
            raise PydanticCustomError("origin", "expected origins such as https://app.example, without a path, or *")
        return origins

    @field_validator("api_keys", "embedding_languages", "cors_origins", "compat", mode="before")
    @classmethod
    def _split_list(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("api_keys")
    @classmethod
    def _keys_are_long(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(key.get_secret_value()) < _MIN_KEY_LENGTH for key in keys):
            raise PydanticCustomError("short_key", f"every key needs {_MIN_KEY_LENGTH} characters or more")
        return keys


def load_settings() -> Settings:
    """Load the settings from the environment.

    Raises ConfigurationError naming every wrong variable in one line; values are not shown, one may be a key.
    """
    try:
        return Settings()
    except ValidationError as error:
        problems = "; ".join(
            f"{variable_name(str(e['loc'][0])) if e['loc'] else 'settings'}: {_inside(e['loc'])}{e['msg']}"
            for e in error.errors(include_input=False)
        )
        raise ConfigurationError(problems) from None


def unknown_variables(names: Iterable[str]) -> list[str]:
    """List the unknown PLUMBLINE_* variables, which Kubernetes makes of a service's name, too.

    Raises ConfigurationError for one that is all but a setting, or was one.
    """
    known = {variable_name(field).removeprefix(PREFIX) for field in Settings.model_fields}
    unknown = sorted(name for name in names if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in known)
    for name in unknown:
        if name.removeprefix(PREFIX) in _REMOVED:
            raise ConfigurationError(f"{name} is no setting since 0.3; unset it, the changelog says what to use")
        if close := get_close_matches(name.removeprefix(PREFIX), known, n=1, cutoff=_MISTYPED):
            raise ConfigurationError(f"unknown setting {name}; did you mean {PREFIX}{close[0]}?")
    return unknown


def variable_name(field: str) -> str:
    """Return the environment variable of a field: `max_body_bytes` -> `PLUMBLINE_MAX_BODY_BYTES`."""
    return PREFIX + field.upper()


def _inside(location: tuple[int | str, ...]) -> str:
    """Return the place inside a variable's JSON, without names that the user wrote: one may be a key."""
    ours = LlmEndpoint.model_fields.keys() | ModelPrice.model_fields.keys()
    places = [str(part) for part in location[1:] if isinstance(part, int) or part in ours]
    return f"{'.'.join(places)}: " if places else ""
