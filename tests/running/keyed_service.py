"""Keys in a folder of a test's own, and a service that has them."""

from pathlib import Path
from typing import Any

from plumbline.ground.settings import Settings
from plumbline.service.access.keys import KEYS_FILE_NAME, Scope, create_key
from tests.running.service import plain_settings

EVERYTHING = tuple(Scope)


def made_key(
    folder: Path, name: str, *scopes: Scope, expires_days: float | None = None, concurrency: int | None = None
) -> str:
    """The secret of a new key, for everything unless scopes are given."""
    path = folder / KEYS_FILE_NAME
    return create_key(path, name, scopes=scopes or EVERYTHING, concurrency=concurrency, expires_days=expires_days)


def with_key(secret: str) -> dict[str, str]:
    """The headers that send a key."""
    return {"Authorization": f"Bearer {secret}"}


def keyed_settings(folder: Path, **knobs: Any) -> Settings:
    """Settings of a service without a judge that has the keys of the folder."""
    return plain_settings(data_dir=folder, **knobs)
