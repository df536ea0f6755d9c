"""Every knob: name, default, unit and one line of help. Read from the environment, prefix `PLUMBLINE_`."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.errors import ConfigurationError

PREFIX = "PLUMBLINE_"

ProviderName = Literal["dashscope", "dashscope-intl", "openai", "generic"]


class Settings(BaseSettings):
    """The settings of one process. Frozen: a change takes a restart."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", populate_by_name=True, env_ignore_empty=True
    )

    # --- who may call
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        default=(), description="Comma-separated API keys, 16 characters or more each; empty: loopback only."
    )
    allow_anonymous: bool = Field(
        default=False,
        description="Serve without keys beyond loopback too. Only where something in front checks callers.",
    )

    # --- what a request may hold
    max_body_bytes: int = Field(default=4_194_304, ge=1024, description="Bytes of one request body.")
    max_retrieval_body_bytes: int = Field(
        default=157_286_400, ge=1024, description="Bytes of one body under /v1/retrieval."
    )
    body_timeout_seconds: float = Field(
        default=15.0, gt=0, le=600, description="Seconds in which a body must have arrived."
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
    calibration: Path | None = Field(default=None, description="Calibration file to use in place of the built-in one.")

    # --- tier llm
    llm_provider: ProviderName = Field(
        default="dashscope", description="`dashscope`, `dashscope-intl`, `openai`, or `generic` with a base URL."
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
    prompts_dir: Path | None = Field(default=None, description="Folder of prompts in place of the built-in ones.")

    # --- tier embedding
    embedding_model: str | None = Field(
        default=None,
        description="Path or hub id of a sentence-transformers model; empty: bundled weights, then the hub.",
    )
    embedding_max_windows: int = Field(
        default=2_000, ge=1, description="Context windows and sentences that one sample may have encoded."
    )
    warm_up: bool = Field(default=True, description="Load the embedding model in the background at start-up.")
    cpu_threads: int = Field(default=2, ge=1, description="Threads for segmentation and the lexical tier.")

    # --- logs
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="INFO", description="Lowest level logged.")

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
            f"{variable_name(_first(e['loc']))}: {e['msg']}" for e in error.errors(include_input=False)
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
