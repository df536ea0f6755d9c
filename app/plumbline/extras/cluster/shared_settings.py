"""Settings of a driver on its workers: plain data is sent, keys and addresses of judges are not."""

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel

from plumbline.ground.settings import Settings, load_settings

# Read by each process from its own environment. A judge's address may hold a password.
_JUDGES: Final = frozenset(
    {"llm_api_key", "dashscope_api_key", "llm_base_url", "llm_extra_headers", "llm_fallbacks", "llm_judges"}
)
_EMBEDDINGS: Final = frozenset({"embedding_api_key", "embedding_base_url"})
_VENDOR_KEYS: Final = frozenset(name for name in Settings.model_fields if name.endswith("_api_key")) - _EMBEDDINGS
OWN: Final = _JUDGES | _EMBEDDINGS | _VENDOR_KEYS | {"api_keys", "database_url"}
# Limits of one process that several processes divide.
_SHARED_OUT: Final = (
    *("llm_rpm", "llm_tpm", "llm_max_concurrency"),
    *("embedding_rpm", "embedding_tpm", "embedding_max_concurrency"),
)


def sent_settings(settings: Settings) -> dict[str, object]:
    """Return the settings as JSON values, without any that may hold a secret."""
    return settings.model_dump(mode="json", exclude=set(OWN))


def received_settings(sent: Mapping[str, object]) -> Settings:
    """Return a driver's settings with the keys of this process's environment.

    Raises:
        ConfigurationError: a variable of this process is wrong.
    """
    own = load_settings()
    return Settings.model_validate({**sent, **{name: getattr(own, name) for name in OWN}})


def share_limits(settings: Settings, workers: int) -> Settings:
    """Return the settings of one worker: its part of the requests and tokens a minute and of concurrent calls.

    A part is rounded down, but at least 1: with more workers than requests a minute the limit is exceeded.
    """
    limits = {name: getattr(settings, name) for name in _SHARED_OUT}
    parts = {name: max(1, limit // workers) for name, limit in limits.items() if limit is not None}
    return settings.model_copy(update=parts)


def judges_digest(settings: Settings) -> str:
    """Return a digest of the judges and the embeddings API; it covers if each has a key, not the key."""
    chosen = {name for name in _VENDOR_KEYS if getattr(settings, name) is not None}
    told = {name: _without_keys(getattr(settings, name)) for name in sorted(_JUDGES | _EMBEDDINGS | chosen)}
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()


def _without_keys(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _without_keys(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_without_keys(each) for each in value]
    if hasattr(value, "get_secret_value"):
        return "a key"
    return _without_keys(dict(value)) if isinstance(value, BaseModel) else value
