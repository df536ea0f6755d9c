"""What a driver's settings mean on its workers: plain data travels, keys and addresses of judges do not."""

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel

from plumbline.ground.settings import Settings, load_settings

# Each process reads these from its own environment. A judge's address may hold a password.
_JUDGES: Final = frozenset({"llm_api_key", "dashscope_api_key", "llm_base_url", "llm_fallbacks", "llm_judges"})
OWN: Final = _JUDGES | {"api_keys", "database_url"}
# What decides a result, with the options and the judges; another value makes it another task.
_DECIDING: Final = (
    "threshold",
    "row_deadline_seconds",
    "calibration",
    "llm_provider",
    "llm_model",
    "llm_max_output_tokens",
    "llm_context_tokens",
    "llm_prices",
    "llm_max_cost",
    "prompts_dir",
    "embedding_model",
    "embedding_precision",
    "embedding_max_windows",
    "max_contexts",
    "max_context_characters",
    "max_answer_characters",
    "max_question_characters",
)
# Limits of one process, of which each of several is given a part.
_SHARED_OUT: Final = ("llm_rpm", "llm_tpm", "llm_max_concurrency")


def sent_settings(settings: Settings) -> dict[str, object]:
    """The settings as JSON values, without any that is or may hold a secret."""
    return settings.model_dump(mode="json", exclude=set(OWN))


def deciding_settings(settings: Settings) -> dict[str, object]:
    """Those that decide a result, as JSON values; judges are a digest."""
    values = settings.model_dump(mode="json", include=set(_DECIDING))
    return {**values, "judges": judges_digest(settings)}


def received_settings(sent: Mapping[str, object]) -> Settings:
    """A driver's settings with the keys of this process's environment.

    Raises:
        ConfigurationError: a variable of this process is wrong.
    """
    own = load_settings()
    return Settings.model_validate({**sent, **{name: getattr(own, name) for name in OWN}})


def share_of(settings: Settings, workers: int) -> Settings:
    """The settings of one of so many workers: its part of requests and tokens a minute and of calls at one time.

    A part is rounded down, but never below 1: with more workers than requests a minute the limit is exceeded.
    """
    limits = {name: getattr(settings, name) for name in _SHARED_OUT}
    parts = {name: max(1, limit // workers) for name, limit in limits.items() if limit is not None}
    return settings.model_copy(update=parts)


def judges_digest(settings: Settings) -> str:
    """The same for two processes that ask the same judges; says whether each has a key, not which."""
    told = {name: _without_keys(getattr(settings, name)) for name in sorted(_JUDGES)}
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()


def _without_keys(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _without_keys(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_without_keys(each) for each in value]
    if hasattr(value, "get_secret_value"):
        return "a key"
    return _without_keys(dict(value)) if isinstance(value, BaseModel) else value
